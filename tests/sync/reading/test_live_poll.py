from __future__ import annotations

import pytest

from integration.core.errors import PlatformError
from integration.sync.plan import PLAN
from integration.sync.reading import live_poll
from integration.sync.reading.incremental_sync import run_incremental_sync

CDRS = PLAN["cdrs"]


def calls(simulated):
    return simulated.rows("SELECT state, unconfirmed FROM _calls WHERE state <> 'ended' ORDER BY id")


def going_on(simulated, *, told=True):
    """A call that talks at the platform; `told` by webhooks or not."""
    made = simulated.control("calls", script="plain_answered", until="connected")
    if told:
        tell(simulated, made["events"])
    return made


def tell(simulated, events):
    for event in events:
        if event["event_name"].startswith("call."):
            simulated.receive(event)


def hang_up(simulated, made):
    """It ends at the platform, and nobody tells us."""
    for leg in made["leg_ids"]:
        simulated.simulator.world.live_legs.pop(leg, None)


def test_a_call_that_no_webhook_told_is_seen_by_a_poll(simulated):
    made = going_on(simulated, told=False)
    assert live_poll.poll(simulated.context) == 1
    assert [row[0] for row in calls(simulated)] == ["talking"]
    assert simulated.rows("SELECT id, _source FROM calls") == [(made["leg_ids"][0], "sync")]


def test_a_ghost_is_closed_when_its_own_path_is_gone_too(simulated, movable_clock):
    made = going_on(simulated)
    assert calls(simulated) == [("talking", 0)]
    hang_up(simulated, made)
    movable_clock.advance(5)
    live_poll.poll(simulated.context)
    assert calls(simulated) == []
    assert simulated.ids("calls") == []
    live_poll.poll(simulated.context)
    assert not live_poll.needed(simulated.context)


def test_a_call_missing_from_the_list_stays_unconfirmed_while_its_path_cannot_be_asked(
    simulated, movable_clock
):
    made = going_on(simulated)
    hang_up(simulated, made)
    movable_clock.advance(5)
    simulated.faults(f"status=500@/calls/{made['leg_ids'][0]}")
    live_poll.poll(simulated.context)
    assert calls(simulated) == [("talking", 1)]
    simulated.simulator.context.faults.clear()
    live_poll.poll(simulated.context)
    assert calls(simulated) == []


def test_a_call_that_the_list_forgot_but_its_path_knows_goes_on(simulated, movable_clock):
    going_on(simulated)
    movable_clock.advance(5)
    simulated.faults("empty@/calls")
    live_poll.poll(simulated.context)
    assert [row[0] for row in calls(simulated)] == ["talking"]


def test_a_call_told_a_moment_ago_is_not_taken_for_a_ghost(simulated):
    made = going_on(simulated)
    hang_up(simulated, made)
    live_poll.poll(simulated.context)
    assert simulated.count_requests(f"/calls/{made['leg_ids'][0]}") == 0


def test_a_platform_that_is_away_closes_nothing(simulated, movable_clock):
    going_on(simulated)
    movable_clock.advance(5)
    simulated.faults("status=500@/calls")
    with pytest.raises(PlatformError):
        live_poll.poll(simulated.context)
    assert calls(simulated) == [("talking", 0)]


def test_a_hangup_that_comes_while_the_list_is_on_its_way_is_not_undone(
    simulated, movable_clock, monkeypatch
):
    made = simulated.control("calls", script="plain_answered", instant=True)
    events = [event for event in made["events"] if event["event_name"].startswith("call.")]
    tell(simulated, events[:-1])
    listed = simulated.context.platform.page

    def page(collection, **options):
        found = listed(collection, **options)
        simulated.receive(events[-1])
        return found

    monkeypatch.setattr(simulated.context.platform, "page", page)
    live_poll.poll(simulated.context)
    assert simulated.ids("calls") == []
    assert calls(simulated) == []


def test_polls_are_needed_while_calls_are_open(simulated, movable_clock):
    live_poll.poll(simulated.context)
    assert not live_poll.needed(simulated.context)
    made = going_on(simulated)
    assert live_poll.needed(simulated.context)
    hang_up(simulated, made)
    movable_clock.advance(5)
    live_poll.poll(simulated.context)
    assert not live_poll.needed(simulated.context)


def test_polls_are_needed_for_an_hour_after_a_call_that_only_rest_showed(simulated, movable_clock):
    for record in simulated.records("cdrs").values():
        record["calldate"] = "2026-01-02 03:04:05"
    live_poll.poll(simulated.context)
    made = simulated.control("calls", script="plain_answered", instant=True)
    run_incremental_sync(simulated.context, CDRS)
    assert live_poll.needed(simulated.context)
    tell(simulated, made["events"])
    assert not live_poll.needed(simulated.context), "webhooks told of it after all"
    simulated.play("plain_answered")
    run_incremental_sync(simulated.context, CDRS)
    assert live_poll.needed(simulated.context)
    movable_clock.advance(2 * 3600)
    live_poll.poll(simulated.context)
    assert not live_poll.needed(simulated.context)


def test_a_quiet_account_is_polled_as_often_as_a_list(simulated, movable_clock):
    """A call that no webhook told, and no record yet, is seen within five minutes, too."""
    assert live_poll.needed(simulated.context)
    live_poll.poll(simulated.context)
    assert simulated.state("calls").last_success_at is not None
    assert not live_poll.needed(simulated.context)
    movable_clock.advance(241)
    assert live_poll.needed(simulated.context)
