from __future__ import annotations

import pytest

from integration.core import clock
from integration.core.errors import PlatformBroken, PlatformRefused
from integration.mirror.sync_state import lookup_queue
from integration.sync.plan import PLAN
from integration.sync.reading import live_poll, lookups
from integration.sync.reading.incremental_sync import run_incremental_sync
from integration.sync.reading.lookups import run_due_lookups

CDRS = PLAN["cdrs"]


def enqueue_ended_legs(simulated, *legs):
    """Queue the lookups of legs that have just ended by webhook."""
    simulated.mirror_db.write(
        lambda tx: [lookup_queue.enqueue_leg(tx, leg, clock.utc_text()) for leg in legs]
    )


def states(simulated):
    return dict(simulated.rows("SELECT id, state FROM _lookups"))


def wait_for_next(simulated, movable_clock):
    with simulated.mirror_db.read() as connection:
        at = lookup_queue.next_at(connection)
    if at is not None:
        movable_clock.advance(max(0.0, at - clock.unix()) + 0.01)
    return at is not None


def test_cdr_and_recording_are_looked_up_two_seconds_after_the_hangup(simulated, movable_clock):
    played = simulated.play("plain_answered")
    enqueue_ended_legs(simulated, *played["leg_ids"])
    assert run_due_lookups(simulated.context) == 0
    movable_clock.advance(2.1)
    assert run_due_lookups(simulated.context) == len(played["leg_ids"])
    assert set(played["cdr_ids"]) <= set(simulated.ids("cdrs"))
    assert set(played["monitor_ids"]) <= set(simulated.ids("monitors"))
    assert played["monitor_ids"]
    assert set(states(simulated).values()) == {"done"}


def test_a_late_cdr_and_a_late_recording_are_found_by_later_lookups(simulated, movable_clock):
    played = simulated.play("plain_answered")
    cdrs = {number: simulated.records("cdrs").pop(number) for number in played["cdr_ids"]}
    monitors = {number: simulated.records("monitors").pop(number) for number in played["monitor_ids"]}
    enqueue_ended_legs(simulated, *played["leg_ids"])
    for _ in range(3):
        wait_for_next(simulated, movable_clock)
        run_due_lookups(simulated.context)
    simulated.records("cdrs").update(cdrs)
    wait_for_next(simulated, movable_clock)
    run_due_lookups(simulated.context)
    assert set(cdrs) <= set(simulated.ids("cdrs"))
    assert set(states(simulated).values()) == {"open"}, "the recording can still appear"
    simulated.records("monitors").update(monitors)
    wait_for_next(simulated, movable_clock)
    run_due_lookups(simulated.context)
    assert set(monitors) <= set(simulated.ids("monitors"))
    assert set(states(simulated).values()) == {"done"}


def test_a_call_without_a_cdr_is_marked_after_a_day_and_at_most_twelve_lookups(simulated, movable_clock):
    begin = clock.unix()
    enqueue_ended_legs(simulated, 4_299_000_001)
    while wait_for_next(simulated, movable_clock):
        run_due_lookups(simulated.context)
    assert states(simulated) == {4_299_000_001: "unlearnt"}
    assert simulated.count_requests("/cdrs") <= 12
    assert clock.unix() - begin > 86400
    with simulated.mirror_db.read() as connection:
        assert lookup_queue.has_unresolved(connection, [4_299_000_001])


def test_the_lookup_of_an_answered_call_without_recording_ends_within_an_hour(simulated, movable_clock):
    added = simulated.add_cdrs(1, billsec=30)
    leg = simulated.records("cdrs")[added[0]]["live_id"]
    begin = clock.unix()
    enqueue_ended_legs(simulated, leg)
    while wait_for_next(simulated, movable_clock):
        run_due_lookups(simulated.context)
    assert states(simulated) == {leg: "done"}
    assert 60 < clock.unix() - begin < 3600


def test_lookups_of_calls_that_end_together_share_requests(simulated, movable_clock, monkeypatch):
    monkeypatch.setattr(lookups, "BATCH_SIZE", 30)
    legs = [simulated.records("cdrs")[number]["live_id"] for number in simulated.add_cdrs(40)]
    enqueue_ended_legs(simulated, *legs)
    movable_clock.advance(2.1)
    simulated.clear_requests()
    assert run_due_lookups(simulated.context) == 40
    assert simulated.count_requests("/cdrs") == simulated.count_requests("/monitors") == 2


def test_a_repeated_hangup_starts_no_second_lookup(simulated, movable_clock):
    leg = simulated.records("cdrs")[simulated.add_cdrs(1, billsec=0)[0]]["live_id"]
    for _ in range(3):
        enqueue_ended_legs(simulated, leg)
    movable_clock.advance(2.1)
    run_due_lookups(simulated.context)
    enqueue_ended_legs(simulated, leg)
    movable_clock.advance(60)
    assert run_due_lookups(simulated.context) == 0


def test_an_announced_recording_is_looked_up_at_once(simulated):
    played = simulated.play("plain_answered")
    monitor = played["monitor_ids"][0]
    simulated.mirror_db.write(lambda tx: lookup_queue.enqueue_recording(tx, played["leg_ids"][0], monitor))
    assert run_due_lookups(simulated.context) == 1
    assert simulated.ids("monitors") == [monitor]
    simulated.mirror_db.write(lambda tx: lookup_queue.enqueue_recording(tx, played["leg_ids"][0], monitor))
    assert run_due_lookups(simulated.context) == 0


def test_a_recording_announced_without_an_id_is_looked_up_at_once(simulated, movable_clock):
    played = simulated.play("plain_answered")
    leg = simulated.records("monitors")[played["monitor_ids"][0]]["live_id"]
    enqueue_ended_legs(simulated, leg)
    simulated.mirror_db.write(lambda tx: lookup_queue.enqueue_recording(tx, leg, None))
    assert run_due_lookups(simulated.context) == 1
    assert simulated.ids("monitors") == played["monitor_ids"][:1]


def test_a_failed_request_does_not_count_as_a_try(simulated, movable_clock):
    played = simulated.play("plain_answered")
    enqueue_ended_legs(simulated, *played["leg_ids"])
    movable_clock.advance(2.1)
    simulated.faults("status=500@/cdrs")
    for _ in range(20):
        with pytest.raises(PlatformBroken):
            run_due_lookups(simulated.context)
    simulated.simulator.context.faults.clear()
    run_due_lookups(simulated.context)
    assert set(states(simulated).values()) == {"done"}
    assert simulated.rows("SELECT DISTINCT tries FROM _lookups") == [(1,)]


@pytest.mark.parametrize("status", [403, 404])
def test_the_cdr_of_a_leg_is_stored_on_an_account_without_recordings(simulated, movable_clock, status):
    played = simulated.play("plain_answered")
    enqueue_ended_legs(simulated, *played["leg_ids"])
    simulated.faults(f"status={status}@/monitors")
    movable_clock.advance(2.1)
    assert run_due_lookups(simulated.context) == len(played["leg_ids"])
    assert set(played["cdr_ids"]) <= set(simulated.ids("cdrs"))
    while wait_for_next(simulated, movable_clock):
        run_due_lookups(simulated.context)
    assert set(states(simulated).values()) == {"done"}


def test_without_filters_by_list_each_leg_is_looked_up_alone(simulated, movable_clock, monkeypatch):
    real = simulated.context.platform.page

    def page(*args, filter=(), **options):
        if any(operator == "in" for _, operator, _ in filter):
            raise PlatformRefused("Filtration error", status=400)
        return real(*args, filter=filter, **options)

    monkeypatch.setattr(simulated.context.platform, "page", page)
    legs = [simulated.records("cdrs")[number]["live_id"] for number in simulated.add_cdrs(3, billsec=0)]
    enqueue_ended_legs(simulated, *legs)
    movable_clock.advance(2.1)
    run_due_lookups(simulated.context)
    assert set(states(simulated).values()) == {"done"}


def test_a_leg_ended_by_a_poll_is_looked_up(simulated, movable_clock):
    played = simulated.control("calls", script="plain_answered", until="connected")
    for event in played["events"]:
        simulated.receive(event)
    for leg in played["leg_ids"]:
        simulated.simulator.world.live_legs.pop(leg)
    movable_clock.advance(5)
    live_poll.poll(simulated.context)
    assert states(simulated) == dict.fromkeys(played["leg_ids"], "open")


def test_an_incremental_sync_reads_from_the_start_of_recently_ended_calls(simulated, movable_clock):
    """The CDR of a long call appears after records with higher ids."""
    simulated.simulator.context.webhook_sender.url = None
    played = simulated.control(
        "calls", script="plain_answered", instant=True, talk_seconds=4 * 3600, hold=False
    )
    removed = {number: simulated.records("cdrs").pop(number) for number in played["cdr_ids"]}
    simulated.add_cdrs(1, calldate=clock.utc_text())
    for _ in range(2):
        run_incremental_sync(simulated.context, CDRS)
    simulated.records("cdrs").update(removed)
    run_incremental_sync(simulated.context, CDRS)
    assert not removed.keys() & set(simulated.ids("cdrs"))
    for event in played["events"]:
        if event["event_name"].startswith("call."):
            simulated.receive(event)
    run_incremental_sync(simulated.context, CDRS)
    assert removed.keys() <= set(simulated.ids("cdrs"))
    with simulated.mirror_db.read() as connection:
        assert lookup_queue.find_recent_leg_start(connection, clock.unix()) is not None
        assert lookup_queue.find_recent_leg_start(connection, clock.unix() + 3700) is None
