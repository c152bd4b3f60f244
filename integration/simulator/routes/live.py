"""Calls and SMS over HTTP: begin, change, end."""

from __future__ import annotations

from typing import Any

from flask import Flask, Response

from integration.core import clock
from integration.simulator.calls import records
from integration.simulator.calls.legs import Leg, Plan, Step, Wish
from integration.simulator.calls.traffic import Running
from integration.simulator.calls.webcalls import note
from integration.simulator.http import bodies
from integration.simulator.http.responses import Answered, caller, invalid, item, machine, no_content
from integration.simulator.records import numbers
from integration.simulator.records.people import Person
from integration.simulator.routes.reads import open_record

Record = dict[str, Any]

# What it means is not shown; `A` is what a live call shows while the user's setting records it.
_MONITOR_STATES = {"start": "A", "resume": "A", "A": "A", "pause": "P", "P": "P"}
_DEAREST = 0.15
"""Price of a minute above which web calls are refused: the observed default of max_call_rate."""

_CALL = bodies.Form({"to": bodies.digits, "from": bodies.anything, "caller_id": bodies.filled}, ("to",))
_CHANGE = bodies.Form(
    {
        "dst": bodies.digits,
        "state": bodies.one_of("CONNECTED", "answer"),
        "labels": bodies.listed(bodies.filled),
        "action_url": bodies.url,
        "action_text": bodies.text,
        "monitor_state": bodies.one_of(*_MONITOR_STATES),
    }
)
_SMS = bodies.Form({"to": bodies.digits, "from": bodies.digits, "message": bodies.filled}, ("to", "message"))
_WEB_CALL = bodies.Form({"from": bodies.digits, "to": bodies.digits}, ("from", "to"))
_LEAD_CALL = bodies.Form({"caller_id": bodies.text, "to": bodies.digits, "tts": bodies.text}, ("to",))


def add_routes(app: Flask) -> None:
    _add_calls(app)
    _add_web(app)

    @app.post("/sms")
    def send_sms() -> Response:
        fields = _SMS.read(bodies.sent())
        lines = {line.e164: line for line in machine().world.account.lines if line.sms}
        sender = fields.get("from") or caller().cli
        if sender not in lines:
            raise invalid("from")
        record = machine().player.send_sms(caller(), sender, fields["to"], fields["message"], clock.unix())
        return item(record, 201, f"/sms/{record['id']}")


def _add_calls(app: Flask) -> None:
    @app.post("/calls")
    def call() -> Response:
        """Agent first: the user's own phone rings, then the destination is dialled (observed.md §8)."""
        fields = _CALL.read(bodies.sent())
        world = machine().world
        person = caller()
        if fields.get("from") is not None:
            found = world.account.person(fields["from"])
            if found is None:
                raise invalid("from")
            person = found
        if person is not caller() and not caller().is_root:
            raise Answered(403, "Access denied")
        caller_id = str(fields.get("caller_id") or person.cli).removeprefix("+")
        if caller_id != "anonymous" and caller_id not in {line.e164 for line in world.account.lines}:
            raise Answered(400, "No CLI prefix set")
        _has_phone(person)
        with world.lock:
            plan = world.scripts.click_to_call(Wish(caller=fields["to"], user=person, form="one"))
            if fields.get("caller_id"):
                plan.legs[0].clid = caller_id if caller_id == "anonymous" else f'"{caller_id}" <{caller_id}>'
        return _begun(plan, "RINGING")

    @app.patch("/calls/<key>")
    def change(key: str) -> Response:
        """301 without a Location, as the specification lists it."""
        open_record("calls", key, write=True)
        fields = _CHANGE.read(bodies.sent())
        leg, running = _live(key)
        if fields.get("dst") is not None:
            _transfer(running, leg, fields["dst"])
        elif fields.get("state") is not None:
            _answer(running, leg)
        if fields.get("monitor_state") is not None:
            leg.monitored = _MONITOR_STATES[fields["monitor_state"]]
            leg.recorded = leg.recorded or leg.monitored == "A" or None
        if fields.get("labels") is not None:
            leg.labels = fields["labels"]
        return item(records.live_record(leg, clock.unix()), 301)

    @app.delete("/calls/<key>")
    def hang_up(key: str) -> Response:
        open_record("calls", key, write=True)
        leg, running = _live(key)
        others = [other for other in running.plan.legs if other.ended is None and other is not leg]
        steps = [Step(0.0, leg, "hangup", cause="Normal Clearing", by="system")]
        steps += [
            Step(0.0, other, "hangup", cause="Normal Clearing", by="system")
            for other in others
            if other.started
        ]
        machine().traffic.take_over(running, steps)
        return no_content()


def _add_web(app: Flask) -> None:
    @app.post("/webcalls")
    def web_call() -> Response:
        """Both ends are dialled, one after the other."""
        fields = _WEB_CALL.read(bodies.sent())
        world = machine().world
        for number in (fields["from"], fields["to"]):
            if numbers.rate(number) > _DEAREST:
                raise Answered(
                    400,
                    f"Maximum per minute call rate exceeded for {number}. "
                    "Please contact support to remove this restriction.",
                )
        with world.lock:
            wish = Wish(caller=fields["from"], to=fields["to"], user=caller())
            plan = world.scripts.by_name["web_call"](wish)
            record = note(world, plan, clock.unix())
        machine().traffic.play(plan)
        return item(record, 201)

    @app.post("/leadcalls")
    def lead_call() -> Response:
        """`caller_id` is needed in fact, and must be a number of the account (observed.md §5)."""
        fields = _LEAD_CALL.read(bodies.sent())
        world = machine().world
        number = (fields.get("caller_id") or "").removeprefix("+")
        line = next((line for line in world.account.lines if line.e164 == number), None)
        if line is None:
            raise Answered(400, "DDI not found")
        with world.lock:
            plan = world.scripts.by_name["lead_call"](Wish(caller=fields["to"], line=line, user=caller()))
        return _begun(plan, "INITIAL")


def _has_phone(person: Person) -> None:
    if not person.online:
        raise Answered(412, "Unable to make a call with no VoIP clients registered")


def _begun(plan: Plan, state: str) -> Response:
    world = machine().world
    leg = machine().traffic.play(plan).plan.legs[0]
    with world.lock:
        record = records.live_record(leg, clock.unix())
    record.update(state=state, start_time=int(clock.unix()))
    return item(record, 201, f"/calls/{leg.id}")


def _live(key: str) -> tuple[Leg, Running]:
    world = machine().world
    leg = world.live.get(int(key))
    running = machine().traffic.running(int(key))
    if leg is None or running is None:
        raise Answered(404, "Resource not found")
    return leg, running


def _answer(running: Running, leg: Leg) -> None:
    if leg.state != "RINGING":
        raise invalid("state")
    talk = machine().world.cast.talk()
    machine().traffic.take_over(
        running,
        [
            Step(0.0, leg, "connected"),
            Step(talk, leg, "hangup", cause="Normal Clearing", by="caller"),
        ],
    )


def _transfer(running: Running, leg: Leg, to: str) -> None:
    """A blind transfer: the destination rings, then the first leg ends."""
    world = machine().world
    if leg.state not in ("CONNECTED", "ON_HOLD"):
        raise invalid("dst")
    other = next((person for person in world.account.people if person.ext == to), None)
    cast = world.cast
    if other is None:
        second = cast.outgoing(leg.user or caller(), to, root=leg)
        second.root_id, second.parent_id = leg.root_id, leg.id
    else:
        line = next((x for x in world.account.lines if x.e164 == leg.dst), world.account.lines[0])
        second = cast.inbound(leg.src, line, other, root=leg, parent=leg)
        second.root_id, second.dst = leg.root_id, other.ext
    machine().traffic.take_over(
        running,
        [
            Step(0.0, leg, "hold"),
            Step(0.1, second, "initial"),
            Step(0.3, second, "ringing"),
            Step(2.0, second, "connected"),
            Step(2.1, leg, "hangup", cause="Normal Clearing", by="callee"),
            Step(2.0 + cast.talk(), second, "hangup", cause="Normal Clearing", by="caller"),
        ],
    )
