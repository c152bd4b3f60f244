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
from integration.sync.reading.page_store import store_failure
from tests.sync.test_commands import RecordedProgress

CDRS = PLAN["cdrs"]

CONTACTS, FAXES, DDIS = PLAN["contacts"], PLAN["faxes"], PLAN["ddis"]


@pytest.fixture
def synced(make_simulated, movable_clock):
    """Return an application whose full sync of `policy` ended a minute ago."""

    def synced(policy, **settings):
        simulated = make_simulated(**settings)
        run_full_sync(simulated.context, policy)
        movable_clock.advance(60)
        return simulated

    return synced


def delete(simulated, collection, *keys):
    with simulated.simulator.world.lock:
        for key in keys:
            del simulated.records(collection)[key]


def list_missing(simulated, collection):
    key = PLAN[collection].resource.key
    return [
        row[0]
        for row in simulated.rows(f'SELECT "{key}" FROM "{collection}" WHERE _missing_since IS NOT NULL')
    ]


def pick_middle(simulated, collection, count):
    """Keys of records that are neither the oldest nor the newest."""
    keys = sorted(simulated.records(collection))
    begin = len(keys) // 2
    return keys[begin : begin + count]


def test_a_deleted_record_is_marked_when_its_own_path_confirms_it(synced):
    simulated = synced(CDRS)
    deleted = pick_middle(simulated, "cdrs", 3)
    delete(simulated, "cdrs", *deleted)
    simulated.clear_requests()
    assert run_full_sync(simulated.context, CDRS).missing == 3
    assert list_missing(simulated, "cdrs") == deleted
    assert all(simulated.count_requests(f"/cdrs/{key}") == 1 for key in deleted)
    assert simulated.row_count("cdrs") == len(simulated.records("cdrs"))
    assert simulated.rows("SELECT count(*) FROM cdrs") == [(len(simulated.records("cdrs")) + 3,)], (
        "history stays"
    )


def test_a_record_missing_only_from_the_list_is_kept(synced, monkeypatch):
    simulated = synced(CDRS)
    left_out = set(pick_middle(simulated, "cdrs", 4))
    real = simulated.context.platform.page

    def page(*args, **options):
        found = real(*args, **options)
        kept = [d for d in found.records if d.values["id"] not in left_out]
        lost = len(found.records) - len(kept)
        return type(found)(kept, found.total - lost)

    monkeypatch.setattr(simulated.context.platform, "page", page)
    assert run_full_sync(simulated.context, CDRS).missing == 0
    assert list_missing(simulated, "cdrs") == []
    assert simulated.state("cdrs").complete_at is not None


@pytest.mark.parametrize("fault", ["empty@/cdrs", "status=403@/cdrs", "truncate@/cdrs", "html@/cdrs"])
def test_a_bad_response_marks_no_record_as_missing(synced, fault):
    simulated = synced(CDRS)
    simulated.faults(fault)
    for _ in range(4):
        try:
            run_full_sync(simulated.context, CDRS, restart=True)
        except PlatformError as error:
            store_failure(simulated.context, CDRS, error)
    assert list_missing(simulated, "cdrs") == []


def test_accepting_held_deletions_does_not_accept_a_later_empty_list(synced, movable_clock):
    simulated = synced(CDRS)
    deleted = pick_middle(simulated, "cdrs", 30)
    delete(simulated, "cdrs", *deleted)
    run_full_sync(simulated.context, CDRS, restart=True)
    deletions.accept_deletions(simulated.context, CDRS)
    simulated.faults("empty@/cdrs")
    for _ in range(3):
        movable_clock.advance(60)
        try:
            run_full_sync(simulated.context, CDRS, restart=True)
        except PlatformError as error:
            store_failure(simulated.context, CDRS, error)
    assert list_missing(simulated, "cdrs") == []
    assert simulated.state("cdrs").held == simulated.row_count("cdrs")
    simulated.faults("")
    movable_clock.advance(60)
    run_full_sync(simulated.context, CDRS, restart=True)
    assert simulated.state("cdrs").held == len(deleted), "the remaining deletions need a new confirmation"


def test_a_list_without_keys_is_emptied_only_after_a_user_accepts(synced, movable_clock, monkeypatch):
    policy = PLAN["calltracking/ddis"]
    monkeypatch.setattr(deletions, "DELETION_LIMIT", 0)
    simulated = synced(policy)
    stored = simulated.row_count(policy.collection)
    assert stored > 0

    def sync_three_times():
        for _ in range(3):
            movable_clock.advance(60)
            try:
                run_full_sync(simulated.context, policy)
            except PlatformError as error:
                store_failure(simulated.context, policy, error)

    def get_outcome():
        state = simulated.state(policy.collection)
        return (
            simulated.row_count(policy.collection),
            state.held,
            deletions.describe_held(simulated.mirror_db) is not None,
        )

    simulated.faults("empty@/calltracking/ddis")
    sync_three_times()
    assert get_outcome() == (stored, stored, True)
    simulated.faults("")
    run_full_sync(simulated.context, policy)
    assert get_outcome() == (stored, None, False)
    simulated.faults("empty@/calltracking/ddis")
    sync_three_times()
    deletions.accept_deletions(simulated.context, policy)
    run_full_sync(simulated.context, policy)
    assert get_outcome() == (0, None, False)


def test_records_that_aged_out_do_not_count_for_the_deletion_limit(synced):
    simulated = synced(CDRS)
    oldest = sorted(simulated.records("cdrs"))[:60]
    delete(simulated, "cdrs", *oldest)
    simulated.clear_requests()
    assert run_full_sync(simulated.context, CDRS).missing == 60
    assert list_missing(simulated, "cdrs") == oldest
    assert simulated.state("cdrs").held is None
    requested = [e["path"] for e in simulated.simulator.context.request_log if e["path"].startswith("/cdrs/")]
    assert 2 <= len(requested) <= deletions.AGE_OUT_SAMPLE_SIZE, "only samples are requested"
    assert simulated.rows("SELECT DISTINCT how FROM _deletions") == [("aged",)]


def test_oldest_records_missing_only_from_the_list_are_held(synced, monkeypatch):
    """The list lacks its oldest records, but their own paths return them."""
    simulated = synced(CDRS)
    first = sorted(simulated.records("cdrs"))[60]
    real = simulated.context.platform.page

    def page(*args, **options):
        found = real(*args, **options)
        kept = [d for d in found.records if d.values["id"] >= first]
        return type(found)(kept, found.total - (60 if found.total else 0))

    monkeypatch.setattr(simulated.context.platform, "page", page)
    run_full_sync(simulated.context, CDRS)
    assert list_missing(simulated, "cdrs") == []
    assert simulated.state("cdrs").held == 60


@pytest.mark.parametrize("policy", [FAXES, DDIS], ids=lambda policy: policy.collection)
def test_a_deletion_without_an_item_path_is_confirmed_by_a_second_full_sync(synced, movable_clock, policy):
    simulated = synced(policy)
    deleted = pick_middle(simulated, policy.collection, 1)
    records = [simulated.records(policy.collection)[key] for key in deleted]
    delete(simulated, policy.collection, *deleted)
    assert run_full_sync(simulated.context, policy).missing == 0
    movable_clock.advance(60)
    assert run_full_sync(simulated.context, policy).missing == 1
    assert [str(key) for key in list_missing(simulated, policy.collection)] == [
        str(record["id"]) for record in records
    ]


def test_a_record_that_is_listed_after_an_absence_is_no_longer_suspected(synced, movable_clock):
    simulated = synced(FAXES)
    (key,) = pick_middle(simulated, "faxes", 1)
    record = simulated.records("faxes")[key]
    delete(simulated, "faxes", key)
    run_full_sync(simulated.context, FAXES)
    movable_clock.advance(60)
    simulated.records("faxes")[key] = record
    run_full_sync(simulated.context, FAXES)
    assert simulated.rows("SELECT * FROM _deletions") == []
    movable_clock.advance(60)
    delete(simulated, "faxes", key)
    assert run_full_sync(simulated.context, FAXES).missing == 0, "one full sync confirms no deletion"


def test_a_deletion_that_cannot_be_confirmed_is_checked_by_the_next_full_sync(synced, movable_clock):
    simulated = synced(CDRS)
    deleted = pick_middle(simulated, "cdrs", 2)
    delete(simulated, "cdrs", *deleted)
    simulated.faults("status=503@/cdrs/7*")
    assert run_full_sync(simulated.context, CDRS).missing == 0
    assert simulated.state("cdrs").complete_at is not None
    simulated.faults("")
    movable_clock.advance(60)
    assert run_full_sync(simulated.context, CDRS).missing == 2


def test_a_forbidden_record_is_not_marked_as_missing(synced):
    """403 is "access denied to an existing resource"."""
    simulated = synced(CDRS)
    delete(simulated, "cdrs", *pick_middle(simulated, "cdrs", 2))
    simulated.faults("status=403@/cdrs/7*")
    assert run_full_sync(simulated.context, CDRS).missing == 0
    assert list_missing(simulated, "cdrs") == []


def test_with_on_platform_delete_a_cdr_is_deleted_with_its_call(synced):
    simulated = synced(CDRS, sync__on_platform_delete="delete")
    legs = [record["live_id"] for record in simulated.records("cdrs").values()]
    key = next(
        key
        for key in pick_middle(simulated, "cdrs", 50)
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


def test_a_deletion_by_a_local_write_is_not_restored(synced):
    simulated = synced(CONTACTS)
    key = pick_middle(simulated, "contacts", 1)[0]
    simulated.mirror_db.write(
        lambda tx: tx.execute(
            "UPDATE contacts SET _missing_since = '2026-11-20 09:00:00' WHERE id = ?", (key,)
        )
    )
    assert deletions.restore_deleted(simulated.context, CONTACTS) == 0
    assert list_missing(simulated, "contacts") == [key]


def test_commands_accept_and_undo_deletions(synced, movable_clock):
    simulated = synced(CONTACTS)
    deleted = pick_middle(simulated, "contacts", 30)
    delete(simulated, "contacts", *deleted)
    run_full_sync(simulated.context, CONTACTS)
    movable_clock.advance(60)
    row = commands.sync(simulated.context, {"resources": ["contacts"], "files": False}, RecordedProgress())[
        "rows"
    ][0]
    assert (row["held"], row["gone"]) == (30, 0)
    report = simulated.context.health.report()["checks"][deletions.HEALTH_CHECK]
    assert report["state"] == "failing"
    assert "sync contacts --accept-deletions" in report["error"]
    movable_clock.advance(60)
    report = commands.sync(
        simulated.context,
        {"resources": ["contacts"], "full": True, "files": False, "accept": True},
        RecordedProgress(),
    )
    assert (report["rows"][0]["held"], report["rows"][0]["gone"]) == (0, 30)
    assert list_missing(simulated, "contacts") == deleted
    assert simulated.context.health.report()["checks"][deletions.HEALTH_CHECK]["state"] == "ok"
    assert commands.undo_deletions(simulated.context, {"resources": ["contacts"]}, RecordedProgress())[
        "back"
    ] == {"contacts": 30}
    assert list_missing(simulated, "contacts") == []
    movable_clock.advance(60)
    assert run_full_sync(simulated.context, CONTACTS).missing == 0


def test_a_record_without_a_readable_key_is_not_marked_as_missing(simulated, movable_clock, monkeypatch):
    """The stored row is kept, and the received record is flagged."""
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
