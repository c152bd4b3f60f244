"""Routes that start, change and end calls, and send SMS."""

from __future__ import annotations

from flask import Blueprint, Response

from integration.core import clock
from integration.simulator.calls import records
from integration.simulator.calls.legs import CallOptions, CallPlan, Leg
from integration.simulator.calls.traffic import RunningCall
from integration.simulator.context import get_current_user, get_simulator_context, get_world
from integration.simulator.http import bodies
from integration.simulator.http.responses import (
    ErrorResponse,
    make_item_response,
    make_no_content_response,
    make_validation_error,
)
from integration.simulator.records import numbers
from integration.simulator.records.forms import MONITOR_STATES, make_form
from integration.simulator.routes.reads import get_permitted_record

blueprint = Blueprint("live", __name__)

_MAX_CALL_RATE = 0.15
"""Highest price per minute of web calls: the observed default of max_call_rate."""
_RATE_EXCEEDED = (
    "Maximum per minute call rate exceeded for {number}. Please contact support to remove this restriction."
)
"""Message of the platform, in its own words."""


@blueprint.post("/sms")
def send_sms() -> Response:
    fields = make_form("sms").read(bodies.read_object())
    sms_ddis = {ddi["e164"]: ddi for ddi in get_world().ddis if ddi["sms_enabled"]}
    sender = fields.get("from") or get_current_user().cli
    if sender not in sms_ddis:
        raise make_validation_error("from")
    record = get_simulator_context().traffic.player.send_sms(
        get_current_user(), sender, fields["to"], fields["message"], clock.unix()
    )
    return make_item_response(record, 201, f"/sms/{record['id']}")


@blueprint.post("/calls")
def place_call() -> Response:
    """Start a click-to-call: the user's phone rings, then the destination is dialled.

    See docs/platform.md#8-call-flow.
    """
    fields = make_form("calls").read(bodies.read_object())
    world = get_world()
    person = get_current_user()
    if fields.get("from") is not None:
        calling_user = world.find_person(fields["from"])
        if calling_user is None:
            raise make_validation_error("from")
        person = calling_user
    if person is not get_current_user() and not get_current_user().is_root:
        raise ErrorResponse(403, "Access denied")
    caller_id = str(fields.get("caller_id") or person.cli).removeprefix("+")
    if caller_id != "anonymous" and caller_id not in {ddi["e164"] for ddi in world.ddis}:
        raise ErrorResponse(400, "No CLI prefix set")
    if not person.is_online:
        raise ErrorResponse(412, "Unable to make a call with no VoIP clients registered")
    with world.lock:
        plan = world.scripts.click_to_call(CallOptions(caller=fields["to"], user=person, variant="one"))
        if fields.get("caller_id"):
            plan.legs[0].clid = caller_id if caller_id == "anonymous" else f'"{caller_id}" <{caller_id}>'
    return _start_call(plan, "RINGING")


@blueprint.patch("/calls/<key>")
def change_call(key: str) -> Response:
    """Change a live call. Responds 301 without a Location header, as specified."""
    get_permitted_record("calls", key, for_write=True)
    fields = make_form("calls").read(bodies.read_object(), is_change=True)
    leg, running = _find_live_leg(key)
    if fields.get("dst") is not None:
        _transfer_leg(running, leg, fields["dst"])
    elif fields.get("state") is not None:
        _answer_leg(running, leg)
    if fields.get("monitor_state") is not None:
        leg.monitor_state = MONITOR_STATES[fields["monitor_state"]]
        leg.is_recorded = leg.is_recorded or leg.monitor_state == "A" or None
    if fields.get("labels") is not None:
        leg.labels = fields["labels"]
    return make_item_response(records.live_record(leg, clock.unix()), 301)


@blueprint.delete("/calls/<key>")
def hang_up(key: str) -> Response:
    get_permitted_record("calls", key, for_write=True)
    leg, running = _find_live_leg(key)
    live_legs = [other for other in running.plan.legs if other.started_at and other.ended_at is None]
    end = CallPlan("end", [])
    for live_leg in sorted(live_legs, key=lambda live_leg: live_leg is not leg):
        end.hang_up(0.0, live_leg, "system")
    get_simulator_context().traffic.replace_steps(running, end.steps)
    return make_no_content_response()


@blueprint.post("/webcalls")
def web_call() -> Response:
    """Start a web call, which dials both ends in sequence."""
    fields = make_form("webcalls").read(bodies.read_object())
    world = get_world()
    for number in (fields["from"], fields["to"]):
        if numbers.get_rate(number) > _MAX_CALL_RATE:
            raise ErrorResponse(400, _RATE_EXCEEDED.format(number=number))
    with world.lock:
        options = CallOptions(caller=fields["from"], destination=fields["to"], user=get_current_user())
        plan = world.scripts.by_name["web_call"](options)
    get_simulator_context().traffic.play(plan)
    assert plan.webcall is not None
    return make_item_response(plan.webcall, 201)


@blueprint.post("/leadcalls")
def lead_call() -> Response:
    """Start a call to a lead.

    `caller_id` is required and must be a number of the account (docs/platform.md#5-errors).
    """
    fields = make_form("leadcalls").read(bodies.read_object())
    world = get_world()
    number = (fields.get("caller_id") or "").removeprefix("+")
    ddi = next((ddi for ddi in world.ddis if ddi["e164"] == number), None)
    if ddi is None:
        raise ErrorResponse(400, "DDI not found")
    with world.lock:
        plan = world.scripts.by_name["lead_call"](
            CallOptions(caller=fields["to"], ddi=ddi, user=get_current_user())
        )
    return _start_call(plan, "INITIAL")


def _start_call(plan: CallPlan, state: str) -> Response:
    world = get_world()
    leg = get_simulator_context().traffic.play(plan).plan.legs[0]
    with world.lock:
        record = records.live_record(leg, clock.unix())
    record.update(state=state, start_time=int(clock.unix()))
    return make_item_response(record, 201, f"/calls/{leg.id}")


def _find_live_leg(key: str) -> tuple[Leg, RunningCall]:
    world = get_world()
    leg = world.live_legs.get(int(key))
    running = get_simulator_context().traffic.running_calls.get(int(key))
    if leg is None or running is None:
        raise ErrorResponse(404, "Resource not found")
    return leg, running


def _answer_leg(running: RunningCall, leg: Leg) -> None:
    if leg.state != "RINGING":
        raise make_validation_error("state")
    talk_seconds = get_world().scripts.choose_talk_seconds()
    answer = CallPlan("answer", [])
    answer.add_step(0.0, leg, "connected")
    answer.hang_up(talk_seconds, leg, "caller")
    get_simulator_context().traffic.replace_steps(running, answer.steps)


def _transfer_leg(running: RunningCall, leg: Leg, number: str) -> None:
    """Start a blind transfer: the destination answers, then the first leg ends."""
    world = get_world()
    if leg.state not in ("CONNECTED", "ON_HOLD"):
        raise make_validation_error("dst")
    called_user = next((person for person in world.people if person.ext == number), None)
    if called_user is None:
        second_leg = world.scripts.make_outbound_leg(leg.user or get_current_user(), number, root=leg)
    else:
        second_leg = world.scripts.make_transferred_leg(leg, called_user)
    transfer = CallPlan("transfer", [])
    transfer.add_step(0.0, leg, "hold")
    transfer.ring(second_leg, 0.1, 0.2)
    transfer.add_step(2.0, second_leg, "connected")
    transfer.hang_up(2.1, leg, "callee")
    transfer.hang_up(2.0 + world.scripts.choose_talk_seconds(), second_leg, "caller")
    get_simulator_context().traffic.replace_steps(running, transfer.steps)
