from __future__ import annotations

import pytest

from integration.core import clock
from integration.core.errors import PlatformBroken, PlatformRefused
from integration.mirror.sync_state import lookup_queue
from integration.sync.reading import live_poll
from integration.sync.reading.incremental_sync import refresh_recent, run_incremental_sync
from integration.sync.reading.lookups import run_due_lookups
from tests.support.applications.sync_rig import CDRS


def ended(rig, *legs):
    """Webhooks said that these legs ended just now."""
    rig.mirror_db.write(lambda tx: [lookup_queue.enqueue_leg(tx, leg, clock.utc_text()) for leg in legs])


def states(rig):
    return dict(rig.rows("SELECT id, state FROM _lookups"))


def wait_for_next(rig, later):
    with rig.mirror_db.read() as connection:
        at = lookup_queue.next_at(connection)
    if at is not None:
        later(max(0.0, at - clock.unix()) + 0.01)
    return at is not None


def test_two_seconds_after_a_hangup_the_cdr_and_the_recording_are_there(rig, later):
    made = rig.play("plain_answered")
    ended(rig, *made["leg_ids"])
    assert run_due_lookups(rig.parts) == 0
    later(2.1)
    assert run_due_lookups(rig.parts) == len(made["leg_ids"])
    assert set(made["cdr_ids"]) <= set(rig.ids("cdrs"))
    assert set(made["monitor_ids"]) <= set(rig.ids("monitors"))
    assert made["monitor_ids"]
    assert set(states(rig).values()) == {"done"}


def test_a_cdr_and_a_recording_that_come_late_are_found(rig, later):
    made = rig.play("plain_answered")
    cdrs = {number: rig.records("cdrs").pop(number) for number in made["cdr_ids"]}
    monitors = {number: rig.records("monitors").pop(number) for number in made["monitor_ids"]}
    ended(rig, *made["leg_ids"])
    for _ in range(3):
        wait_for_next(rig, later)
        run_due_lookups(rig.parts)
    rig.records("cdrs").update(cdrs)
    wait_for_next(rig, later)
    run_due_lookups(rig.parts)
    assert set(cdrs) <= set(rig.ids("cdrs"))
    assert set(states(rig).values()) == {"open"}, "whether it was recorded is not known yet"
    rig.records("monitors").update(monitors)
    wait_for_next(rig, later)
    run_due_lookups(rig.parts)
    assert set(monitors) <= set(rig.ids("monitors"))
    assert set(states(rig).values()) == {"done"}


def test_a_call_without_a_cdr_is_marked_after_a_day_and_at_most_twelve_look_ups(rig, later):
    begin = clock.unix()
    ended(rig, 4_299_000_001)
    while wait_for_next(rig, later):
        run_due_lookups(rig.parts)
    assert states(rig) == {4_299_000_001: "unlearnt"}
    assert rig.asked("/cdrs") <= 12
    assert clock.unix() - begin > 86400
    with rig.mirror_db.read() as connection:
        assert lookup_queue.has_unresolved(connection, [4_299_000_001])


def test_an_answered_call_that_was_not_recorded_is_settled_after_some_minutes(rig, later):
    added = rig.add_cdrs(1, billsec=30)
    leg = rig.records("cdrs")[added[0]]["live_id"]
    begin = clock.unix()
    ended(rig, leg)
    while wait_for_next(rig, later):
        run_due_lookups(rig.parts)
    assert states(rig) == {leg: "done"}
    assert 60 < clock.unix() - begin < 3600


def test_a_call_nobody_answered_is_settled_with_its_cdr(rig, later):
    leg = rig.records("cdrs")[rig.add_cdrs(1, billsec=0)[0]]["live_id"]
    ended(rig, leg)
    later(2.1)
    run_due_lookups(rig.parts)
    assert states(rig) == {leg: "done"}


def test_many_calls_that_end_together_share_their_requests(rig, later):
    legs = [rig.records("cdrs")[number]["live_id"] for number in rig.add_cdrs(40)]
    ended(rig, *legs)
    later(2.1)
    rig.forget_asked()
    assert run_due_lookups(rig.parts) == 40
    assert rig.asked("/cdrs") == rig.asked("/monitors") == 1


def test_a_redelivered_hangup_starts_no_second_series(rig, later):
    leg = rig.records("cdrs")[rig.add_cdrs(1, billsec=0)[0]]["live_id"]
    for _ in range(3):
        ended(rig, leg)
    later(2.1)
    run_due_lookups(rig.parts)
    ended(rig, leg)
    later(60)
    assert run_due_lookups(rig.parts) == 0


def test_an_announced_recording_is_looked_for_at_once(rig):
    made = rig.play("plain_answered")
    monitor = made["monitor_ids"][0]
    rig.mirror_db.write(lambda tx: lookup_queue.enqueue_recording(tx, made["leg_ids"][0], monitor))
    assert run_due_lookups(rig.parts) == 1
    assert rig.ids("monitors") == [monitor]
    rig.mirror_db.write(lambda tx: lookup_queue.enqueue_recording(tx, made["leg_ids"][0], monitor))
    assert run_due_lookups(rig.parts) == 0


def test_a_recording_announced_by_its_leg_alone_is_looked_for_at_once(rig, later):
    made = rig.play("plain_answered")
    leg = rig.records("monitors")[made["monitor_ids"][0]]["live_id"]
    ended(rig, leg)
    rig.mirror_db.write(lambda tx: lookup_queue.enqueue_recording(tx, leg, None))
    assert run_due_lookups(rig.parts) == 1
    assert rig.ids("monitors") == made["monitor_ids"][:1]


def test_while_the_platform_is_away_no_try_is_counted(rig, later):
    made = rig.play("plain_answered")
    ended(rig, *made["leg_ids"])
    later(2.1)
    rig.faults("status=500@/cdrs")
    for _ in range(20):
        with pytest.raises(PlatformBroken):
            run_due_lookups(rig.parts)
    rig.simulator.context.faults.clear()
    run_due_lookups(rig.parts)
    assert set(states(rig).values()) == {"done"}
    assert rig.rows("SELECT DISTINCT tries FROM _lookups") == [(1,)]


def test_a_platform_that_does_not_take_lists_is_asked_for_each(rig, later, monkeypatch):
    real = rig.platform.page

    def page(*args, filter=(), **options):
        if any(operator == "in" for _, operator, _ in filter):
            raise PlatformRefused("Filtration error", status=400)
        return real(*args, filter=filter, **options)

    monkeypatch.setattr(rig.platform, "page", page)
    legs = [rig.records("cdrs")[number]["live_id"] for number in rig.add_cdrs(3, billsec=0)]
    ended(rig, *legs)
    later(2.1)
    run_due_lookups(rig.parts)
    assert set(states(rig).values()) == {"done"}


def test_a_clock_that_was_set_back_delays_no_look_up(rig, later):
    ended(rig, 4_299_000_001)
    later(-86400)
    assert run_due_lookups(rig.parts) == 1


def test_a_leg_that_polls_found_gone_is_looked_up_too(rig, later):
    made = rig.control("calls", script="plain_answered", until="connected")
    for event in made["events"]:
        rig.tell(event)
    for leg in made["leg_ids"]:
        rig.simulator.world.live_legs.pop(leg)
    later(5)
    live_poll.poll(rig.parts)
    assert states(rig) == dict.fromkeys(made["leg_ids"], "open")


def test_a_look_back_goes_back_to_the_start_of_calls_that_ended_lately(rig, later):
    """A long call's CDR comes late, behind records with higher ids."""
    rig.simulator.context.webhook_sender.url = None
    made = rig.control("calls", script="plain_answered", instant=True, talk_seconds=4 * 3600, hold=False)
    kept = {number: rig.records("cdrs").pop(number) for number in made["cdr_ids"]}
    rig.add_cdrs(1, calldate=clock.utc_text())
    for _ in range(2):
        run_incremental_sync(rig.parts, CDRS)
    rig.records("cdrs").update(kept)
    run_incremental_sync(rig.parts, CDRS)
    assert not kept.keys() & set(rig.ids("cdrs"))
    for event in made["events"]:
        if event["event_name"].startswith("call."):
            rig.tell(event)
    run_incremental_sync(rig.parts, CDRS)
    assert kept.keys() <= set(rig.ids("cdrs"))
    with rig.mirror_db.read() as connection:
        assert lookup_queue.find_recent_leg_start(connection, clock.unix()) is not None
        assert lookup_queue.find_recent_leg_start(connection, clock.unix() + 3700) is None


def test_a_start_that_no_call_can_have_had_makes_no_look_back_long(rig):
    made = rig.control("calls", script="plain_answered", instant=True)
    for event in made["events"]:
        if event["event_name"].startswith("call."):
            rig.tell({**event, "start_time": "1970-01-01 00:00:00"})
    with rig.mirror_db.read() as connection:
        assert lookup_queue.find_recent_leg_start(connection, clock.unix()) is None


def test_calls_of_which_no_record_came_are_listed_until_one_does(rig, later):
    made = rig.control("calls", script="plain_answered", instant=True)
    cdrs = {number: rig.records("cdrs").pop(number) for number in made["cdr_ids"]}
    for event in made["events"]:
        if event["event_name"].startswith("call."):
            rig.tell(event)

    def unlearnt():
        with rig.mirror_db.read() as connection:
            return lookup_queue.list_unresolved_calls(connection, 0.0)

    while wait_for_next(rig, later):
        assert unlearnt() == []
        run_due_lookups(rig.parts)
    assert unlearnt() == [made["root_call_id"]]
    rig.records("cdrs").update(cdrs)
    later(60)
    refresh_recent(rig.parts, CDRS, 2)
    assert unlearnt() == []


def test_a_look_up_arranged_while_the_clock_was_fast_is_due_when_it_is_right_again(rig, later):
    ended(rig, 4_299_000_001)
    later(86400)
    assert run_due_lookups(rig.parts) == 1
    later(-86400)
    assert run_due_lookups(rig.parts) == 1
    assert run_due_lookups(rig.parts) == 0
