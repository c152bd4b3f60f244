"""Audience and user key of a resource decide who sees its records."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from types import SimpleNamespace

import pytest

from integration.access import user_scope, visibility
from integration.access.rights import ROLES, compute_rights
from integration.catalogue.shapes import Field, Resource
from integration.mirror.query.filters import Condition

PLATFORM_USER = 7
NEW = Resource("parcel", "parcels", "Parcel", fields=(Field("id", "integer"), Field("owner", "integer")))


def see(role, agents_see):
    person = SimpleNamespace(role=role, rights=compute_rights(role, {}), platform_user_id=PLATFORM_USER)
    return visibility.of(person, agents_see)


def roles_that_open(resource, agents_see="all"):
    return [role for role in ROLES if see(role, agents_see).can_open(resource)]


def test_a_new_collection_is_for_supervisors():
    assert roles_that_open(NEW) == ["supervisor", "admin"]


def test_the_audience_sets_the_roles_that_open_a_collection():
    assert roles_that_open(replace(NEW, audience="agent")) == ["agent", "supervisor", "admin"]
    assert roles_that_open(replace(NEW, audience="admin")) == ["admin"]


@pytest.mark.parametrize(
    ("is_shared", "roles"),
    [(False, ["supervisor", "admin"]), (True, ["viewer", "agent", "supervisor", "admin"])],
)
def test_with_agents_see_own_a_resource_without_user_key_is_open_to_agents_only_if_shared(is_shared, roles):
    resource = replace(NEW, audience="viewer", is_shared=is_shared)
    assert roles_that_open(resource, "own") == roles


def test_the_user_key_limits_records_to_one_user():
    limited = replace(NEW, user_key="owner")
    with sqlite3.connect(":memory:") as connection:
        assert user_scope.filter_for(connection, limited, PLATFORM_USER) == Condition(
            "owner", "eq", PLATFORM_USER
        )
        with pytest.raises(ValueError, match="parcels"):
            user_scope.filter_for(connection, NEW, PLATFORM_USER)


def test_a_user_key_that_is_not_a_field_is_rejected():
    with pytest.raises(ValueError, match="'user_id' is not one of its fields"):
        replace(NEW, user_key="user_id")
