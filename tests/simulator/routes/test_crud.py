"""Writes and deletions of the simulator, and their effect on later calls."""

from __future__ import annotations

import pytest

from tests.support.payloads.operation_bodies import GOOD, WAV
from tests.support.simulator_client import START, Client

ADMIN, BEN, DEV = 1000001, 1000002, 1000004

# Collections whose records can be created, changed and deleted.
COMPLETE_COLLECTIONS = (
    "/calllabels", "/sms/cannedresponses", "/vmannouncements", "/contacts", "/conferences", "/ringgroups",
    "/queuegroups", "/usergroups", "/usergrouppolicies", "/callmeback/settings", "/callmeback/buttons",
    "/reportschedules",
)  # fmt: skip


@pytest.mark.parametrize("path", COMPLETE_COLLECTIONS)
def test_a_created_record_is_returned_until_it_is_deleted(begin, path):
    client = begin()
    created = client.send("POST", path, json=GOOD[f"POST {path}"])
    assert created.status_code == 201, created.text
    own = f"{path}/{created.json()['data']['id']}"
    assert created.json()["links"]["self"] == own
    assert client.get(own).json()["data"] == created.json()["data"]
    change = GOOD[f"PATCH {path}/{{id}}"]
    changed = client.send("PATCH", own, json=change)
    assert changed.status_code == 200
    after = client.get(own).json()["data"]
    assert after == changed.json()["data"] == {**created.json()["data"], **after}
    assert {name: after[name] for name in change} == change
    if path != "/callmeback/buttons":
        assert after["id"] in [row["id"] for row in client.rows(path)]
    deleted = client.send("DELETE", own)
    assert (deleted.status_code, deleted.content) == (204, b"")
    for method, body in (("GET", None), ("PATCH", change), ("DELETE", None)):
        assert client.send(method, own, json=body).status_code == 404, method
    if path != "/callmeback/buttons":
        assert after["id"] not in [row["id"] for row in client.rows(path)]
    second = client.send("POST", path, json=GOOD[f"POST {path}"])
    assert second.json()["data"]["id"] == after["id"] + 1, "no id is used twice"


def test_an_ordinary_user_can_write_only_their_own_records(begin):
    client = begin()
    ben = Client(client.simulator, client.simulator.ordinary_user.api_key)
    for path in ("/calllabels", "/sms/cannedresponses", "/contacts"):
        record = ben.send("POST", path, json=GOOD[f"POST {path}"]).json()["data"]
        assert record["user_id"] == BEN
        assert ben.send("DELETE", f"{path}/{record['id']}").status_code == 204
    own = {**GOOD["POST /vmannouncements"], "extension_id": BEN, "data": WAV}
    assert ben.send("POST", "/vmannouncements", json=own).status_code == 201
    assert ben.send("POST", "/vmannouncements", json={**own, "extension_id": DEV}).status_code == 403
    shared = next(row for row in client.rows("/calllabels") if row["user_id"] is None)
    assert ben.get(f"/calllabels/{shared['id']}").status_code == 200
    assert ben.send("PATCH", f"/calllabels/{shared['id']}", json={"name": "Mine"}).status_code == 403


def test_a_bulk_change_with_an_unknown_id_changes_no_record(begin):
    client = begin()
    names = {row["id"]: row["group_name"] for row in client.rows("/contacts")}
    first, second = list(names)[:2]
    body = [{"id": first, "group_name": "New"}, {"id": 5, "group_name": "New"}]
    assert client.send("PATCH", "/contacts", json=body).status_code == 404
    assert {row["id"]: row["group_name"] for row in client.rows("/contacts")} == names
    body[1]["id"] = second
    changed = client.send("PATCH", "/contacts", json=body)
    assert [row["group_name"] for row in changed.json()["data"]] == ["New", "New"]
    assert client.get(f"/contacts/{second}").json()["data"]["group_name"] == "New"
    assert client.send("PATCH", "/contacts", json={"id": first}).status_code == 400


def test_bulk_changes_of_cdrs_voicemail_users_and_tracked_numbers_are_stored(begin):
    client = begin(cdrs=200, start_at=START)
    cdr = client.rows("/cdrs")[0]["id"]
    client.send("PATCH", "/cdrs", json=[{"id": cdr, "labels": ["Order"], "note": "Called back"}])
    after = client.get(f"/cdrs/{cdr}").json()["data"]
    assert (after["labels"], after["nb_notes"]) == (["Order"], 1)
    assert [note["text"] for note in client.rows(f"/cdrs/{cdr}/notes")] == ["Called back"]
    message = next(row["id"] for row in client.rows("/voicemessages") if row["is_new"])
    client.send("PATCH", "/voicemessages", json=[{"id": message, "folder": "2"}])
    changed = client.get(f"/voicemessages/{message}").json()["data"]
    assert (changed["folder"], changed["is_new"]) == (2, False)
    client.send("PATCH", "/users", json=[{"id": BEN, "location_id": 7}])
    assert client.get(f"/users/{BEN}").json()["data"]["location_id"] == "7"
    number = "442079460103"
    client.send("PATCH", "/calltracking/ddis", json=[{"e164": number, "campaign_id": 81002}])
    assert (number, 81002) in [(r["e164"], r["campaign_id"]) for r in client.rows("/calltracking/ddis")]


def test_calls_to_the_numbers_of_a_created_group_or_room_reach_it(begin):
    client = begin()
    body = {"name": "Night", "users": [BEN, DEV], "ddis": ["442079460106"], "strategy": "A", "number": 650}
    group = client.send("POST", "/ringgroups", json=body).json()["data"]
    assert (group["users"], group["ddis"], group["number"]) == ([BEN, DEV], ["442079460106"], 650)
    ddi = client.get("/ddis/442079460106").json()["data"]
    assert (ddi["target_type"], ddi["target_id"]) == ("R", group["id"])
    created = client.play("ring_group_answered", group=group["id"])
    assert {event["dst_id"] for event in created["events"] if "state" in event} == {str(BEN), str(DEV)}
    client.send("PATCH", f"/ringgroups/{group['id']}", json={"users": [DEV]})
    missed = client.play("ring_group_missed", group=group["id"])
    assert {event["dst_id"] for event in missed["events"]} == {str(DEV)}
    client.send("DELETE", f"/ringgroups/{group['id']}")
    ddi = client.get("/ddis/442079460106").json()["data"]
    assert (ddi["target_type"], ddi["target_id"]) == ("U", ADMIN)
    room = client.send("POST", "/conferences", json=GOOD["POST /conferences"]).json()["data"]
    ddi = client.get("/ddis/442079460107").json()["data"]
    assert (ddi["target_type"], ddi["target_id"]) == ("C", room["id"])
    client.send("PATCH", f"/conferences/{room['id']}", json={"ddis": []})
    assert client.get("/ddis/442079460107").json()["data"]["target_type"] == "U"


def test_audio_of_a_user_can_be_reset_and_a_deleted_user_has_no_calls_and_no_login(begin):
    client = begin()
    assert client.get(f"/users/{BEN}/audio").json()["data"]["custom"] is True
    assert client.send("DELETE", f"/users/{BEN}/audio").status_code == 204
    assert client.get(f"/users/{BEN}/audio").json()["data"]["custom"] is False
    assert client.get(f"/users/{BEN}").json()["data"]["vm_announcement_id"] is None
    dev = next(person for person in client.simulator.world.people if person.id == DEV)
    assert client.send("DELETE", f"/users/{DEV}").status_code == 204
    assert client.get(f"/users/{DEV}").status_code == 404
    assert Client(client.simulator, dev.api_key).get("/me").status_code == 401
    created = client.play("ring_group_missed", group=80001)
    assert str(DEV) not in {event["dst_id"] for event in created["events"]}
    assert client.get("/ddis/442079460107").json()["data"]["target_id"] == ADMIN
    assert client.send("DELETE", f"/users/{ADMIN}").status_code == 403


def test_no_user_can_sign_in_to_a_deleted_account(begin):
    client = begin()
    admin = client.simulator.admin
    assert client.send("DELETE", "/customers/5").status_code == 403
    assert client.send("DELETE", "/customers/100001").status_code == 204
    assert client.get("/me").status_code == 401
    login = {"email": admin.email, "password": admin.password}
    assert client.send("POST", "/login", json=login).status_code == 400


def test_a_changed_queue_keeps_logged_out_agents_as_members(begin):
    client = begin()
    body = {"users": [{"id": 1000005, "status": False}]}
    users = client.send("PATCH", "/queues/80101?include=users", json=body).json()["data"]["users"]
    assert users[0]["status"] is False
    members = client.get("/queues/80101").json()["data"]["users"]
    body = {"name": "Help line", "users": [{"id": members[0], "status": False}]}
    changed = client.send("PATCH", "/queues/80101", json=body).json()["data"]
    assert (changed["name"], changed["users"]) == ("Help line", members)
    one = client.send("PATCH", "/queues/80101", json={"users": [{"id": ADMIN, "status": True}]})
    assert one.json()["data"]["users"] == [ADMIN]
