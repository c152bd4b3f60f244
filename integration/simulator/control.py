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
| GET /account | | users with passwords, keys and last codes |

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
from typing import Any, TypeVar

from flask import Blueprint, request

from integration.core import clock
from integration.simulator.calls.legs import CallOptions
from integration.simulator.calls.traffic import RunningCall
from integration.simulator.calls.world import World
from integration.simulator.context import get_simulator_context, get_world
from integration.simulator.http.responses import ErrorResponse
from integration.simulator.records.people import Group, Person
from integration.simulator.records.record_fields import Record, copy_attributes

_T = TypeVar("_T")
PREFIX = "/_simulator"
_SMS_KEYS = frozenset({"from", "to", "message", "user", "silent"})
_LOOPBACK = ("127.", "::1", "::ffff:127.")

blueprint = Blueprint("control", __name__, url_prefix=PREFIX)


@blueprint.before_request
def check_loopback() -> None:
    if not (request.remote_addr or "").startswith(_LOOPBACK):
        raise ErrorResponse(403, "The control API accepts loopback clients only")


def _read_body(allowed_keys: Set[str] | None = None) -> Record:
    """Return the JSON object of the request body.

    Raises ErrorResponse for other bodies, and for keys that are not in `allowed_keys`.
    """
    body = request.get_json(force=True, silent=True) if request.get_data() else {}
    if not isinstance(body, dict):
        raise ErrorResponse(400, "The body must be a JSON object.")
    if allowed_keys is not None and not body.keys() <= allowed_keys:
        raise ErrorResponse(400, f"unknown keys: {', '.join(sorted(body.keys() - allowed_keys))}")
    return body


@blueprint.post("/calls")
def play_call() -> tuple[Record, int]:
    body, context, world = _read_body(CALL_KEYS), get_simulator_context(), get_world()
    make_plan = world.scripts.by_name.get(str(body.get("script")))
    if make_plan is None:
        raise ErrorResponse(400, f"script: must be one of {', '.join(world.scripts.by_name)}")
    with world.lock:
        plan = make_plan(_parse_call_options(world, body))
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
    context.played_calls.append(running)
    return _describe_call(running), 201


@blueprint.get("/calls/<int:leg_id>")
def describe_played_call(leg_id: int) -> Record:
    for running in reversed(get_simulator_context().played_calls):
        if leg_id in running.leg_ids:
            return _describe_call(running)
    raise ErrorResponse(404, "No such call")


def _describe_call(running: RunningCall) -> Record:
    plan = running.plan
    return {
        "script": plan.script,
        "party": plan.outside_party,
        "root_call_id": plan.legs[0].root_id,
        **copy_attributes(running, "leg_ids events cdr_ids monitor_ids voicemessage_ids"),
    }


@blueprint.post("/sms")
def receive_sms() -> tuple[Record, int]:
    body, world, traffic = _read_body(_SMS_KEYS), get_world(), get_simulator_context().traffic
    ddi = world.ddis[0]
    person: Person | None = world.ordinary_user
    if "user" in body:
        person = None if body["user"] is None else _find_person(world, body["user"])
    player = traffic.quiet_player if body.get("silent") else traffic.player
    record, event = player.receive_sms(
        str(body.get("from", "447700900123")),
        str(body.get("to", ddi["e164"])),
        str(body.get("message", "Hello, this is a test message")),
        person,
        clock.unix(),
    )
    return {"sms": record, "event": event}, 201


def _find_person(world: World, name: object) -> Person:
    people = [one for one in world.people if str(name) in (str(one.id), one.ext, one.email)]
    return _get_first(people, f"user: no user has the id, extension or e-mail {name}")


def _find_group(world: World, group_id: object) -> Group:
    groups = [group for group in world.groups if str(group.id) == str(group_id)]
    return _get_first(groups, f"group: no group has the id {group_id}")


def _find_ddi(world: World, number: object) -> Record:
    ddis = [ddi for ddi in world.ddis if ddi["e164"] == str(number)]
    return _get_first(ddis, f"to: {number} is not a number of the account")


def _get_first(found: list[_T], problem: str) -> _T:
    if not found:
        raise ErrorResponse(400, problem)
    return found[0]


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


@blueprint.post("/webhook")
def set_webhook_url() -> Record:
    context, url = get_simulator_context(), _read_body().get("url")
    context.webhook_sender.url = str(url) if url else None
    if url:
        context.traffic_generator.schedule_first_calls()
    return {"url": context.webhook_sender.url}


@blueprint.get("/webhooks")
def list_deliveries() -> Record:
    after = request.args.get("after", -1, int)
    return {"data": get_simulator_context().webhook_sender.list_deliveries(after)}


@blueprint.post("/webhooks/wait")
def wait_for_deliveries() -> Record:
    seconds = float(_read_body().get("seconds", 5))
    return {"idle": get_simulator_context().webhook_sender.wait_until_idle(seconds)}


@blueprint.route("/faults", methods=["GET", "POST", "DELETE"])
def manage_faults() -> Record:
    faults = get_simulator_context().faults
    if request.method == "POST":
        faults.add(str(_read_body().get("spec", "")))
    elif request.method == "DELETE":
        faults.clear()
    return {"data": faults.list_all()}


@blueprint.post("/outage")
def start_outage() -> Record:
    seconds = float(_read_body().get("seconds", 60))
    get_simulator_context().outage_until = clock.monotonic() + seconds
    return {"seconds": seconds}


@blueprint.route("/records/<path:name>/<key>", methods=["PATCH", "DELETE"])
def edit_record(name: str, key: str) -> Record:
    world = get_world()
    collection = world.collections.get(name)
    existing = collection.find(key) if collection else None
    if collection is None or existing is None:
        raise ErrorResponse(404, "No such record")
    with world.lock:
        if request.method == "DELETE":
            collection.remove(existing)
        else:
            existing.update(_read_body())
    return {"data": existing}


@blueprint.get("/log")
def read_log() -> Record:
    entries = list(get_simulator_context().request_log)
    return {"data": entries[request.args.get("after", 0, int) :], "total": len(entries)}


@blueprint.get("/account")
def describe_account() -> Record:
    world, codes = get_world(), get_simulator_context().login_service.codes
    people = [
        {
            **copy_attributes(person, "id ext name email password api_key is_root monitor"),
            "two_factor": person.has_two_factor,
            "code": codes.get(person.email),
            "online": person.is_online,
        }
        for person in world.people
    ]
    return {"people": people}
