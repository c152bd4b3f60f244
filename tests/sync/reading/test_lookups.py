from __future__ import annotations

import pytest

from integration.core import clock
from integration.core.errors import PlatformBroken, PlatformRefused
from integration.mirror.sync_state import lookup_queue
from integration.sync.plan import PLAN
from integration.sync.reading import live_poll
from integration.sync.reading.incremental_sync import refresh_recent, run_incremental_sync
from integration.sync.reading.lookups import run_due_lookups

CDRS = PLAN["cdrs"]


def ended(simulated, *legs):
    """Webhooks said that these legs ended just now."""
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


def test_two_seconds_after_a_hangup_the_cdr_and_the_recording_are_there(simulated, movable_clock):
    made = simulated.play("plain_answered")
    ended(simulated, *made["leg_ids"])
    assert run_due_lookups(simulated.context) == 0
    movable_clock.advance(2.1)
    assert run_due_lookups(simulated.context) == len(made["leg_ids"])
    assert set(made["cdr_ids"]) <= set(simulated.ids("cdrs"))
    assert set(made["monitor_ids"]) <= set(simulated.ids("monitors"))
    assert made["monitor_ids"]
    assert set(states(simulated).values()) == {"done"}


def test_a_cdr_and_a_recording_that_come_late_are_found(simulated, movable_clock):
    made = simulated.play("plain_answered")
    cdrs = {number: simulated.records("cdrs").pop(number) for number in made["cdr_ids"]}
    monitors = {number: simulated.records("monitors").pop(number) for number in made["monitor_ids"]}
    ended(simulated, *made["leg_ids"])
    for _ in range(3):
        wait_for_next(simulated, movable_clock)
        run_due_lookups(simulated.context)
    simulated.records("cdrs").update(cdrs)
    wait_for_next(simulated, movable_clock)
    run_due_lookups(simulated.context)
    assert set(cdrs) <= set(simulated.ids("cdrs"))
    assert set(states(simulated).values()) == {"open"}, "whether it was recorded is not known yet"
    simulated.records("monitors").update(monitors)
    wait_for_next(simulated, movable_clock)
    run_due_lookups(simulated.context)
    assert set(monitors) <= set(simulated.ids("monitors"))
    assert set(states(simulated).values()) == {"done"}


def test_a_call_without_a_cdr_is_marked_after_a_day_and_at_most_twelve_look_ups(simulated, movable_clock):
    begin = clock.unix()
    ended(simulated, 4_299_000_001)
    while wait_for_next(simulated, movable_clock):
        run_due_lookups(simulated.context)
    assert states(simulated) == {4_299_000_001: "unlearnt"}
    assert simulated.count_requests("/cdrs") <= 12
    assert clock.unix() - begin > 86400
    with simulated.mirror_db.read() as connection:
        assert lookup_queue.has_unresolved(connection, [4_299_000_001])


def test_an_answered_call_that_was_not_recorded_is_settled_after_some_minutes(simulated, movable_clock):
    added = simulated.add_cdrs(1, billsec=30)
    leg = simulated.records("cdrs")[added[0]]["live_id"]
    begin = clock.unix()
    ended(simulated, leg)
    while wait_for_next(simulated, movable_clock):
        run_due_lookups(simulated.context)
    assert states(simulated) == {leg: "done"}
    assert 60 < clock.unix() - begin < 3600


def test_a_call_nobody_answered_is_settled_with_its_cdr(simulated, movable_clock):
    leg = simulated.records("cdrs")[simulated.add_cdrs(1, billsec=0)[0]]["live_id"]
    ended(simulated, leg)
    movable_clock.advance(2.1)
    run_due_lookups(simulated.context)
    assert states(simulated) == {leg: "done"}


def test_many_calls_that_end_together_share_their_requests(simulated, movable_clock):
    legs = [simulated.records("cdrs")[number]["live_id"] for number in simulated.add_cdrs(40)]
    ended(simulated, *legs)
    movable_clock.advance(2.1)
    simulated.clear_requests()
    assert run_due_lookups(simulated.context) == 40
    assert simulated.count_requests("/cdrs") == simulated.count_requests("/monitors") == 1


def test_a_redelivered_hangup_starts_no_second_series(simulated, movable_clock):
    leg = simulated.records("cdrs")[simulated.add_cdrs(1, billsec=0)[0]]["live_id"]
    for _ in range(3):
        ended(simulated, leg)
    movable_clock.advance(2.1)
    run_due_lookups(simulated.context)
    ended(simulated, leg)
    movable_clock.advance(60)
    assert run_due_lookups(simulated.context) == 0


def test_an_announced_recording_is_looked_for_at_once(simulated):
    made = simulated.play("plain_answered")
    monitor = made["monitor_ids"][0]
    simulated.mirror_db.write(lambda tx: lookup_queue.enqueue_recording(tx, made["leg_ids"][0], monitor))
    assert run_due_lookups(simulated.context) == 1
    assert simulated.ids("monitors") == [monitor]
    simulated.mirror_db.write(lambda tx: lookup_queue.enqueue_recording(tx, made["leg_ids"][0], monitor))
    assert run_due_lookups(simulated.context) == 0


def test_a_recording_announced_by_its_leg_alone_is_looked_for_at_once(simulated, movable_clock):
    made = simulated.play("plain_answered")
    leg = simulated.records("monitors")[made["monitor_ids"][0]]["live_id"]
    ended(simulated, leg)
    simulated.mirror_db.write(lambda tx: lookup_queue.enqueue_recording(tx, leg, None))
    assert run_due_lookups(simulated.context) == 1
    assert simulated.ids("monitors") == made["monitor_ids"][:1]


def test_while_the_platform_is_away_no_try_is_counted(simulated, movable_clock):
    made = simulated.play("plain_answered")
    ended(simulated, *made["leg_ids"])
    movable_clock.advance(2.1)
    simulated.faults("status=500@/cdrs")
    for _ in range(20):
        with pytest.raises(PlatformBroken):
            run_due_lookups(simulated.context)
    simulated.simulator.context.faults.clear()
    run_due_lookups(simulated.context)
    assert set(states(simulated).values()) == {"done"}
    assert simulated.rows("SELECT DISTINCT tries FROM _lookups") == [(1,)]


def test_a_platform_that_does_not_take_lists_is_asked_for_each(simulated, movable_clock, monkeypatch):
    real = simulated.context.platform.page

    def page(*args, filter=(), **options):
        if any(operator == "in" for _, operator, _ in filter):
            raise PlatformRefused("Filtration error", status=400)
        return real(*args, filter=filter, **options)

    monkeypatch.setattr(simulated.context.platform, "page", page)
    legs = [simulated.records("cdrs")[number]["live_id"] for number in simulated.add_cdrs(3, billsec=0)]
    ended(simulated, *legs)
    movable_clock.advance(2.1)
    run_due_lookups(simulated.context)
    assert set(states(simulated).values()) == {"done"}


def test_a_clock_that_was_set_back_delays_no_look_up(simulated, movable_clock):
    ended(simulated, 4_299_000_001)
    movable_clock.advance(-86400)
    assert run_due_lookups(simulated.context) == 1


def test_a_leg_that_polls_found_gone_is_looked_up_too(simulated, movable_clock):
    made = simulated.control("calls", script="plain_answered", until="connected")
    for event in made["events"]:
        simulated.receive(event)
    for leg in made["leg_ids"]:
        simulated.simulator.world.live_legs.pop(leg)
    movable_clock.advance(5)
    live_poll.poll(simulated.context)
    assert states(simulated) == dict.fromkeys(made["leg_ids"], "open")


def test_a_look_back_goes_back_to_the_start_of_calls_that_ended_lately(simulated, movable_clock):
    """A long call's CDR comes late, behind records with higher ids."""
    simulated.simulator.context.webhook_sender.url = None
    made = simulated.control(
        "calls", script="plain_answered", instant=True, talk_seconds=4 * 3600, hold=False
    )
    kept = {number: simulated.records("cdrs").pop(number) for number in made["cdr_ids"]}
    simulated.add_cdrs(1, calldate=clock.utc_text())
    for _ in range(2):
        run_incremental_sync(simulated.context, CDRS)
    simulated.records("cdrs").update(kept)
    run_incremental_sync(simulated.context, CDRS)
    assert not kept.keys() & set(simulated.ids("cdrs"))
    for event in made["events"]:
        if event["event_name"].startswith("call."):
            simulated.receive(event)
    run_incremental_sync(simulated.context, CDRS)
    assert kept.keys() <= set(simulated.ids("cdrs"))
    with simulated.mirror_db.read() as connection:
        assert lookup_queue.find_recent_leg_start(connection, clock.unix()) is not None
        assert lookup_queue.find_recent_leg_start(connection, clock.unix() + 3700) is None


def test_a_start_that_no_call_can_have_had_makes_no_look_back_long(simulated):
    made = simulated.control("calls", script="plain_answered", instant=True)
    for event in made["events"]:
        if event["event_name"].startswith("call."):
            simulated.receive({**event, "start_time": "1970-01-01 00:00:00"})
    with simulated.mirror_db.read() as connection:
        assert lookup_queue.find_recent_leg_start(connection, clock.unix()) is None


def test_calls_of_which_no_record_came_are_listed_until_one_does(simulated, movable_clock):
    made = simulated.control("calls", script="plain_answered", instant=True)
    cdrs = {number: simulated.records("cdrs").pop(number) for number in made["cdr_ids"]}
    for event in made["events"]:
        if event["event_name"].startswith("call."):
            simulated.receive(event)

    def unlearnt():
        with simulated.mirror_db.read() as connection:
            return lookup_queue.list_unresolved_calls(connection, 0.0)

    while wait_for_next(simulated, movable_clock):
        assert unlearnt() == []
        run_due_lookups(simulated.context)
    assert unlearnt() == [made["root_call_id"]]
    simulated.records("cdrs").update(cdrs)
    movable_clock.advance(60)
    refresh_recent(simulated.context, CDRS, 2)
    assert unlearnt() == []


def test_a_look_up_arranged_while_the_clock_was_fast_is_due_when_it_is_right_again(simulated, movable_clock):
    ended(simulated, 4_299_000_001)
    movable_clock.advance(86400)
    assert run_due_lookups(simulated.context) == 1
    movable_clock.advance(-86400)
    assert run_due_lookups(simulated.context) == 1
    assert run_due_lookups(simulated.context) == 0
