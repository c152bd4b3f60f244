from __future__ import annotations

import pytest

from integration.core.errors import PlatformError
from integration.sync.plan import PLAN
from integration.sync.reading import live_poll
from integration.sync.reading.incremental_sync import run_incremental_sync

CDRS = PLAN["cdrs"]


def list_open_calls(simulated):
    return simulated.rows("SELECT state, unconfirmed FROM _calls WHERE state <> 'ended' ORDER BY id")


def start_call(simulated, *, with_webhooks=True):
    """Start a call and connect it; `with_webhooks`: the application receives its webhooks."""
    played = simulated.control("calls", script="plain_answered", until="connected")
    if with_webhooks:
        send_webhooks(simulated, played["events"])
    return played


def send_webhooks(simulated, events):
    for event in events:
        if event["event_name"].startswith("call."):
            simulated.receive(event)


def hang_up(simulated, played):
    """End the call on the platform without webhooks."""
    for leg in played["leg_ids"]:
        simulated.simulator.world.live_legs.pop(leg, None)


def test_a_poll_shows_a_call_without_webhooks(simulated):
    played = start_call(simulated, with_webhooks=False)
    assert live_poll.poll(simulated.context) == 1
    assert [row[0] for row in list_open_calls(simulated)] == ["talking"]
    assert simulated.rows("SELECT id, _source FROM calls") == [(played["leg_ids"][0], "sync")]


def test_a_ghost_call_ends_when_its_own_path_returns_404(simulated, movable_clock):
    played = start_call(simulated)
    assert list_open_calls(simulated) == [("talking", 0)]
    hang_up(simulated, played)
    movable_clock.advance(5)
    live_poll.poll(simulated.context)
    assert list_open_calls(simulated) == []
    assert simulated.ids("calls") == []
    live_poll.poll(simulated.context)
    assert not live_poll.needed(simulated.context)


def test_a_call_missing_from_the_list_is_unconfirmed_while_its_path_fails(simulated, movable_clock):
    played = start_call(simulated)
    hang_up(simulated, played)
    movable_clock.advance(5)
    simulated.faults(f"status=500@/calls/{played['leg_ids'][0]}")
    live_poll.poll(simulated.context)
    assert list_open_calls(simulated) == [("talking", 1)]
    simulated.simulator.context.faults.clear()
    live_poll.poll(simulated.context)
    assert list_open_calls(simulated) == []


def test_a_call_missing_from_the_list_continues_if_its_path_returns_it(simulated, movable_clock):
    start_call(simulated)
    movable_clock.advance(5)
    simulated.faults("empty@/calls")
    live_poll.poll(simulated.context)
    assert [row[0] for row in list_open_calls(simulated)] == ["talking"]


def test_a_call_from_a_recent_webhook_is_no_ghost_call(simulated):
    played = start_call(simulated)
    hang_up(simulated, played)
    live_poll.poll(simulated.context)
    assert simulated.count_requests(f"/calls/{played['leg_ids'][0]}") == 0


def test_a_failed_poll_ends_no_call(simulated, movable_clock):
    start_call(simulated)
    movable_clock.advance(5)
    simulated.faults("status=500@/calls")
    with pytest.raises(PlatformError):
        live_poll.poll(simulated.context)
    assert list_open_calls(simulated) == [("talking", 0)]


def test_a_hangup_received_during_a_poll_stays_in_effect(simulated, movable_clock, monkeypatch):
    played = simulated.control("calls", script="plain_answered", instant=True)
    events = [event for event in played["events"] if event["event_name"].startswith("call.")]
    send_webhooks(simulated, events[:-1])
    listed = simulated.context.platform.page

    def page(collection, **options):
        found = listed(collection, **options)
        simulated.receive(events[-1])
        return found

    monkeypatch.setattr(simulated.context.platform, "page", page)
    live_poll.poll(simulated.context)
    assert simulated.ids("calls") == []
    assert list_open_calls(simulated) == []


def test_polls_are_needed_for_an_hour_after_a_call_without_webhooks(simulated, movable_clock):
    for record in simulated.records("cdrs").values():
        record["calldate"] = "2026-01-02 03:04:05"
    live_poll.poll(simulated.context)
    played = simulated.control("calls", script="plain_answered", instant=True)
    run_incremental_sync(simulated.context, CDRS)
    assert live_poll.needed(simulated.context)
    send_webhooks(simulated, played["events"])
    assert not live_poll.needed(simulated.context), "the call has webhooks"
    simulated.play("plain_answered")
    run_incremental_sync(simulated.context, CDRS)
    assert live_poll.needed(simulated.context)
    movable_clock.advance(2 * 3600)
    live_poll.poll(simulated.context)
    assert not live_poll.needed(simulated.context)


def test_an_account_without_calls_is_polled_every_four_minutes(simulated, movable_clock):
    """So a call without webhooks and CDR is shown within five minutes."""
    assert live_poll.needed(simulated.context)
    live_poll.poll(simulated.context)
    assert simulated.state("calls").last_success_at is not None
    assert not live_poll.needed(simulated.context)
    movable_clock.advance(241)
    assert live_poll.needed(simulated.context)
