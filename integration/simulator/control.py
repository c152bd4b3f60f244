"""Control API of a running simulator: `/_simulator/…`, for loopback clients only.

| Method, path | Body (JSON) | Effect |
|---|---|---|
| POST /calls | see below | plays a call; returns its records and events |
| GET /calls/{leg id} | | records and events of a call so far |
| POST /sms | `from`, `to`, `message`, `user` (null: none), `silent` | receives an SMS |
| POST /webhook | `url` (null: none) | sets the target of webhooks |
| GET /webhooks | query `after` | deliveries and the receiver's responses |
| POST /webhooks/wait | `seconds` | waits until every webhook was attempted once |
| GET, POST, DELETE /faults | `spec` | lists, adds, clears active faults |
| POST /outage | `seconds` (0 ends the outage) | closes connections without a response |
| DELETE /records/{collection}/{key} | | removes a record |
| PATCH /records/{collection}/{key} | fields | changes a record |
| GET /log | query `after` | received requests |
| GET /account | | users with passwords, keys and last codes; numbers; groups |
| GET /state | | state of the threads; counts |

Keys of a call:

- `script`: a name of `World.scripts.by_name`.
- `instant`: the call, its CDR and its recording exist when the response arrives. `cdr_lag` and
  `recording_lag` delay CDR and recording by that many seconds.
- `until`: like `instant`, but the call stops after the first step of that name, such as `connected`, and
  stays live. Without `instant` and `until` the call runs in real time.
- `recorded` (true, false): overrides the user's recording setting.
- `documented`: webhooks without root_call_id and final.
- `silent`: no webhooks.
- `wait`: seconds to wait for the delivery of the webhooks.
- Parties and durations: `caller`, `to` (a number of the account), `user`, `other` (id, extension or e-mail),
  `group` (id), `talk_seconds`, `ring_seconds`, `hold`, `voicemail`, `form` ("one" or "two" for click_to_call,
  "leg" for voicemail), `answered`.
- For the scripts `web_call`, `lead_call` and `call_me_back`, `caller` is the party that the platform dials,
  and `dial` is the other end of a web call.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

import orjson
from flask import Flask, Response, request

from integration.core import clock
from integration.core.errors import error_body
from integration.simulator.calls.legs import CallOptions
from integration.simulator.calls.participants import NoParticipant
from integration.simulator.calls.records import add_webcall
from integration.simulator.calls.traffic import RunningCall
from integration.simulator.calls.world import World
from integration.simulator.context import SimulatorContext
from integration.simulator.http.faults import InvalidFaultSpec
from integration.simulator.records.people import Group, Person
from integration.simulator.records.record_fields import Record, copy_attributes

_SMS_KEYS = frozenset({"from", "to", "message", "user", "silent"})
_LOOPBACK = ("127.", "::1", "::ffff:127.")


def create_app(context: SimulatorContext) -> Callable[..., Any]:
    app = Flask("simulator-control", static_folder=None, template_folder=None)

    @app.before_request
    def loopback_only() -> Response | None:
        if not (request.remote_addr or "").startswith(_LOOPBACK):
            return _make_json_response(error_body("The control API accepts loopback clients only"), 403)
        return None

    @app.errorhandler(InvalidControlRequest)
    @app.errorhandler(InvalidFaultSpec)
    @app.errorhandler(NoParticipant)
    def handle_bad_request(error: Exception) -> Response:
        return _make_json_response(error_body(str(error)), 400)

    @app.errorhandler(404)
    def handle_not_found(_: Exception) -> Response:
        return _make_json_response(error_body("Not found; see docs/simulator.md"), 404)

    _add_call_routes(app, context)
    _add_webhook_routes(app, context)
    _add_fault_routes(app, context)
    _add_state_routes(app, context)
    return app


class InvalidControlRequest(ValueError):
    """Invalid control request. The message names the key."""


def _make_json_response(data: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(data), status, content_type="application/json")


def _read_body(allowed_keys: Set[str] | None = None) -> Record:
    """Return the JSON object of the request body.

    Raises InvalidControlRequest for other bodies, and for keys that are not in `allowed_keys`.
    """
    body = request.get_json(force=True, silent=True) if request.get_data() else {}
    if not isinstance(body, dict):
        raise InvalidControlRequest("The body must be a JSON object.")
    if allowed_keys is not None and not body.keys() <= allowed_keys:
        raise InvalidControlRequest(f"unknown keys: {', '.join(sorted(body.keys() - allowed_keys))}")
    return body


def _add_call_routes(app: Flask, context: SimulatorContext) -> None:
    @app.post("/_simulator/calls")
    def play_call() -> Response:
        body = _read_body(CALL_KEYS)
        make_plan = context.world.scripts.by_name.get(str(body.get("script")))
        if make_plan is None:
            raise InvalidControlRequest(f"script: must be one of {', '.join(context.world.scripts.by_name)}")
        with context.world.lock:
            plan = make_plan(_parse_call_options(context.world, body))
            if plan.script == "web_call":
                add_webcall(context.world, plan, clock.unix())
        plan.uses_documented_events = bool(body.get("documented"))
        if body.get("recorded") is not None:
            for leg in plan.legs:
                leg.is_recorded = bool(body["recorded"])
        silent = bool(body.get("silent"))
        if body.get("instant") or body.get("until"):
            running = context.traffic.play_instantly(
                plan,
                is_silent=silent,
                until_event=body.get("until"),
                record_delays=(float(body.get("cdr_lag", 0)), float(body.get("recording_lag", 0))),
            )
        else:
            running = context.traffic.play(plan, is_silent=silent)
        if body.get("wait"):
            context.webhook_sender.wait_until_idle(float(body["wait"]))
        played_calls.append(running)
        del played_calls[:-500]
        return _make_json_response(_describe_call(running), 201)

    played_calls: list[RunningCall] = []

    @app.get("/_simulator/calls/<int:leg_id>")
    def describe_played_call(leg_id: int) -> Response:
        running = next((r for r in reversed(played_calls) if leg_id in r.leg_ids), None)
        if running is None:
            return _make_json_response(error_body("No such call"), 404)
        return _make_json_response(_describe_call(running))

    @app.post("/_simulator/sms")
    def receive_sms() -> Response:
        body = _read_body(_SMS_KEYS)
        ddi = context.world.ddis[0]
        person: Person | None = context.world.find_person(ddi["target_id"]) or context.world.ordinary_user
        if "user" in body:
            person = None if body["user"] is None else _find_person(context.world, body["user"])
        player = context.traffic.quiet_player if body.get("silent") else context.traffic.player
        record, event = player.receive_sms(
            str(body.get("from", "447700900123")),
            str(body.get("to", ddi["e164"])),
            str(body.get("message", "Hello, this is a test message")),
            person,
            clock.unix(),
        )
        return _make_json_response({"sms": record, "event": event}, 201)


def _describe_call(running: RunningCall) -> Record:
    plan = running.plan
    return {
        "script": plan.script,
        "party": plan.outside_party,
        "root_call_id": plan.legs[0].root_id,
        **copy_attributes(running, "leg_ids events cdr_ids monitor_ids voicemessage_ids"),
    }


def _find_person(world: World, name: object) -> Person:
    for person in world.people:
        if str(name) in (str(person.id), person.ext, person.email):
            return person
    raise InvalidControlRequest(f"user: no user has the id, extension or e-mail {name}")


def _find_group(world: World, group_id: object) -> Group:
    for group in world.groups:
        if str(group.id) == str(group_id):
            return group
    raise InvalidControlRequest(f"group: no group has the id {group_id}")


def _find_ddi(world: World, number: object) -> Record:
    for ddi in world.ddis:
        if ddi["e164"] == str(number):
            return ddi
    raise InvalidControlRequest(f"to: {number} is not a number of the account")


_OPTIONS: dict[str, tuple[str, Callable[[World, Any], object]]] = {
    "caller": ("caller", lambda _, value: str(value)),
    "dial": ("destination", lambda _, value: str(value)),
    "to": ("ddi", _find_ddi),
    "user": ("user", _find_person),
    "other": ("second_user", _find_person),
    "group": ("group", _find_group),
    "form": ("variant", lambda _, value: value),
    "hold": ("has_hold", lambda _, value: value),
    "voicemail": ("voicemail", lambda _, value: value),
    "answered": ("is_answered", lambda _, value: value),
    "talk_seconds": ("talk_seconds", lambda _, value: float(value)),
    "ring_seconds": ("ring_seconds", lambda _, value: float(value)),
}
"""Options of a script and functions that read them, by key of the body."""
CALL_KEYS = _OPTIONS.keys() | {
    *("script", "instant", "until", "documented", "silent", "recorded", "wait", "cdr_lag", "recording_lag")
}


def _parse_call_options(world: World, body: Record) -> CallOptions:
    options = CallOptions()
    for key, (name, parse) in _OPTIONS.items():
        if body.get(key) is not None:
            setattr(options, name, parse(world, body[key]))
    return options


def _add_webhook_routes(app: Flask, context: SimulatorContext) -> None:
    @app.post("/_simulator/webhook")
    def set_webhook_url() -> Response:
        url = _read_body().get("url")
        context.webhook_sender.url = str(url) if url else None
        if url:
            context.traffic_generator.schedule_first_calls()
        return _make_json_response({"url": context.webhook_sender.url})

    @app.get("/_simulator/webhooks")
    def list_deliveries() -> Response:
        after = request.args.get("after", -1, int)
        return _make_json_response({"data": context.webhook_sender.list_deliveries(after)})

    @app.post("/_simulator/webhooks/wait")
    def wait_for_deliveries() -> Response:
        is_idle = context.webhook_sender.wait_until_idle(float(_read_body().get("seconds", 5)))
        return _make_json_response({"idle": is_idle})


def _add_fault_routes(app: Flask, context: SimulatorContext) -> None:
    @app.route("/_simulator/faults", methods=["GET", "POST", "DELETE"])
    def manage_faults() -> Response:
        if request.method == "POST":
            context.faults.add(str(_read_body().get("spec", "")))
        elif request.method == "DELETE":
            context.faults.clear()
        return _make_json_response({"data": context.faults.list_all()})

    @app.post("/_simulator/outage")
    def start_outage() -> Response:
        seconds = float(_read_body().get("seconds", 60))
        context.outage_until = clock.monotonic() + seconds
        return _make_json_response({"seconds": seconds})

    @app.route("/_simulator/records/<path:name>/<key>", methods=["PATCH", "DELETE"])
    def edit_record(name: str, key: str) -> Response:
        collection = context.world.collections.get(name)
        existing = collection.find(key) if collection else None
        if collection is None or existing is None:
            return _make_json_response(error_body("No such record"), 404)
        with context.world.lock:
            if request.method == "DELETE":
                collection.remove(existing)
            else:
                existing.update(_read_body())
        return _make_json_response({"data": existing})


def _add_state_routes(app: Flask, context: SimulatorContext) -> None:
    @app.get("/_simulator/log")
    def read_log() -> Response:
        entries = list(context.request_log)
        newer = entries[request.args.get("after", 0, int) :]
        return _make_json_response({"data": newer, "total": len(entries)})

    @app.get("/_simulator/account")
    def describe_account() -> Response:
        people = [
            copy_attributes(person, "id ext name email password api_key is_root monitor")
            | {
                "two_factor": person.has_two_factor,
                "code": context.login_service.codes.get(person.email),
                "online": person.is_online,
            }
            for person in context.world.people
        ]
        groups = [
            copy_attributes(group, "id kind name strategy ring_time")
            | {"users": [member.id for member in group.members]}
            for group in context.world.groups
        ]
        ddis = [{"e164": ddi["e164"], "name": ddi["name"]} for ddi in context.world.ddis]
        return _make_json_response({"people": people, "groups": groups, "lines": ddis})

    @app.get("/_simulator/state")
    def describe_state() -> Response:
        world, sender = context.world, context.webhook_sender
        state = {
            "traffic": {"alive": context.traffic.is_alive, "error": context.traffic.error},
            "webhooks": {"alive": sender.is_alive, "error": sender.error, "url": sender.url},
            "live": len(world.live_legs),
            "records": {name: len(c.records) for name, c in world.collections.items() if c.derive is None},
        }
        return _make_json_response(state)
