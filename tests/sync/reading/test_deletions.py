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
from tests.sync.test_commands import Told

CDRS = PLAN["cdrs"]

CONTACTS, FAXES, DDIS = PLAN["contacts"], PLAN["faxes"], PLAN["ddis"]


@pytest.fixture
def walked(make_simulated, movable_clock):
    """`walked(PLAN["cdrs"])`: a simulated whose collection was read completely, a minute ago."""

    def walked(policy, **settings):
        simulated = make_simulated(**settings)
        run_full_sync(simulated.context, policy)
        movable_clock.advance(60)
        return simulated

    return walked


def delete(simulated, collection, *keys):
    with simulated.simulator.world.lock:
        for key in keys:
            del simulated.records(collection)[key]


def missing(simulated, collection):
    key = PLAN[collection].resource.key
    return [
        row[0]
        for row in simulated.rows(f'SELECT "{key}" FROM "{collection}" WHERE _missing_since IS NOT NULL')
    ]


def middle(simulated, collection, count):
    """Keys of records that are neither the oldest nor the newest."""
    keys = sorted(simulated.records(collection))
    begin = len(keys) // 2
    return keys[begin : begin + count]


def test_a_deleted_record_is_marked_when_its_own_path_confirms_it(walked):
    simulated = walked(CDRS)
    gone = middle(simulated, "cdrs", 3)
    delete(simulated, "cdrs", *gone)
    simulated.clear_requests()
    assert run_full_sync(simulated.context, CDRS).missing == 3
    assert missing(simulated, "cdrs") == gone
    assert all(simulated.count_requests(f"/cdrs/{key}") == 1 for key in gone)
    assert simulated.row_count("cdrs") == len(simulated.records("cdrs"))
    assert simulated.rows("SELECT count(*) FROM cdrs") == [(len(simulated.records("cdrs")) + 3,)], (
        "history stays"
    )


def test_a_record_that_only_the_list_leaves_out_stays(walked, monkeypatch):
    simulated = walked(CDRS)
    left_out = set(middle(simulated, "cdrs", 4))
    real = simulated.context.platform.page

    def page(*args, **options):
        found = real(*args, **options)
        kept = [d for d in found.records if d.values["id"] not in left_out]
        lost = len(found.records) - len(kept)
        return type(found)(kept, found.total - lost, found.other_keys)

    monkeypatch.setattr(simulated.context.platform, "page", page)
    assert run_full_sync(simulated.context, CDRS).missing == 0
    assert missing(simulated, "cdrs") == []
    assert simulated.state("cdrs").complete_at is not None


@pytest.mark.parametrize("fault", ["empty@/cdrs", "status=403@/cdrs", "truncate@/cdrs", "html@/cdrs"])
def test_no_bad_answer_loses_anything(walked, fault):
    simulated = walked(CDRS)
    simulated.faults(fault)
    for _ in range(4):
        try:
            run_full_sync(simulated.context, CDRS, restart=True)
        except PlatformError as error:
            store_failure(simulated.context, CDRS, error)
    assert missing(simulated, "cdrs") == []


def test_an_empty_answer_that_is_believed_at_last_trips_the_brake(walked):
    simulated = walked(CDRS)
    simulated.faults("empty@/cdrs")
    for _ in range(3):
        try:
            run_full_sync(simulated.context, CDRS, restart=True)
        except PlatformError as error:
            store_failure(simulated.context, CDRS, error)
    assert simulated.state("cdrs").held == len(simulated.records("cdrs"))
    assert missing(simulated, "cdrs") == []


def test_more_than_the_brake_allows_stops_and_waits_for_a_person(walked, movable_clock):
    simulated = walked(CONTACTS)
    gone = middle(simulated, "contacts", 21)
    delete(simulated, "contacts", *gone)
    run_full_sync(simulated.context, CONTACTS)
    assert missing(simulated, "contacts") == []
    assert simulated.state("contacts").held == 21
    told = simulated.context.health.report()["checks"][deletions.health_check_name("contacts")]
    assert told["state"] == "failing"
    assert "sync contacts --accept-deletions" in told["error"]
    movable_clock.advance(60)
    deletions.accept_deletions(simulated.context, CONTACTS)
    assert run_full_sync(simulated.context, CONTACTS, restart=True).missing == 21
    assert missing(simulated, "contacts") == gone
    assert simulated.state("contacts").held is None
    assert deletions.health_check_name("contacts") not in simulated.context.health.report()["checks"]


def test_accepting_what_is_held_is_no_leave_for_an_empty_list_after(walked, movable_clock):
    simulated = walked(CDRS)
    gone = middle(simulated, "cdrs", 30)
    delete(simulated, "cdrs", *gone)
    run_full_sync(simulated.context, CDRS, restart=True)
    deletions.accept_deletions(simulated.context, CDRS)
    simulated.faults("empty@/cdrs")
    for _ in range(3):
        movable_clock.advance(60)
        try:
            run_full_sync(simulated.context, CDRS, restart=True)
        except PlatformError as error:
            store_failure(simulated.context, CDRS, error)
    assert missing(simulated, "cdrs") == []
    assert simulated.state("cdrs").held == simulated.row_count("cdrs")
    simulated.faults("")
    movable_clock.advance(60)
    run_full_sync(simulated.context, CDRS, restart=True)
    assert simulated.state("cdrs").held == len(gone), "a person is asked again"


def test_a_list_without_keys_is_emptied_only_where_a_person_says_so(walked, movable_clock, monkeypatch):
    policy = PLAN["calltracking/ddis"]
    monkeypatch.setattr(deletions, "DELETION_LIMIT", 0)
    simulated = walked(policy)
    known = simulated.row_count(policy.collection)
    assert known > 0

    def walk_thrice():
        for _ in range(3):
            movable_clock.advance(60)
            try:
                run_full_sync(simulated.context, policy)
            except PlatformError as error:
                store_failure(simulated.context, policy, error)

    def standing():
        state = simulated.state(policy.collection)
        return (
            simulated.row_count(policy.collection),
            state.held,
            deletions.health_check_name(policy.collection) in simulated.context.health.report()["checks"],
        )

    simulated.faults("empty@/calltracking/ddis")
    walk_thrice()
    assert standing() == (known, known, True)
    simulated.faults("")
    run_full_sync(simulated.context, policy)
    assert standing() == (known, None, False)
    simulated.faults("empty@/calltracking/ddis")
    walk_thrice()
    deletions.accept_deletions(simulated.context, policy)
    run_full_sync(simulated.context, policy)
    assert standing() == (0, None, False)


def test_the_alarm_is_raised_again_after_a_restart(walked):
    simulated = walked(CONTACTS)
    delete(simulated, "contacts", *middle(simulated, "contacts", 25))
    run_full_sync(simulated.context, CONTACTS)
    simulated.context.health.unwatch(deletions.health_check_name("contacts"))
    deletions.restore_health_failures(simulated.context)
    assert (
        simulated.context.health.report()["checks"][deletions.health_check_name("contacts")]["state"]
        == "failing"
    )


def test_records_that_aged_out_do_not_trip_the_brake(walked):
    simulated = walked(CDRS)
    oldest = sorted(simulated.records("cdrs"))[:60]
    delete(simulated, "cdrs", *oldest)
    simulated.clear_requests()
    assert run_full_sync(simulated.context, CDRS).missing == 60
    assert missing(simulated, "cdrs") == oldest
    assert simulated.state("cdrs").held is None
    asked = [e["path"] for e in simulated.simulator.context.request_log if e["path"].startswith("/cdrs/")]
    assert 2 <= len(asked) <= deletions.AGE_OUT_SAMPLE_SIZE, "samples prove the rest"
    assert simulated.rows("SELECT DISTINCT how FROM _deletions") == [("aged",)]


def test_an_old_end_that_only_the_list_leaves_out_is_held(walked, monkeypatch):
    """The list begins later by mistake; the records' own paths still answer."""
    simulated = walked(CDRS)
    first = sorted(simulated.records("cdrs"))[60]
    real = simulated.context.platform.page

    def page(*args, **options):
        found = real(*args, **options)
        kept = [d for d in found.records if d.values["id"] >= first]
        return type(found)(kept, found.total - (60 if found.total else 0), found.other_keys)

    monkeypatch.setattr(simulated.context.platform, "page", page)
    run_full_sync(simulated.context, CDRS)
    assert missing(simulated, "cdrs") == []
    assert simulated.state("cdrs").held == 60


@pytest.mark.parametrize("policy", [FAXES, DDIS], ids=lambda policy: policy.collection)
def test_without_a_path_of_its_own_a_second_walk_confirms(walked, movable_clock, policy):
    simulated = walked(policy)
    gone = middle(simulated, policy.collection, 1)
    records = [simulated.records(policy.collection)[key] for key in gone]
    delete(simulated, policy.collection, *gone)
    assert run_full_sync(simulated.context, policy).missing == 0
    movable_clock.advance(60)
    assert run_full_sync(simulated.context, policy).missing == 1
    assert [str(key) for key in missing(simulated, policy.collection)] == [
        str(record["id"]) for record in records
    ]


def test_a_record_that_comes_back_is_no_longer_suspected(walked, movable_clock):
    simulated = walked(FAXES)
    (key,) = middle(simulated, "faxes", 1)
    record = simulated.records("faxes")[key]
    delete(simulated, "faxes", key)
    run_full_sync(simulated.context, FAXES)
    movable_clock.advance(60)
    simulated.records("faxes")[key] = record
    run_full_sync(simulated.context, FAXES)
    assert simulated.rows("SELECT * FROM _deletions") == []
    movable_clock.advance(60)
    delete(simulated, "faxes", key)
    assert run_full_sync(simulated.context, FAXES).missing == 0, "one walk is not two"


def test_what_cannot_be_asked_for_is_left_for_the_next_walk(walked, movable_clock):
    simulated = walked(CDRS)
    gone = middle(simulated, "cdrs", 2)
    delete(simulated, "cdrs", *gone)
    simulated.faults("status=503@/cdrs/7*")
    assert run_full_sync(simulated.context, CDRS).missing == 0
    assert simulated.state("cdrs").complete_at is not None
    simulated.faults("")
    movable_clock.advance(60)
    assert run_full_sync(simulated.context, CDRS).missing == 2


def test_a_record_we_may_not_see_is_no_deleted_one(walked):
    """403 is "access denied to an existing resource"."""
    simulated = walked(CDRS)
    delete(simulated, "cdrs", *middle(simulated, "cdrs", 2))
    simulated.faults("status=403@/cdrs/7*")
    assert run_full_sync(simulated.context, CDRS).missing == 0
    assert missing(simulated, "cdrs") == []


def test_undoing_brings_back_and_later_walks_leave_it_alone(walked, movable_clock):
    simulated = walked(CONTACTS)
    gone = middle(simulated, "contacts", 3)
    delete(simulated, "contacts", *gone)
    run_full_sync(simulated.context, CONTACTS)
    assert missing(simulated, "contacts") == gone
    assert deletions.restore_deleted(simulated.context, CONTACTS) == 3
    assert missing(simulated, "contacts") == []
    movable_clock.advance(60)
    assert run_full_sync(simulated.context, CONTACTS).missing == 0
    assert missing(simulated, "contacts") == []


def test_the_name_of_a_deleted_contact_is_no_longer_given_to_calls(walked, movable_clock):
    simulated = walked(CONTACTS)
    (key,) = [
        k
        for k in middle(simulated, "contacts", 20)
        if simulated.rows("SELECT 1 FROM _contact_numbers WHERE contact_id = ?", k)
    ][:1]
    record = simulated.records("contacts")[key]
    delete(simulated, "contacts", key)
    run_full_sync(simulated.context, CONTACTS)
    assert simulated.rows("SELECT count(*) FROM _contact_numbers WHERE contact_id = ?", key) == [(0,)]
    simulated.records("contacts")[key] = record
    movable_clock.advance(60)
    run_full_sync(simulated.context, CONTACTS)
    assert missing(simulated, "contacts") == []
    assert simulated.rows("SELECT count(*) > 0 FROM _contact_numbers WHERE contact_id = ?", key) == [(1,)]


def test_with_delete_the_rows_go_and_the_calls_of_these_cdrs_too(walked):
    simulated = walked(CDRS, sync__on_platform_delete="delete")
    legs = [record["live_id"] for record in simulated.records("cdrs").values()]
    key = next(
        key
        for key in middle(simulated, "cdrs", 50)
        if legs.count(simulated.records("cdrs")[key]["live_id"]) == 1
        and not simulated.records("cdrs")[key].get("parent_live_id")
    )
    leg = simulated.records("cdrs")[key]["live_id"]
    assert simulated.rows("SELECT count(*) FROM _legs WHERE leg_id = ?", leg) == [(1,)]
    delete(simulated, "cdrs", key)
    assert run_full_sync(simulated.context, CDRS).missing == 1
    assert simulated.rows("SELECT count(*) FROM cdrs WHERE id = ?", key) == [(0,)]
    cdrs = simulated.rows(
        "SELECT _calls.cdrs FROM _calls JOIN _legs ON _legs.call_id = _calls.id WHERE leg_id = ?", leg
    )
    assert cdrs in ([], [(0,)])


def test_what_is_new_during_a_walk_is_never_missing(simulated, movable_clock):
    run_full_sync(simulated.context, CDRS)
    made = simulated.play("plain_answered")
    run_incremental_sync(simulated.context, CDRS)
    movable_clock.advance(60)
    assert run_full_sync(simulated.context, CDRS).missing == 0
    assert set(made["cdr_ids"]) <= set(simulated.ids("cdrs"))


def test_a_write_of_ours_that_deleted_is_not_undone(walked):
    simulated = walked(CONTACTS)
    key = middle(simulated, "contacts", 1)[0]
    simulated.mirror_db.write(
        lambda tx: tx.execute(
            "UPDATE contacts SET _missing_since = '2026-11-20 09:00:00' WHERE id = ?", (key,)
        )
    )
    assert deletions.restore_deleted(simulated.context, CONTACTS) == 0
    assert missing(simulated, "contacts") == [key]


def test_commands_accept_and_undo(walked, movable_clock):
    simulated = walked(CONTACTS)
    gone = middle(simulated, "contacts", 30)
    delete(simulated, "contacts", *gone)
    run_full_sync(simulated.context, CONTACTS)
    movable_clock.advance(60)
    row = commands.sync(simulated.context, {"resources": ["contacts"], "files": False}, Told())["rows"][0]
    assert (row["held"], row["gone"]) == (30, 0)
    movable_clock.advance(60)
    told = commands.sync(
        simulated.context, {"resources": ["contacts"], "full": True, "files": False, "accept": True}, Told()
    )
    assert (told["rows"][0]["held"], told["rows"][0]["gone"]) == (0, 30)
    assert missing(simulated, "contacts") == gone
    assert commands.undo_deletions(simulated.context, {"resources": ["contacts"]}, Told())["back"] == {
        "contacts": 30
    }
    assert missing(simulated, "contacts") == []


def test_a_record_whose_key_can_not_be_read_is_not_taken_for_deleted(simulated, movable_clock, monkeypatch):
    """Its row stays, and what came is kept aside."""
    policy = PLAN["ivrs"]
    run_full_sync(simulated.context, policy)
    before, real = simulated.ids("ivrs"), simulated.context.platform.page

    def page(*args, **options):
        found = real(*args, **options)
        first, *rest = found.records
        values = {name: value for name, value in first.values.items() if name != "id"}
        return replace(found, records=[JsonRecord(json.dumps(values), values), *rest])

    monkeypatch.setattr(simulated.context.platform, "page", page)
    for _ in range(3):
        movable_clock.advance(5)
        run_full_sync(simulated.context, policy, restart=True)
    assert simulated.rows("SELECT id FROM ivrs WHERE _missing_since IS NULL ORDER BY id") == [
        (n,) for n in before
    ]
    assert simulated.rows("SELECT table_name FROM _flagged") == [("ivrs",)]
