"""Control of the simulator itself while it runs: `/_simulator/…`, answered to loopback only.

| Method, path | Body (JSON) | Does |
|---|---|---|
| POST /calls | see below | plays a call; answers what was made |
| GET /calls/{leg id} | | what was made of a call by now |
| POST /sms | `from`, `to`, `message`, `user` (null: none), `translated`, `silent` | an SMS comes in |
| POST /webhook | `url` (null: none), `ca`, `probe` | where webhooks go |
| GET /webhooks | query `after` | deliveries and their answers |
| POST /webhooks/wait | `seconds` | waits until every webhook was tried once |
| GET, POST, DELETE /faults | `spec` | faults in force, add, clear |
| POST /expire-tokens | | ends all sessions |
| POST /outage | `seconds` (0 ends it) | connections are cut without an answer |
| DELETE /records/{collection}/{key} | | a record vanishes |
| PATCH /records/{collection}/{key} | fields | a record changes |
| GET /log | query `after` | requests seen |
| GET /account | | people with passwords, keys and last codes, numbers, groups |
| GET /state | | is everything alive; counts |

A call: `script` (a name of `calls.Scripts.by_name`); `instant` (it has happened when the answer comes, CDR
and recording too, unless `cdr_lag`, `recording_lag` say in how many seconds they appear) or `until` (the
same, but it stops after the first step of that name, such as `connected`, and stays live); else it happens
in real time. `recorded` (true, false): whatever the user's setting is. `documented`: webhooks without
root_call_id and final. `silent`: no webhooks. `wait`: seconds to wait for their delivery. Who and how long:
`caller`, `to` (a number of ours), `user`, `other` (id, extension or e-mail), `group` (id), `talk_seconds`,
`ring_seconds`, `hold`, `voicemail`, `form` ("one" or "two" of click_to_call, "leg" of voicemail),
`answered`. Of the scripts `web_call`, `lead_call` and `call_me_back` `caller` is whom the platform dials, and
`dial` the other end of a web call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from flask import Flask, Response, request

from integration.core import clock
from integration.core.errors import error_body
from integration.simulator.calls.legs import Wish
from integration.simulator.calls.participants import NobodyThere
from integration.simulator.calls.traffic import Running
from integration.simulator.calls.webcalls import note
from integration.simulator.context import Machine
from integration.simulator.http.faults import BadSpec
from integration.simulator.records.people import Group, Person

Record = dict[str, Any]

CALL_KEYS = frozenset(
    {"script", "instant", "until", "documented", "silent", "recorded", "wait", "cdr_lag", "recording_lag"}
    | {"caller", "to", "user", "other", "group", "talk_seconds", "ring_seconds", "hold", "voicemail", "form"}
    | {"answered", "dial"}
)
_SMS_KEYS = frozenset({"from", "to", "message", "user", "translated", "silent"})
_LOOPBACK = ("127.", "::1", "::ffff:127.")


def create_app(machine: Machine) -> Callable[..., Any]:
    app = Flask("simulator-control", static_folder=None, template_folder=None)

    @app.before_request
    def loopback_only() -> Response | None:
        if not (request.remote_addr or "").startswith(_LOOPBACK):
            return _json(error_body("Only from this machine"), 403)
        return None

    @app.errorhandler(BadWish)
    @app.errorhandler(BadSpec)
    @app.errorhandler(NobodyThere)
    def refused(error: Exception) -> Response:
        return _json(error_body(str(error)), 400)

    @app.errorhandler(404)
    def unknown(_: Exception) -> Response:
        return _json(error_body("Not found; see docs/simulator.md"), 404)

    _add_calls(app, machine)
    _add_webhooks(app, machine)
    _add_trouble(app, machine)
    _add_views(app, machine)
    return app


class BadWish(ValueError):
    """A control request that names what does not exist."""


def _json(data: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(data), status, content_type="application/json")


def _body(keys: frozenset[str] | None = None) -> Record:
    """The request's JSON object; with `keys`, one that has no others. Raises BadWish."""
    found = request.get_json(force=True, silent=True) if request.get_data() else {}
    if not isinstance(found, dict):
        raise BadWish("the body is not a JSON object")
    if keys is not None and not found.keys() <= keys:
        raise BadWish(f"unknown: {', '.join(sorted(found.keys() - keys))}")
    return found


def _add_calls(app: Flask, machine: Machine) -> None:
    @app.post("/_simulator/calls")
    def play() -> Response:
        sent = _body(CALL_KEYS)
        make = machine.world.scripts.by_name.get(str(sent.get("script")))
        if make is None:
            raise BadWish(f"script: one of {', '.join(machine.world.scripts.by_name)}")
        with machine.world.lock:
            plan = make(_wish(machine, sent))
            if plan.script == "web_call":
                note(machine.world, plan, clock.unix())
        plan.documented = bool(sent.get("documented"))
        if sent.get("recorded") is not None:
            for leg in plan.legs:
                leg.recorded = bool(sent["recorded"])
        silent = bool(sent.get("silent"))
        if sent.get("instant") or sent.get("until"):
            lag = None
            if "cdr_lag" in sent or "recording_lag" in sent:
                lag = (float(sent.get("cdr_lag", 0)), float(sent.get("recording_lag", 0)))
            running = machine.traffic.play_at_once(plan, silent=silent, until=sent.get("until"), lag=lag)
        else:
            running = machine.traffic.play(plan, silent=silent)
        if sent.get("wait"):
            machine.sender.wait(float(sent["wait"]))
        calls_made.append(running)
        del calls_made[:-500]
        return _json(_made(running), 201)

    calls_made: list[Running] = []

    @app.get("/_simulator/calls/<int:leg_id>")
    def made(leg_id: int) -> Response:
        found = next((r for r in reversed(calls_made) if leg_id in r.made.leg_ids), None)
        return _json(_made(found)) if found else _json(error_body("No such call"), 404)

    @app.post("/_simulator/sms")
    def sms() -> Response:
        sent = _body(_SMS_KEYS)
        line = machine.world.account.lines[0]
        user = line.target if isinstance(line.target, Person) else machine.world.account.ordinary
        person = _person(machine, sent["user"]) if "user" in sent else user
        player = machine.traffic.quiet_player if sent.get("silent") else machine.player
        record, event = player.receive_sms(
            str(sent.get("from", "447700900123")),
            str(sent.get("to", line.e164)),
            str(sent.get("message", "Hello, this is a test message")),
            person,
            clock.unix(),
            translated=bool(sent.get("translated")),
        )
        return _json({"sms": record, "event": event}, 201)


def _made(running: Running) -> Record:
    made, plan = running.made, running.plan
    return {
        "script": plan.script,
        "party": plan.party,
        "root_call_id": plan.legs[0].root_id,
        "leg_ids": made.leg_ids,
        "events": made.events,
        "cdr_ids": made.cdr_ids,
        "monitor_ids": made.monitor_ids,
        "voicemessage_ids": made.voicemessage_ids,
    }


def _wish(machine: Machine, sent: Record) -> Wish:
    wish = Wish(
        caller=None if sent.get("caller") is None else str(sent["caller"]),
        to=None if sent.get("dial") is None else str(sent["dial"]),
        user=_person(machine, sent.get("user")),
        other=_person(machine, sent.get("other")),
        group=_group(machine, sent.get("group")),
        form=sent.get("form"),
        hold=sent.get("hold"),
        voicemail=sent.get("voicemail"),
        answered=sent.get("answered"),
        talk=None if sent.get("talk_seconds") is None else float(sent["talk_seconds"]),
        ring=None if sent.get("ring_seconds") is None else float(sent["ring_seconds"]),
    )
    if sent.get("to") is not None:
        wish.line = next((x for x in machine.world.account.lines if x.e164 == str(sent["to"])), None)
        if wish.line is None:
            raise BadWish(f"to: {sent['to']} is none of the account's numbers")
    return wish


def _person(machine: Machine, name: object) -> Person | None:
    if name is None:
        return None
    for person in machine.world.account.people:
        if str(name) in (str(person.id), person.ext, person.email):
            return person
    raise BadWish(f"user: nobody is {name}")


def _group(machine: Machine, group_id: object) -> Group | None:
    if group_id is None:
        return None
    for group in machine.world.account.groups:
        if str(group.id) == str(group_id):
            return group
    raise BadWish(f"group: none is {group_id}")


def _add_webhooks(app: Flask, machine: Machine) -> None:
    @app.post("/_simulator/webhook")
    def point() -> Response:
        sent = _body()
        url = sent.get("url")
        if "ca" in sent:
            machine.sender.ca = sent["ca"]
        if url and sent.get("probe"):
            wrong = machine.sender.probe(str(url))
            if wrong:
                raise BadWish(wrong)
        machine.sender.url = str(url) if url else None
        if url:
            machine.bustle.greet()
        return _json({"url": machine.sender.url})

    @app.get("/_simulator/webhooks")
    def deliveries() -> Response:
        return _json({"data": machine.sender.deliveries(request.args.get("after", -1, int))})

    @app.post("/_simulator/webhooks/wait")
    def wait() -> Response:
        return _json({"idle": machine.sender.wait(float(_body().get("seconds", 5)))})


def _add_trouble(app: Flask, machine: Machine) -> None:
    @app.route("/_simulator/faults", methods=["GET", "POST", "DELETE"])
    def faults() -> Response:
        if request.method == "POST":
            machine.faults.add(str(_body().get("spec", "")))
        elif request.method == "DELETE":
            machine.faults.clear()
        return _json({"data": machine.faults.listed()})

    @app.post("/_simulator/expire-tokens")
    def expire() -> Response:
        return _json({"expired": machine.doorman.expire_all()})

    @app.post("/_simulator/outage")
    def outage() -> Response:
        seconds = float(_body().get("seconds", 60))
        machine.outage_until = clock.monotonic() + seconds
        return _json({"seconds": seconds})

    @app.route("/_simulator/records/<path:name>/<key>", methods=["PATCH", "DELETE"])
    def record(name: str, key: str) -> Response:
        collection = machine.world.collections.get(name)
        found = collection.find(key) if collection else None
        if collection is None or found is None:
            return _json(error_body("No such record"), 404)
        with machine.world.lock:
            if request.method == "DELETE":
                collection.remove(found)
            else:
                found.update(_body())
        return _json({"data": found})


def _add_views(app: Flask, machine: Machine) -> None:
    @app.get("/_simulator/log")
    def log() -> Response:
        entries = list(machine.log)
        return _json({"data": entries[request.args.get("after", 0, int) :], "total": len(entries)})

    @app.get("/_simulator/account")
    def account() -> Response:
        people = [
            {
                "id": person.id,
                "ext": person.ext,
                "name": person.name,
                "email": person.email,
                "password": person.password,
                "api_key": person.api_key,
                "is_root": person.is_root,
                "two_factor": person.two_factor,
                "code": machine.doorman.codes.get(person.email),
                "online": person.online,
                "monitor": person.monitor,
            }
            for person in machine.world.account.people
        ]
        groups = [
            {
                "id": group.id,
                "kind": group.kind,
                "name": group.name,
                "strategy": group.strategy,
                "ring_time": group.ring_time,
                "users": [member.id for member in group.members],
            }
            for group in machine.world.account.groups
        ]
        lines = [{"e164": line.e164, "name": line.name} for line in machine.world.account.lines]
        return _json({"people": people, "groups": groups, "lines": lines})

    @app.get("/_simulator/state")
    def state() -> Response:
        world = machine.world
        return _json(
            {
                "traffic": {"alive": machine.traffic.alive, "error": machine.traffic.error},
                "webhooks": {
                    "alive": machine.sender.alive,
                    "error": machine.sender.error,
                    "url": machine.sender.url,
                },
                "live": len(world.live),
                "records": {
                    name: len(c.records) for name, c in world.collections.items() if c.derive is None
                },
            }
        )
