"""What is asked of the platform beyond reading: sessions, live calls, SMS, contacts, agents, API tokens."""

from __future__ import annotations

from typing import Any

from flask import Flask, Response, g, request

from integration import clock
from integration.simulator import contacts, filters, records
from integration.simulator.answers import Answered, caller, invalid, item, machine, no_content, reply
from integration.simulator.legs import Leg, Step, Wish
from integration.simulator.login import Denied, Token
from integration.simulator.reading import include, open_record
from integration.simulator.traffic import Running

Record = dict[str, Any]

_CONTACT_READ_ONLY = frozenset({"id", "created_at", "last_call_at", "next_call_at", "nb_call_attempts"})


def body() -> Record:
    """The request's JSON object. Raises Answered."""
    found = request.get_json(force=True, silent=True) if request.get_data() else {}
    if not isinstance(found, dict):
        raise Answered(400, "Validation error")
    return found


def add_routes(app: Flask) -> None:
    _add_sessions(app)
    _add_calls(app)
    _add_rest(app)


def _add_sessions(app: Flask) -> None:
    @app.post("/login")
    def login() -> Response:
        sent = body()
        try:
            token, nonce = machine().doorman.log_in(sent.get("email"), sent.get("password"))
        except Denied as error:
            raise Answered(error.status, str(error)) from error
        if token is None:
            return reply({"message": "Two factor authentication required.", "nonce": nonce}, 202)
        return _welcome(token)

    @app.post("/login2fa")
    def login2fa() -> Response:
        sent = body()
        try:
            return _welcome(machine().doorman.second_factor(sent.get("nonce"), sent.get("code")))
        except Denied as error:
            raise Answered(error.status, str(error)) from error

    @app.post("/logout")
    def logout() -> Response:
        machine().doorman.revoke(g.token.secret)
        return reply({"message": "Logout success"})

    @app.get("/apitokens")
    def list_tokens() -> Response:
        rows = [token.record() for token in machine().doorman.keys_of(caller())]
        fields = ("token", "name", "user_id", "expiry", "created_at")
        try:
            page = filters.select(rows, fields, request.args.to_dict())
        except filters.Refused as error:
            raise Answered(400, str(error)) from error
        return reply({"data": page.records, "total": page.total})

    @app.post("/apitokens")
    def make_token() -> Response:
        sent = body()
        name, expiry = sent.get("name"), sent.get("expiry", 604800)
        if not isinstance(name, str) or not name:
            raise invalid("name")
        if not isinstance(expiry, int) or expiry <= 0:
            raise invalid("expiry")
        token = machine().doorman.make_key(caller(), name, float(expiry))
        if token is None:
            raise invalid("name")
        return item(token.record(), 201)

    @app.delete("/apitokens/<token>")
    def drop_token(token: str) -> Response:
        mine = {entry.secret for entry in machine().doorman.keys_of(caller())}
        if token not in mine or not machine().doorman.revoke(token):
            raise Answered(404, "Resource not found")
        return no_content()


def _welcome(token: Token) -> Response:
    return reply({"message": "Login success", "user_token": token.secret, "user_id": token.person.id})


def _add_calls(app: Flask) -> None:
    @app.post("/calls")
    def call() -> Response:
        """Agent first: the user's own phone rings, then the destination is dialled (observed.md §8)."""
        sent = body()
        world = machine().world
        to = str(sent.get("to") or "").lstrip("+")
        if not to.isdigit():
            raise invalid("to")
        person = world.account.person(sent["from"]) if sent.get("from") is not None else caller()
        if person is None:
            raise invalid("from")
        if person is not caller() and not caller().is_root:
            raise Answered(403, "Access denied")
        if not person.online:
            raise Answered(412, "Unable to make a call with no VoIP clients registered")
        with world.lock:
            plan = world.scripts.click_to_call(Wish(caller=to, user=person, form="one"))
        running = machine().traffic.play(plan)
        leg = running.plan.legs[0]
        with world.lock:
            record = records.live_record(leg, clock.unix())
        record.update(state="RINGING", start_time=int(clock.unix()))
        return item(record, 201, f"/calls/{leg.id}")

    @app.patch("/calls/<key>")
    def change(key: str) -> Response:
        """301 without a Location, as the specification lists it."""
        sent = body()
        open_record("calls", key)
        leg, running = _live(key)
        if "dst" in sent:
            _transfer(running, leg, str(sent["dst"]).lstrip("+"))
        elif sent.get("state") is not None:
            if sent["state"] not in ("CONNECTED", "answer") or leg.state != "RINGING":
                raise invalid("state")
            talk = machine().world.cast.talk()
            machine().traffic.take_over(
                running,
                [
                    Step(0.0, leg, "connected"),
                    Step(talk, leg, "hangup", cause="Normal Clearing", by="caller"),
                ],
            )
        if "monitor_state" in sent:
            leg.monitored = str(sent["monitor_state"])
        return item(records.live_record(leg, clock.unix()), 301)

    @app.delete("/calls/<key>")
    def hang_up(key: str) -> Response:
        open_record("calls", key)
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


def _live(key: str) -> tuple[Leg, Running]:
    world = machine().world
    leg = world.live.get(int(key))
    running = machine().traffic.running(int(key))
    if leg is None or running is None:
        raise Answered(404, "Resource not found")
    return leg, running


def _transfer(running: Running, leg: Leg, to: str) -> None:
    """A blind transfer: the destination rings, then the first leg ends."""
    world = machine().world
    if leg.state not in ("CONNECTED", "ON_HOLD") or not to.isdigit():
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


def _add_rest(app: Flask) -> None:
    @app.post("/sms")
    def send_sms() -> Response:
        sent = body()
        to, message = str(sent.get("to") or "").lstrip("+"), sent.get("message")
        if not to.isdigit():
            raise invalid("to")
        if not isinstance(message, str) or not message:
            raise invalid("message")
        world = machine().world
        lines = {line.e164: line for line in world.account.lines if line.sms}
        sender = str(sent.get("from") or caller().cli).lstrip("+")
        if sender not in lines:
            raise invalid("from")
        record = machine().player.send_sms(caller(), sender, to, message, clock.unix())
        return item(record, 201, f"/sms/{record['id']}")

    @app.post("/contacts")
    def add_contact() -> Response:
        world = machine().world
        record = contacts.contact_record(created_at=clock.stamp(), **_contact_fields(body()))
        if not any(record[name] for name in ("first_name", "last_name", "company")):
            raise invalid("first_name")
        with world.lock:
            record["id"] = world.new_id("contacts")
            world.collections["contacts"].add(record)
        return item(record, 201, f"/contacts/{record['id']}")

    @app.patch("/contacts/<key>")
    def change_contact(key: str) -> Response:
        with machine().world.lock:
            record = open_record("contacts", key)
            record.update(_contact_fields(body()))
            return item(record)

    @app.delete("/contacts/<keys>")
    def drop_contacts(keys: str) -> Response:
        with machine().world.lock:
            found = [open_record("contacts", key) for key in keys.split(",")]
            for record in found:
                del machine().world.collections["contacts"].records[record["id"]]
        return no_content()

    @app.patch("/queues/<key>")
    def change_queue(key: str) -> Response:
        """Logs agents in and out: not in the specification, but used by a real client (observed.md §10.4)."""
        world = machine().world
        with world.lock:
            record = open_record("queues", key)
            group = world.group(record["id"])
            users = body().get("users")
            if not isinstance(users, list):
                raise invalid("users")
            for entry in users:
                if not isinstance(entry, dict) or world.account.person(entry.get("id")) is None:
                    raise invalid("users")
                group.logged_in[int(entry["id"])] = bool(entry.get("status"))
            return item(include("queues", world.collections["queues"].item(record)))


def _contact_fields(sent: Record) -> Record:
    return {
        name: value
        for name, value in sent.items()
        if name in contacts.CONTACT_DEFAULTS and name not in _CONTACT_READ_ONLY
    }
