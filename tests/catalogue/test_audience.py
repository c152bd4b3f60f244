"""Who sees a collection, and whose its records are, is declared with the resource and nowhere else."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from types import SimpleNamespace

import pytest

from integration.access import user_scope, visibility
from integration.access.rights import ROLES, compute_rights
from integration.catalogue import RESOURCES, get_resource
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


def test_its_audience_opens_it():
    assert roles_that_open(replace(NEW, audience="agent")) == ["agent", "supervisor", "admin"]
    assert roles_that_open(replace(NEW, audience="admin")) == ["admin"]


@pytest.mark.parametrize(("is_shared", "roles"), [(False, ["supervisor", "admin"]), (True, list(ROLES))])
def test_without_a_user_key_only_shared_records_are_open_to_those_who_see_their_own(is_shared, roles):
    resource = replace(NEW, audience="viewer", is_shared=is_shared)
    assert roles_that_open(resource, "own") == roles


def test_its_user_key_limits_records_to_a_user():
    limited = replace(NEW, user_key="owner")
    with sqlite3.connect(":memory:") as connection:
        assert user_scope.filter_for(connection, limited, PLATFORM_USER) == Condition(
            "owner", "eq", PLATFORM_USER
        )
        with pytest.raises(ValueError, match="parcels"):
            user_scope.filter_for(connection, NEW, PLATFORM_USER)


def test_a_user_key_is_a_field():
    with pytest.raises(ValueError, match="'user_id' is not one of its fields"):
        replace(NEW, user_key="user_id")


def test_keys_of_users_reach_what_has_a_user_key():
    assert visibility.UNLIMITED.limited_to(PLATFORM_USER).collections == {
        "cdrs", "monitors", "sms", "msdrs", "mediasessions", "voicemessages", "contacts", "users",
    }  # fmt: skip


def test_private_fields_of_users_are_for_supervisors():
    assert [row.collection for row in RESOURCES if row.has_item_only_fields] == ["users"]
    assert see("agent", "all").hidden_fields(get_resource("users")) > {"mobile", "fm_targets"}
    assert get_resource("users").is_shared
    assert "mobile" not in see("supervisor", "all").hidden_fields(get_resource("users"))
