"""How long a change may take to arrive without webhooks.

The jobs run at their intervals by a clock that the test moves. docs/sync.md states the same times.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from integration.simulator.records import activity
from integration.sync import jobs
from integration.sync.plan import PLAN, list_history_policies
from integration.sync.reading.full_sync import run_full_sync
from tests.support.clock import Clock
from tests.support.simulated_app import SimulatedApp

MINUTES = jobs.VERIFY_INTERVAL_SECONDS / 60
"""Minutes of a step: the longest interval of the jobs concerned."""

NINETEEN_DAYS_AGO, SEVEN_WEEKS_AGO = "2026-10-30 10:20:30", "2026-09-30 10:20:30"
REFRESHED = [policy.collection for policy in list_history_policies() if policy.refresh is not None]


def run_jobs(simulated: SimulatedApp, clock: Clock) -> None:
    """Run the jobs that find changes of stored records, one step later."""
    clock.advance(minutes=MINUTES)
    simulated.context.sync_jobs.refresh_due_records()
    simulated.context.sync_jobs.verify_completeness()


def minutes_until(simulated: SimulatedApp, clock: Clock, is_here: Callable[[], bool], limit: int) -> float:
    """Minutes until `is_here()`, more than `limit` if it takes longer."""
    minutes = 0.0
    while not is_here() and minutes <= limit:
        run_jobs(simulated, clock)
        minutes += MINUTES
    return minutes


def add_copy(simulated: SimulatedApp, collection: str, at: str, **values: object) -> int:
    """Add a copy of the collection's last record, dated `at`."""
    records = simulated.simulator.world.collections[collection]
    number = simulated.simulator.world.new_id(collection)
    pattern = copy.deepcopy(list(records.records.values())[-1])
    records.add({**pattern, **values, "id": number, str(PLAN[collection].resource.date): at})
    return number


@pytest.fixture
def synced(simulated: SimulatedApp, movable_clock: Clock) -> Callable[..., list[int]]:
    """Add old records, then end all full syncs and their first jobs."""

    def synced(*old_records: tuple[str, str], **values: object) -> list[int]:
        keys = [add_copy(simulated, collection, at, **values) for collection, at in old_records]
        for collection in {collection for collection, _ in old_records}:
            run_full_sync(simulated.context, PLAN[collection])
        run_jobs(simulated, movable_clock)
        return keys

    return synced


@pytest.mark.parametrize("collections", [["cdrs"], pytest.param(REFRESHED, marks=pytest.mark.exhaustive)])
def test_an_edit_of_an_older_record_arrives_within_an_hour(simulated, synced, movable_clock, collections):
    keys = synced(*[(collection, NINETEEN_DAYS_AGO) for collection in collections])
    for collection, key in zip(collections, keys, strict=True):
        simulated.records(collection)[key]["edited"] = "later"

    def is_edited(collection: str, key: int) -> bool:
        return simulated.rows(f"SELECT 1 FROM {collection} WHERE id = ? AND _doc LIKE '%later%'", key) != []

    def are_all_here() -> bool:
        return all(is_edited(*pair) for pair in zip(collections, keys, strict=True))

    assert not are_all_here()
    assert minutes_until(simulated, movable_clock, are_all_here, 60) <= 60


def test_a_deletion_at_any_age_is_marked_within_an_hour(simulated, synced, movable_clock):
    """A fax has no path of its own.

    A second reading of the day confirms its deletion.
    """
    collections = ("cdrs", "faxes")
    keys = synced(*[(collection, SEVEN_WEEKS_AGO) for collection in collections])
    for collection, key in zip(collections, keys, strict=True):
        del simulated.records(collection)[key]

    def list_marked() -> list[int]:
        return [
            key
            for collection, key in zip(collections, keys, strict=True)
            if simulated.rows(f"SELECT 1 FROM {collection} WHERE id = ? AND _missing_since IS NOT NULL", key)
        ]

    assert minutes_until(simulated, movable_clock, lambda: list_marked() == keys, 60) <= 60
    how = dict(simulated.rows("SELECT collection, how FROM _deletions WHERE state = 'confirmed'"))
    assert how == {"cdrs": "404", "faxes": "walk"}
    for collection in collections:
        marked = simulated.rows(f"SELECT count(*) FROM {collection} WHERE _missing_since IS NOT NULL")
        assert marked == [(1,)], "another record is marked as well"
    assert simulated.rows("SELECT 1 FROM _coverage WHERE total <> ours") == []


def test_a_further_note_of_an_older_call_arrives_within_an_hour(simulated, synced, movable_clock):
    (key,) = synced(("cdrs", NINETEEN_DAYS_AGO), nb_notes=0)
    world = simulated.simulator.world

    def count_notes() -> int:
        rows = simulated.rows(
            "SELECT json_array_length(doc) FROM _below WHERE collection = 'cdrs' AND key = ?", key
        )
        return rows[0][0] if rows else 0

    def read_until(count: int) -> float:
        return minutes_until(simulated, movable_clock, lambda: count_notes() == count, 60)

    cdr, stored_notes = simulated.records("cdrs")[key], world.collections["cdrs/notes"].records
    for count in (1, 2):
        activity.add_note(world, cdr, None, f"note {count}", movable_clock.unix())
        assert read_until(count) <= 60
    # The last note stays no longer either.
    for number in [number for number, note in stored_notes.items() if note["cdr_id"] == key]:
        del stored_notes[number]
    cdr["nb_notes"] = 0
    assert read_until(0) <= 60
