from __future__ import annotations

import json
from dataclasses import replace

import pytest

from integration.core.errors import PlatformError
from integration.core.json_records import JsonRecord
from integration.sync import commands
from integration.sync.plan import PLAN
from integration.sync.reading import deletions
from integration.sync.reading.full_sync import run_full_sync
from integration.sync.reading.incremental_sync import run_incremental_sync
from integration.sync.reading.page_store import store_failure
from tests.support.applications.sync_rig import CDRS
from tests.sync.test_commands import Told

CONTACTS, FAXES, DDIS = PLAN["contacts"], PLAN["faxes"], PLAN["ddis"]


@pytest.fixture
def walked(make_rig, later):
    """`walked(PLAN["cdrs"])`: a rig whose collection was read completely, a minute ago."""

    def walked(policy, **settings):
        rig = make_rig(**settings)
        run_full_sync(rig.parts, policy)
        later(60)
        return rig

    return walked


def delete(rig, collection, *keys):
    with rig.simulator.world.lock:
        for key in keys:
            del rig.records(collection)[key]


def missing(rig, collection):
    key = PLAN[collection].resource.key
    return [
        row[0] for row in rig.rows(f'SELECT "{key}" FROM "{collection}" WHERE _missing_since IS NOT NULL')
    ]


def middle(rig, collection, count):
    """Keys of records that are neither the oldest nor the newest."""
    keys = sorted(rig.records(collection))
    begin = len(keys) // 2
    return keys[begin : begin + count]


def test_a_deleted_record_is_marked_when_its_own_path_confirms_it(walked):
    rig = walked(CDRS)
    gone = middle(rig, "cdrs", 3)
    delete(rig, "cdrs", *gone)
    rig.forget_asked()
    assert run_full_sync(rig.parts, CDRS).missing == 3
    assert missing(rig, "cdrs") == gone
    assert all(rig.asked(f"/cdrs/{key}") == 1 for key in gone)
    assert rig.row_count("cdrs") == len(rig.records("cdrs"))
    assert rig.rows("SELECT count(*) FROM cdrs") == [(len(rig.records("cdrs")) + 3,)], "history stays"


def test_a_record_that_only_the_list_leaves_out_stays(walked, monkeypatch):
    rig = walked(CDRS)
    left_out = set(middle(rig, "cdrs", 4))
    real = rig.platform.page

    def page(*args, **options):
        found = real(*args, **options)
        kept = [d for d in found.records if d.values["id"] not in left_out]
        lost = len(found.records) - len(kept)
        return type(found)(kept, found.total - lost, found.other_keys)

    monkeypatch.setattr(rig.platform, "page", page)
    assert run_full_sync(rig.parts, CDRS).missing == 0
    assert missing(rig, "cdrs") == []
    assert rig.state("cdrs").complete_at is not None


@pytest.mark.parametrize("fault", ["empty@/cdrs", "status=403@/cdrs", "truncate@/cdrs", "html@/cdrs"])
def test_no_bad_answer_loses_anything(walked, fault):
    rig = walked(CDRS)
    rig.faults(fault)
    for _ in range(4):
        try:
            run_full_sync(rig.parts, CDRS, restart=True)
        except PlatformError as error:
            store_failure(rig.parts, CDRS, error)
    assert missing(rig, "cdrs") == []


def test_an_empty_answer_that_is_believed_at_last_trips_the_brake(walked):
    rig = walked(CDRS)
    rig.faults("empty@/cdrs")
    for _ in range(3):
        try:
            run_full_sync(rig.parts, CDRS, restart=True)
        except PlatformError as error:
            store_failure(rig.parts, CDRS, error)
    assert rig.state("cdrs").held == len(rig.records("cdrs"))
    assert missing(rig, "cdrs") == []


def test_more_than_the_brake_allows_stops_and_waits_for_a_person(walked, later):
    rig = walked(CONTACTS)
    gone = middle(rig, "contacts", 21)
    delete(rig, "contacts", *gone)
    run_full_sync(rig.parts, CONTACTS)
    assert missing(rig, "contacts") == []
    assert rig.state("contacts").held == 21
    told = rig.health.report()["checks"][deletions.health_check_name("contacts")]
    assert told["state"] == "failing"
    assert "sync contacts --accept-deletions" in told["error"]
    later(60)
    deletions.accept_deletions(rig.parts, CONTACTS)
    assert run_full_sync(rig.parts, CONTACTS, restart=True).missing == 21
    assert missing(rig, "contacts") == gone
    assert rig.state("contacts").held is None
    assert deletions.health_check_name("contacts") not in rig.health.report()["checks"]


def test_accepting_what_is_held_is_no_leave_for_an_empty_list_after(walked, later):
    rig = walked(CDRS)
    gone = middle(rig, "cdrs", 30)
    delete(rig, "cdrs", *gone)
    run_full_sync(rig.parts, CDRS, restart=True)
    deletions.accept_deletions(rig.parts, CDRS)
    rig.faults("empty@/cdrs")
    for _ in range(3):
        later(60)
        try:
            run_full_sync(rig.parts, CDRS, restart=True)
        except PlatformError as error:
            store_failure(rig.parts, CDRS, error)
    assert missing(rig, "cdrs") == []
    assert rig.state("cdrs").held == rig.row_count("cdrs")
    rig.faults("")
    later(60)
    run_full_sync(rig.parts, CDRS, restart=True)
    assert rig.state("cdrs").held == len(gone), "a person is asked again"


def test_a_list_without_keys_is_emptied_only_where_a_person_says_so(walked, later, monkeypatch):
    policy = PLAN["calltracking/ddis"]
    monkeypatch.setattr(deletions, "DELETION_LIMIT", 0)
    rig = walked(policy)
    known = rig.row_count(policy.collection)
    assert known > 0

    def walk_thrice():
        for _ in range(3):
            later(60)
            try:
                run_full_sync(rig.parts, policy)
            except PlatformError as error:
                store_failure(rig.parts, policy, error)

    def standing():
        state = rig.state(policy.collection)
        return (
            rig.row_count(policy.collection),
            state.held,
            deletions.health_check_name(policy.collection) in rig.health.report()["checks"],
        )

    rig.faults("empty@/calltracking/ddis")
    walk_thrice()
    assert standing() == (known, known, True)
    rig.faults("")
    run_full_sync(rig.parts, policy)
    assert standing() == (known, None, False)
    rig.faults("empty@/calltracking/ddis")
    walk_thrice()
    deletions.accept_deletions(rig.parts, policy)
    run_full_sync(rig.parts, policy)
    assert standing() == (0, None, False)


def test_the_alarm_is_raised_again_after_a_restart(walked):
    rig = walked(CONTACTS)
    delete(rig, "contacts", *middle(rig, "contacts", 25))
    run_full_sync(rig.parts, CONTACTS)
    rig.health.unwatch(deletions.health_check_name("contacts"))
    deletions.restore_health_failures(rig.parts)
    assert rig.health.report()["checks"][deletions.health_check_name("contacts")]["state"] == "failing"


def test_records_that_aged_out_do_not_trip_the_brake(walked):
    rig = walked(CDRS)
    oldest = sorted(rig.records("cdrs"))[:60]
    delete(rig, "cdrs", *oldest)
    rig.forget_asked()
    assert run_full_sync(rig.parts, CDRS).missing == 60
    assert missing(rig, "cdrs") == oldest
    assert rig.state("cdrs").held is None
    asked = [e["path"] for e in rig.simulator.context.request_log if e["path"].startswith("/cdrs/")]
    assert 2 <= len(asked) <= deletions.AGE_OUT_SAMPLE_SIZE, "samples prove the rest"
    assert rig.rows("SELECT DISTINCT how FROM _deletions") == [("aged",)]


def test_an_old_end_that_only_the_list_leaves_out_is_held(walked, monkeypatch):
    """The list begins later by mistake; the records' own paths still answer."""
    rig = walked(CDRS)
    first = sorted(rig.records("cdrs"))[60]
    real = rig.platform.page

    def page(*args, **options):
        found = real(*args, **options)
        kept = [d for d in found.records if d.values["id"] >= first]
        return type(found)(kept, found.total - (60 if found.total else 0), found.other_keys)

    monkeypatch.setattr(rig.platform, "page", page)
    run_full_sync(rig.parts, CDRS)
    assert missing(rig, "cdrs") == []
    assert rig.state("cdrs").held == 60


@pytest.mark.parametrize("policy", [FAXES, DDIS], ids=lambda policy: policy.collection)
def test_without_a_path_of_its_own_a_second_walk_confirms(walked, later, policy):
    rig = walked(policy)
    gone = middle(rig, policy.collection, 1)
    records = [rig.records(policy.collection)[key] for key in gone]
    delete(rig, policy.collection, *gone)
    assert run_full_sync(rig.parts, policy).missing == 0
    later(60)
    assert run_full_sync(rig.parts, policy).missing == 1
    assert [str(key) for key in missing(rig, policy.collection)] == [str(record["id"]) for record in records]


def test_a_record_that_comes_back_is_no_longer_suspected(walked, later):
    rig = walked(FAXES)
    (key,) = middle(rig, "faxes", 1)
    record = rig.records("faxes")[key]
    delete(rig, "faxes", key)
    run_full_sync(rig.parts, FAXES)
    later(60)
    rig.records("faxes")[key] = record
    run_full_sync(rig.parts, FAXES)
    assert rig.rows("SELECT * FROM _deletions") == []
    later(60)
    delete(rig, "faxes", key)
    assert run_full_sync(rig.parts, FAXES).missing == 0, "one walk is not two"


def test_what_cannot_be_asked_for_is_left_for_the_next_walk(walked, later):
    rig = walked(CDRS)
    gone = middle(rig, "cdrs", 2)
    delete(rig, "cdrs", *gone)
    rig.faults("status=503@/cdrs/7*")
    assert run_full_sync(rig.parts, CDRS).missing == 0
    assert rig.state("cdrs").complete_at is not None
    rig.faults("")
    later(60)
    assert run_full_sync(rig.parts, CDRS).missing == 2


def test_a_record_we_may_not_see_is_no_deleted_one(walked):
    """403 is "access denied to an existing resource"."""
    rig = walked(CDRS)
    delete(rig, "cdrs", *middle(rig, "cdrs", 2))
    rig.faults("status=403@/cdrs/7*")
    assert run_full_sync(rig.parts, CDRS).missing == 0
    assert missing(rig, "cdrs") == []


def test_undoing_brings_back_and_later_walks_leave_it_alone(walked, later):
    rig = walked(CONTACTS)
    gone = middle(rig, "contacts", 3)
    delete(rig, "contacts", *gone)
    run_full_sync(rig.parts, CONTACTS)
    assert missing(rig, "contacts") == gone
    assert deletions.restore_deleted(rig.parts, CONTACTS) == 3
    assert missing(rig, "contacts") == []
    later(60)
    assert run_full_sync(rig.parts, CONTACTS).missing == 0
    assert missing(rig, "contacts") == []


def test_the_name_of_a_deleted_contact_is_no_longer_given_to_calls(walked, later):
    rig = walked(CONTACTS)
    (key,) = [
        k
        for k in middle(rig, "contacts", 20)
        if rig.rows("SELECT 1 FROM _contact_numbers WHERE contact_id = ?", k)
    ][:1]
    record = rig.records("contacts")[key]
    delete(rig, "contacts", key)
    run_full_sync(rig.parts, CONTACTS)
    assert rig.rows("SELECT count(*) FROM _contact_numbers WHERE contact_id = ?", key) == [(0,)]
    rig.records("contacts")[key] = record
    later(60)
    run_full_sync(rig.parts, CONTACTS)
    assert missing(rig, "contacts") == []
    assert rig.rows("SELECT count(*) > 0 FROM _contact_numbers WHERE contact_id = ?", key) == [(1,)]


def test_with_delete_the_rows_go_and_the_calls_of_these_cdrs_too(walked):
    rig = walked(CDRS, sync__on_platform_delete="delete")
    legs = [record["live_id"] for record in rig.records("cdrs").values()]
    key = next(
        key
        for key in middle(rig, "cdrs", 50)
        if legs.count(rig.records("cdrs")[key]["live_id"]) == 1
        and not rig.records("cdrs")[key].get("parent_live_id")
    )
    leg = rig.records("cdrs")[key]["live_id"]
    assert rig.rows("SELECT count(*) FROM _legs WHERE leg_id = ?", leg) == [(1,)]
    delete(rig, "cdrs", key)
    assert run_full_sync(rig.parts, CDRS).missing == 1
    assert rig.rows("SELECT count(*) FROM cdrs WHERE id = ?", key) == [(0,)]
    cdrs = rig.rows(
        "SELECT _calls.cdrs FROM _calls JOIN _legs ON _legs.call_id = _calls.id WHERE leg_id = ?", leg
    )
    assert cdrs in ([], [(0,)])


def test_what_is_new_during_a_walk_is_never_missing(rig, later):
    run_full_sync(rig.parts, CDRS)
    made = rig.play("plain_answered")
    run_incremental_sync(rig.parts, CDRS)
    later(60)
    assert run_full_sync(rig.parts, CDRS).missing == 0
    assert set(made["cdr_ids"]) <= set(rig.ids("cdrs"))


def test_a_write_of_ours_that_deleted_is_not_undone(walked):
    rig = walked(CONTACTS)
    key = middle(rig, "contacts", 1)[0]
    rig.mirror_db.write(
        lambda tx: tx.execute(
            "UPDATE contacts SET _missing_since = '2026-11-20 09:00:00' WHERE id = ?", (key,)
        )
    )
    assert deletions.restore_deleted(rig.parts, CONTACTS) == 0
    assert missing(rig, "contacts") == [key]


def test_commands_accept_and_undo(walked, later):
    rig = walked(CONTACTS)
    gone = middle(rig, "contacts", 30)
    delete(rig, "contacts", *gone)
    run_full_sync(rig.parts, CONTACTS)
    later(60)
    row = commands.sync(rig.parts, {"resources": ["contacts"], "files": False}, Told())["rows"][0]
    assert (row["held"], row["gone"]) == (30, 0)
    later(60)
    told = commands.sync(
        rig.parts, {"resources": ["contacts"], "full": True, "files": False, "accept": True}, Told()
    )
    assert (told["rows"][0]["held"], told["rows"][0]["gone"]) == (0, 30)
    assert missing(rig, "contacts") == gone
    assert commands.undo_deletions(rig.parts, {"resources": ["contacts"]}, Told())["back"] == {"contacts": 30}
    assert missing(rig, "contacts") == []


def test_a_record_whose_key_can_not_be_read_is_not_taken_for_deleted(rig, later, monkeypatch):
    """Its row stays, and what came is kept aside."""
    policy = PLAN["ivrs"]
    run_full_sync(rig.parts, policy)
    before, real = rig.ids("ivrs"), rig.platform.page

    def page(*args, **options):
        found = real(*args, **options)
        first, *rest = found.records
        values = {name: value for name, value in first.values.items() if name != "id"}
        return replace(found, records=[JsonRecord(json.dumps(values), values), *rest])

    monkeypatch.setattr(rig.platform, "page", page)
    for _ in range(3):
        later(5)
        run_full_sync(rig.parts, policy, restart=True)
    assert rig.rows("SELECT id FROM ivrs WHERE _missing_since IS NULL ORDER BY id") == [(n,) for n in before]
    assert rig.rows("SELECT table_name FROM _flagged") == [("ivrs",)]
