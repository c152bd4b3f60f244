"""Visibility of records for roles, keys and the command line.

Roles are tested with both values of `dashboard.agents_see`.
"""

from __future__ import annotations

import re
import sqlite3
from dataclasses import replace
from types import SimpleNamespace

import pytest

from integration.access import visibility
from integration.access.keys import Key, KeyLimits
from integration.access.rights import RIGHTS, ROLES, compute_rights
from integration.access.visibility import UNLIMITED, NotAllowed
from integration.catalogue import RESOURCES, get_resource
from integration.mirror.calls.schema import CALLS
from integration.mirror.query.filters import Condition
from integration.mirror.query.query import Query

CAROL = 100
"""Platform user of each person and of the key with user scope."""
KEY = Key(
    name="reports", user_id=9000001, scope="read", collections=None, platform_user_id=None, created_at="",
    used_at=None, limits=KeyLimits(rights=frozenset(RIGHTS)),
)  # fmt: skip

SHARED = {
    "users", "usergroups", "pickupgroups", "ddis", "queues", "ringgroups", "queuegroups", "calllabels",
    "sms/cannedresponses",
}  # fmt: skip
"""Collections that are visible completely under `own` as well."""
OWN = {"contacts", "cdrs", "monitors", "voicemessages", "sms"}
"""Collections with a user: under `own` a person sees their own records."""
NOT_LIMITABLE = {"calls", "faxes"}
"""Collections without a user: closed under `own`."""
SUPERVISORS = {
    "aclroles", "usergrouppolicies", "ddis/calltracking", "conferences", "routingrules", "ivrs",
    "vmannouncements", "chats", "webcalls", "mediasessions", "msdrs", "calltracking/campaigns",
    "calltracking/ddis", "calltracking/cdrs", "cdrs/calltracking", "callmeback/settings",
    "callmeback/websites", "callmeback/visitors", "callmeback/cdrs", "me", "reportschedules",
    "mediasessions/dictionaries", "sms/dictionaries", "ddis/dictionaries", "ringgroups/dictionaries",
    "cdrs/dictionaries", "msdrs/dictionaries", "reportschedules/dictionaries",
}  # fmt: skip
EVERYTHING = SHARED | OWN | NOT_LIMITABLE | SUPERVISORS

# role, agents_see, collections, user scope of cdrs, of users, raw records
VIEWERS = [
    ("viewer", "all", SHARED | OWN | NOT_LIMITABLE, None, None, False),
    ("viewer", "own", SHARED | OWN, CAROL, None, False),
    ("agent", "all", SHARED | OWN | NOT_LIMITABLE, None, None, False),
    ("agent", "own", SHARED | OWN, CAROL, None, False),
    ("supervisor", "all", EVERYTHING, None, None, True),
    ("supervisor", "own", EVERYTHING, None, None, True),
    ("admin", "all", EVERYTHING, None, None, True),
    ("admin", "own", EVERYTHING, None, None, True),
    ("exports", "all", set(), None, None, False),
    ("exports", "own", set(), None, None, False),
]


def see(role="agent", agents_see="all", platform_user_id=CAROL, **rights):
    person = SimpleNamespace(
        role=role, rights=compute_rights(role, rights), platform_user_id=platform_user_id
    )
    return visibility.of(person, agents_see)


def test_every_collection_has_one_audience():
    assert sum(map(len, (SHARED, OWN, NOT_LIMITABLE, SUPERVISORS))) == len(EVERYTHING)
    assert {row.collection for row in RESOURCES if row.is_listed} == EVERYTHING


def test_table_has_every_role_with_both_settings():
    assert [(role, setting) for role in ROLES for setting in ("all", "own")] == [row[:2] for row in VIEWERS]


@pytest.mark.parametrize(("role", "agents_see", "collections", "of_cdrs", "of_users", "raw"), VIEWERS)
def test_role_sees_its_collections_records_and_fields(role, agents_see, collections, of_cdrs, of_users, raw):
    viewer = see(role, agents_see)
    assert viewer.collections == collections
    for row in RESOURCES:
        if row.is_listed:
            assert viewer.can_open(row) == (row.collection in collections), row.collection
    assert viewer.scope_of(get_resource("cdrs")) == viewer.scope_of(CALLS) == viewer.user_scope == of_cdrs
    assert viewer.scope_of(get_resource("users")) == of_users
    assert viewer.can_see_raw(get_resource("cdrs")) is raw
    assert viewer.can_see_item_fields(get_resource("users")) is raw
    assert viewer.can_see_item_fields(get_resource("cdrs"))
    private = {"mobile", "fm_targets"} & viewer.hidden_fields(get_resource("users"))
    assert private == (set() if raw else {"mobile", "fm_targets"})
    assert {"password", "pin"} <= viewer.hidden_fields(get_resource("users"))
    assert "src" not in viewer.hidden_fields(get_resource("cdrs"))


def test_own_scope_without_a_platform_user_matches_no_records():
    viewer = see(agents_see="own", platform_user_id=None)
    with sqlite3.connect(":memory:") as connection:
        query = viewer.restrict_query(connection, Query(get_resource("cdrs")))
    assert query.conditions == (Condition("user_id", "eq", -1),)


@pytest.mark.parametrize(
    ("viewer", "target", "right", "refusal"),
    [
        (see("agent"), "cdrs", None, "(right “export”). An administrator can grant it."),
        (see("agent", "own", export=True), "cdrs", None, None),
        (see("agent", "own", export=True), "faxes", None, "You can see only your own calls."),
        (see("agent", export=True), "ivrs", None, "IVRs are visible to supervisors and administrators only."),
        (see("supervisor", recordings=False), "monitors", "recordings", "(right “recordings”)"),
        (see("supervisor", "own"), "monitors", "recordings", None),
        (UNLIMITED, "me", "recordings", None),
    ],
)
def test_export_requires_the_right_and_the_collection(viewer, target, right, refusal):
    if refusal is None:
        viewer.check_export(get_resource(target), right)
        return
    with pytest.raises(NotAllowed, match=re.escape(refusal)):
        viewer.check_export(get_resource(target), right)


def test_command_line_and_unlimited_key_see_everything_except_secrets():
    for viewer in (visibility.of(None), visibility.of(None, "own"), visibility.of(KEY)):
        assert viewer == UNLIMITED
        assert viewer.collections == EVERYTHING
        assert viewer.can_see_raw(get_resource("monitors"))
        assert "mobile" not in viewer.hidden_fields(get_resource("users"))
        assert "password" in viewer.hidden_fields(get_resource("users"))


def test_key_limited_to_collections_sees_only_these():
    viewer = visibility.of(replace(KEY, collections=("cdrs", "sms/cannedresponses")))
    assert viewer.collections == {"cdrs", "sms/cannedresponses"}
    assert viewer.user_scope is None
