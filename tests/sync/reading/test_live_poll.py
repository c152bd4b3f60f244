from __future__ import annotations

import pytest

from integration.core.errors import PlatformError
from integration.sync.reading import live_poll
from integration.sync.reading.incremental_sync import run_incremental_sync
from tests.support.applications.sync_rig import CDRS


def calls(rig):
    return rig.rows("SELECT state, unconfirmed FROM _calls WHERE state <> 'ended' ORDER BY id")


def going_on(rig, *, told=True):
    """A call that talks at the platform; `told` by webhooks or not."""
    made = rig.control("calls", script="plain_answered", until="connected")
    if told:
        tell(rig, made["events"])
    return made


def tell(rig, events):
    for event in events:
        if event["event_name"].startswith("call."):
            rig.tell(event)


def hang_up(rig, made):
    """It ends at the platform, and nobody tells us."""
    for leg in made["leg_ids"]:
        rig.simulator.world.live_legs.pop(leg, None)


def test_a_call_that_no_webhook_told_is_seen_by_a_poll(rig):
    made = going_on(rig, told=False)
    assert live_poll.poll(rig.parts) == 1
    assert [row[0] for row in calls(rig)] == ["talking"]
    assert rig.rows("SELECT id, _source FROM calls") == [(made["leg_ids"][0], "sync")]


def test_a_ghost_is_closed_when_its_own_path_is_gone_too(rig, later):
    made = going_on(rig)
    assert calls(rig) == [("talking", 0)]
    hang_up(rig, made)
    later(5)
    live_poll.poll(rig.parts)
    assert calls(rig) == []
    assert rig.ids("calls") == []
    live_poll.poll(rig.parts)
    assert not live_poll.needed(rig.parts)


def test_a_call_missing_from_the_list_stays_unconfirmed_while_its_path_cannot_be_asked(rig, later):
    made = going_on(rig)
    hang_up(rig, made)
    later(5)
    rig.faults(f"status=500@/calls/{made['leg_ids'][0]}")
    live_poll.poll(rig.parts)
    assert calls(rig) == [("talking", 1)]
    rig.simulator.context.faults.clear()
    live_poll.poll(rig.parts)
    assert calls(rig) == []


def test_a_call_that_the_list_forgot_but_its_path_knows_goes_on(rig, later):
    going_on(rig)
    later(5)
    rig.faults("empty@/calls")
    live_poll.poll(rig.parts)
    assert [row[0] for row in calls(rig)] == ["talking"]


def test_a_call_told_a_moment_ago_is_not_taken_for_a_ghost(rig):
    made = going_on(rig)
    hang_up(rig, made)
    live_poll.poll(rig.parts)
    assert rig.asked(f"/calls/{made['leg_ids'][0]}") == 0


def test_a_platform_that_is_away_closes_nothing(rig, later):
    going_on(rig)
    later(5)
    rig.faults("status=500@/calls")
    with pytest.raises(PlatformError):
        live_poll.poll(rig.parts)
    assert calls(rig) == [("talking", 0)]


def test_a_hangup_that_comes_while_the_list_is_on_its_way_is_not_undone(rig, later, monkeypatch):
    made = rig.control("calls", script="plain_answered", instant=True)
    events = [event for event in made["events"] if event["event_name"].startswith("call.")]
    tell(rig, events[:-1])
    listed = rig.platform.page

    def page(collection, **options):
        found = listed(collection, **options)
        rig.tell(events[-1])
        return found

    monkeypatch.setattr(rig.platform, "page", page)
    live_poll.poll(rig.parts)
    assert rig.ids("calls") == []
    assert calls(rig) == []


def test_polls_are_needed_while_calls_are_open(rig, later):
    live_poll.poll(rig.parts)
    assert not live_poll.needed(rig.parts)
    made = going_on(rig)
    assert live_poll.needed(rig.parts)
    hang_up(rig, made)
    later(5)
    live_poll.poll(rig.parts)
    assert not live_poll.needed(rig.parts)


def test_polls_are_needed_for_an_hour_after_a_call_that_only_rest_showed(rig, later):
    for record in rig.records("cdrs").values():
        record["calldate"] = "2026-01-02 03:04:05"
    live_poll.poll(rig.parts)
    made = rig.control("calls", script="plain_answered", instant=True)
    run_incremental_sync(rig.parts, CDRS)
    assert live_poll.needed(rig.parts)
    tell(rig, made["events"])
    assert not live_poll.needed(rig.parts), "webhooks told of it after all"
    rig.play("plain_answered")
    run_incremental_sync(rig.parts, CDRS)
    assert live_poll.needed(rig.parts)
    later(2 * 3600)
    live_poll.poll(rig.parts)
    assert not live_poll.needed(rig.parts)


def test_a_quiet_account_is_polled_as_often_as_a_list(rig, later):
    """A call that no webhook told, and no record yet, is seen within five minutes, too."""
    assert live_poll.needed(rig.parts)
    live_poll.poll(rig.parts)
    assert rig.state("calls").last_success_at is not None
    assert not live_poll.needed(rig.parts)
    later(241)
    assert live_poll.needed(rig.parts)
