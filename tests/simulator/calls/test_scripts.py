"""Call scripts: order of events, resulting records, changes of live calls."""

from __future__ import annotations

import pytest

from integration.core import clock
from tests.support.simulator_client import Client


@pytest.fixture
def pass_one_hour(movable_clock):
    """Move the clock by an hour, so that live calls end."""

    def pass_one_hour(client):
        movable_clock.advance(hours=1)
        # Wakes the thread that waits for the next event.
        client.simulator.context.traffic.schedule(clock.unix(), lambda _: None)

    return pass_one_hour


def list_call_events(played: dict) -> list[tuple[int, str, object]]:
    """(number of the leg, event, final) in order."""
    number = {leg: n for n, leg in enumerate(played["leg_ids"])}
    calls = [e for e in played["events"] if e["event_name"].startswith("call.")]
    return [(number[e["call_id"]], e["event_name"][5:], e.get("final")) for e in calls]


def test_a_plain_call_sends_four_events_and_creates_a_cdr_and_a_recording(begin):
    client = begin()
    played = client.play("plain_answered", user="1002", talk_seconds=30, hold=False)
    assert [name for _, name, _ in list_call_events(played)] == ["initial", "ringing", "connected", "hangup"]
    (cdr,) = (client.get(f"/cdrs/{cdr_id}").json()["data"] for cdr_id in played["cdr_ids"])
    hangup, ready = played["events"][-2:]
    assert (cdr["live_id"], cdr["type"], cdr["disposition"]) == (hangup["call_id"], "I", "CONNECTED")
    assert cdr["billsec"] == hangup["duration"]
    assert cdr["calldate"] == hangup["start_time"]
    (monitor,) = (
        client.get(f"/monitors/{monitor_id}").json()["data"] for monitor_id in played["monitor_ids"]
    )
    assert (monitor["live_id"], monitor["duration"]) == (cdr["live_id"], cdr["billsec"])
    assert (ready["monitor_id"], ready["size"]) == (monitor["id"], monitor["size"])
    assert client.play("plain_answered", user="1001", recorded=True)["monitor_ids"]
    assert not client.play("plain_answered", user="1002", recorded=False)["monitor_ids"]


def test_in_a_ring_group_one_leg_is_missed_before_ringing_and_one_is_answered(begin):
    played = begin().play("ring_group_answered", group=80002, hold=False)
    events = list_call_events(played)
    assert [name for _, name, _ in events] == [
        *["initial"] * 3, "missed", *["ringing"] * 3, "connected", "missed", "hangup",
    ]  # fmt: skip
    assert all(final is False for _, name, final in events if name == "missed")
    assert {e["root_call_id"] for e in played["events"] if "state" in e} == {played["leg_ids"][0]}
    assert {e["context"] for e in played["events"]} == {"RG-80002"}


def test_an_abandoned_ring_group_ends_with_one_final_missed_event(begin):
    played = begin().play("ring_group_missed", group=80002)
    assert [final for _, name, final in list_call_events(played) if name == "missed"] == [False, False, True]
    assert played["monitor_ids"] == []


def test_a_hunt_group_rings_one_phone_after_another(begin):
    played = begin().play("hunt_answered", hold=False)
    assert list_call_events(played) == [
        (0, "initial", None), (0, "ringing", None), (0, "missed", False),
        (1, "initial", None), (1, "ringing", None), (1, "missed", False),
        (2, "initial", None), (2, "ringing", None), (2, "connected", None), (2, "hangup", None),
    ]  # fmt: skip
    starts = [e["start_time"] for e in played["events"] if e["event_name"] == "call.initial"]
    assert starts == sorted(starts)
    assert len(set(starts)) == 3


def test_an_abandoned_queue_has_a_music_leg_with_billed_seconds_and_no_user(begin):
    client = begin()
    played = client.play("queue_abandoned", group=80101)
    events = list_call_events(played)
    assert events[:2] == [(0, "initial", None), (0, "connected", None)]
    assert events[-1] == (0, "hangup", None)
    assert [name for leg, name, _ in events if leg].count("missed") == 4
    music = next(c for c in client.rows("/cdrs") if c["live_id"] == played["leg_ids"][0])
    assert music["billsec"] > 0
    assert music["user_id"] is None


def test_a_transfer_has_two_talking_legs_and_a_hold(begin):
    client = begin()
    played = client.play("transfer", user="1002", other="1004", talk_seconds=40)
    assert [entry[:2] for entry in list_call_events(played)] == [
        (0, "initial"), (0, "ringing"), (0, "connected"), (0, "hold"),
        (1, "initial"), (1, "ringing"), (1, "connected"), (0, "hangup"), (1, "hangup"),
    ]  # fmt: skip
    first, second = (client.get(f"/cdrs/{cdr_id}").json()["data"] for cdr_id in played["cdr_ids"])
    assert second["parent_live_id"] == first["live_id"] == second["root_live_id"]


@pytest.mark.parametrize(("form", "legs"), [(None, 1), ("leg", 5)])
def test_a_voicemail_call_creates_a_message_of_its_last_leg(begin, form, legs):
    client = begin()
    played = client.play("voicemail", form=form, talk_seconds=12)
    assert len(played["leg_ids"]) == legs
    (message,) = client.rows("/voicemessages")
    assert [message["id"]] == played["voicemessage_ids"]
    assert message["live_id"] == played["leg_ids"][-1]
    assert message["duration"] == 12
    cdr = next(c for c in client.rows("/cdrs") if c["live_id"] == message["live_id"])
    assert cdr["disposition"] == "VM"


def test_click_to_call_has_a_form_with_one_leg_and_one_with_two(begin):
    client = begin()
    one = client.play("click_to_call", form="one", caller="447700900321", hold=False)
    states = [e["state"] for e in one["events"] if "state" in e]
    assert states == ["INITIAL", "ACCEPTED", "RINGING", "CONNECTED", "RINGING", "CONNECTED", "HANGUP"]
    two = client.play("click_to_call", form="two", caller="447700900321", hold=False)
    assert len(two["leg_ids"]) == 2
    unanswered = client.play("click_to_call", form="one", caller="447700900321", answered=False)
    cdr = client.get(f"/cdrs/{unanswered['cdr_ids'][0]}").json()["data"]
    assert (cdr["billsec"], cdr["disposition"]) == (0, "RINGING")


@pytest.mark.parametrize("script", ["outbound", "transfer"])
def test_a_call_in_real_time_is_live_until_its_last_event(begin, receiver, pass_one_hour, script):
    client = begin(webhook=receiver.url)
    played = client.play(script, instant=False, talk_seconds=60, answered=True)
    assert client.get(f"/calls/{played['leg_ids'][0]}").status_code == 200
    pass_one_hour(client)
    with receiver.changed:
        received = receiver.received

        def ended() -> set[int]:
            return {e["call_id"] for e in received if e["event_name"] in ("call.hangup", "call.missed")}

        assert receiver.changed.wait_for(lambda: set(played["leg_ids"]) <= ended(), 30)
    assert client.get("/calls").json() == {"data": [], "total": 0}
    assert client.get(f"/calls/{played['leg_ids'][0]}").status_code == 404


def test_every_script_can_be_played(begin):
    client = begin()
    for script in client.simulator.world.scripts.by_name:
        played = client.play(script)
        assert played["cdr_ids"], script
        times = [e["event_time"] for e in played["events"] if "state" in e]
        assert times == sorted(times), script
    assert client.get("/calls").json()["total"] == 0


def test_a_hung_up_call_sends_none_of_its_planned_events(begin, receiver, pass_one_hour):
    client = begin(webhook=receiver.url)
    leg = client.play(
        "plain_answered", instant=False, ring_seconds=30, talk_seconds=30, hold=False, user="1003"
    )["leg_ids"][0]
    response = client.send("DELETE", f"/calls/{leg}")
    assert (response.status_code, response.content) == (204, b"")
    other = client.play(
        "plain_answered", instant=False, ring_seconds=40, talk_seconds=60, hold=False, user="1003"
    )["leg_ids"][0]
    pass_one_hour(client)

    def ends() -> list[int]:
        return [e["call_id"] for e in receiver.received if e["event_name"] == "call.hangup"]

    with receiver.changed:
        assert receiver.changed.wait_for(lambda: other in ends(), 30)
    assert ends() == [leg, other]
    assert client.get(f"/calls/{leg}").status_code == 404
    assert len(client.control("GET", f"/calls/{leg}")["cdr_ids"]) == 1
    assert not [e for e in receiver.received if e["call_id"] == leg and e["event_name"] == "call.connected"]


def test_a_ringing_call_can_be_answered_and_a_connected_one_transferred(begin):
    client = begin()
    leg = client.play("plain_answered", until="ringing", user="1002")["leg_ids"][0]
    refused = client.send("PATCH", f"/calls/{leg}", json={"dst": "1004"})
    assert refused.status_code == 400
    answered = client.send("PATCH", f"/calls/{leg}", json={"state": "CONNECTED"})
    assert answered.status_code == 301
    assert "Location" not in answered.headers
    assert answered.json()["data"]["state"] == "CONNECTED"
    assert client.send("PATCH", f"/calls/{leg}", json={"dst": "1004"}).status_code == 301
    names = [e["event_name"] for e in client.control("GET", f"/calls/{leg}")["events"]]
    assert names[:4] == ["call.initial", "call.ringing", "call.connected", "call.hold"]


def test_a_placed_call_needs_a_registered_phone_and_a_caller_id_of_the_account(begin):
    client = begin()
    ben = Client(client.simulator, client.simulator.ordinary_user.api_key)
    call = client.send("POST", "/calls", json={"to": "+447700900321"}).json()["data"]
    assert (call["state"], call["dst"]) == ("RINGING", "447700900321")
    assert client.get(f"/calls/{call['id']}").status_code == 200
    for caller, options, status, message in (
        (client, {"caller_id": "442079460101"}, 201, None),
        (client, {"caller_id": "+442079460101"}, 201, None),
        (client, {"caller_id": "anonymous"}, 201, None),
        (client, {"caller_id": "447700900001"}, 400, "No CLI prefix set"),
        (client, {"from": "1000004"}, 201, None),
        (client, {"from": 5}, 400, "Validation error"),
        (client, {"from": "1000012"}, 412, "Unable to make a call with no VoIP clients registered"),
        (ben, {"from": "1000004"}, 403, "Access denied"),
        (ben, {"from": "1000002"}, 201, None),
    ):
        response = caller.send("POST", "/calls", json={"to": "447700900321", **options})
        assert (response.status_code, response.json().get("message")) == (status, message), options
