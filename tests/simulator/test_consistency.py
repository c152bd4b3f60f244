"""References between records of the simulated account are consistent."""

from __future__ import annotations

import pytest

from integration.catalogue import RESOURCES
from tests.support.simulator_client import Client


def ids(client: Client, path: str, field: str = "id") -> set:
    return {row[field] for row in client.rows(path)}


# Relations to live calls are excluded, because those calls have ended.
REFERENCES = [
    (row.collection, relation.name, relation.target_collection)
    for row in RESOURCES
    if row.is_listed and row.name not in ("me", "call")
    for relation in row.relations
    if relation.target_collection not in ("calls", "callmeback/buttons") and not relation.is_includable
] + [
    ("chats", "operator_id", "users"),
    ("chats", "website_id", "callmeback/websites"),
    ("vmannouncements", "extension", "users"),
    ("voicemessages", "extension_id", "users"),
    ("calltracking/ddis", "campaign_id", "calltracking/campaigns"),
    ("callmeback/websites", "setting_id", "callmeback/settings"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "field", "to"), REFERENCES)
def test_an_id_in_a_reference_field_exists(world, name, field, to):
    known = ids(world, f"/{to}")
    rows = world.rows(f"/{name}")
    if name == "users":
        rows = [world.get(f"/users/{row['id']}").json()["data"] for row in rows]
    named = {row[field] for row in rows} - {None}
    assert named <= known
    if field not in ("rel_user_id",):
        assert named, "at least one record refers to another"


def test_recordings_and_voicemail_belong_to_cdrs(world):
    cdrs = {row["live_id"]: row for row in world.rows("/cdrs")}
    for monitor in world.rows("/monitors"):
        cdr = cdrs[monitor["live_id"]]
        assert (cdr["user_id"], max(1, cdr["billsec"])) == (monitor["user_id"], monitor["duration"])
    for message in world.rows("/voicemessages"):
        cdr = cdrs[message["live_id"]]
        assert cdr["disposition"] == "VM"
        assert cdr["billsec"] >= message["duration"]
    for cdr in cdrs.values():
        assert cdr["parent_live_id"] is None or cdr["parent_live_id"] in cdrs
        assert cdr["is_root"] == (cdr["live_id"] == cdr["root_live_id"])
        assert 0 <= cdr["billsec"] <= cdr["duration"]
        assert (cdr["type"] == "O") == (cdr["destination"] != "in")
        assert cdr["type"] != "M" or not cdr["billsec"]


def test_a_cdr_has_as_many_notes_as_its_count(world):
    noted = [cdr for cdr in world.rows("/cdrs") if cdr["nb_notes"]]
    assert noted
    for cdr in noted:
        assert len(world.rows(f"/cdrs/{cdr['id']}/notes")) == cdr["nb_notes"]
    labels = {label for cdr in world.rows("/cdrs") for label in cdr["labels"]}
    assert labels
    assert labels <= ids(world, "/calllabels", "name")


def test_ids_of_history_records_increase_with_time(world):
    for name, date in (
        ("cdrs", None),
        ("faxes", "created_at"),
        ("chats", "created_at"),
        ("sms", "created_at"),
    ):
        rows = world.rows(f"/{name}")
        assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)
        if date:
            assert [row[date] for row in rows] == sorted(row[date] for row in rows)
