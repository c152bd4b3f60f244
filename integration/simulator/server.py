"""The pretend platform's HTTP face: who asks, what may go wrong on purpose, and the routes.

Reads of collections are generic (`world.collections`); what is odd has a function of its own in `writing.py`.
Everything is mounted below `/v1.1` and `/v1.2`; control of the simulator itself is below `/_simulator`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

import orjson
from flask import Flask, Response, g, request
from werkzeug.exceptions import HTTPException

from integration import clock
from integration.errors import error_body
from integration.simulator import audio, filters
from integration.simulator.faults import Fault, Faults
from integration.simulator.login import Denied, Doorman, Token
from integration.simulator.people import Person, me_record
from integration.simulator.play import Player
from integration.simulator.traffic import Traffic
from integration.simulator.transport import Environ, Mischief
from integration.simulator.webhooks import Sender
from integration.simulator.world import Collection, World

Record = dict[str, Any]

_BASE = re.compile(r"^/v1\.[12](/voipstudio)?(?=/|$)")
_OPEN_PATHS = frozenset({"/login", "/login2fa", "/confirmation", "/password", "/reset"})
_HTML = b"<!DOCTYPE html><html><head><title>502</title></head><body><h1>Bad gateway</h1></body></html>"
_LOG_KEPT = 20_000


@dataclass(slots=True)
class Machine:
    """All parts of one simulator, for the routes."""

    world: World
    doorman: Doorman
    faults: Faults
    sender: Sender
    player: Player
    traffic: Traffic
    log: deque[Record] = field(default_factory=lambda: deque(maxlen=_LOG_KEPT))
    outage_until: float = 0.0
    escape_slashes: bool = True


class Answered(Exception):
    """Ends a request with the platform's error shape."""

    def __init__(self, status: int, message: str, errors: Iterable[Any] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.errors = list(errors)


def invalid(*fields: str) -> Answered:
    """The platform's answer to bad fields of a body (observed.md §5)."""
    return Answered(
        400,
        "Validation error",
        [{"code": "SF0010", "field": name, "message": "This value is not valid."} for name in fields],
    )


def reply(data: Any, status: int = 200) -> Response:
    """JSON as the platform writes it: compact, `/` escaped as `\\/` (observed.md §4)."""
    body = orjson.dumps(data)
    if machine().escape_slashes:
        body = body.replace(b"/", b"\\/")
    return Response(body, status, content_type="application/json")


def item(record: Record, status: int = 200, path: str | None = None) -> Response:
    return reply({"data": record, "links": {"self": path} if path else {}}, status)


def no_content() -> Response:
    answer = Response(status=204)
    del answer.headers["Content-Type"]
    return answer


def machine() -> Machine:
    return cast(Machine, g.machine)


def caller() -> Person:
    return cast(Token, g.token).person


def collection_page(collection: Collection, records: Iterable[Record]) -> tuple[list[Record], int]:
    """The page of `records` the query asks for. Raises Answered."""
    try:
        page = filters.select(
            records, collection.fields, request.args.to_dict(), unfilterable=collection.unfilterable
        )
    except filters.Refused as error:
        raise Answered(400, str(error)) from error
    return page.records, page.total


def open_collection(name: str) -> Collection:
    """The collection `name` if the caller may see any of it. Raises Answered."""
    collection = machine().world.collections.get(name)
    if collection is None:
        raise Answered(404, "Resource not found")
    if collection.mine is None and name != "calls" and not caller().is_root:
        raise Answered(403, "Access denied")
    return collection


def open_record(name: str, key: str) -> Record:
    """The record `key` of collection `name` if the caller may see it. Raises Answered (403, 404)."""
    collection = open_collection(name)
    record = _live_call(key) if name == "calls" else collection.find(key)
    if record is None:
        raise Answered(404, "Resource not found")
    person = caller()
    if not person.is_root:
        visible = is_party(record, person) if name == "calls" else bool(collection.mine(record, person))  # type: ignore[misc]
        if not visible:
            raise Answered(403, "Access denied")
    return record


def is_party(call: Record, person: Person) -> bool:
    return str(person.id) in (call["src_id"], call["dst_id"])


def _live_call(key: str) -> Record | None:
    live = machine().world.live_records(clock.unix())
    return next((record for record in live if str(record["id"]) == key), None)


def include(name: str, record: Record) -> Record:
    """`record` with the relations that `include=` names (observed.md §3)."""
    wanted = [word for word in request.args.get("include", "").split(",") if word]
    if not wanted or name not in ("queues", "ringgroups"):
        return record
    world = machine().world
    group = world.group(record["id"])
    more: Record = {}
    if "users" in wanted:
        people = [
            {
                "id": person.id,
                "first_name": person.first_name,
                "last_name": person.last_name,
                "ext": person.ext,
                "email": person.email,
                "status": group.logged_in.get(person.id, True),
            }
            for person in group.members
        ]
        more["users"] = [_narrow("users", entry) for entry in people]
    if "ddis" in wanted:
        lines = world.collections["ddis"].records
        more["ddis"] = [
            _narrow("ddis", lines[line.e164]) for line in world.account.lines if line.target is group
        ]
    return {**record, **more}


def _narrow(relation: str, record: Record) -> Record:
    names = request.args.get(f"fields[{relation}]")
    if not names:
        return record
    return {name: record[name] for name in names.split(",") if name in record}


def create_app(parts: Machine) -> Callable[[Environ, Callable[..., Any]], Iterable[bytes]]:
    """The WSGI application of one simulator."""
    from integration.simulator import control, writing

    app = Flask("simulator", static_folder=None, template_folder=None)
    app.url_map.strict_slashes = False
    writing.add_routes(app)
    _add_reads(app)
    _add_checks(app, parts)
    control_app = control.create_app(parts)

    def dispatch(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/_simulator" or path.startswith("/_simulator/"):
            return cast(Iterable[bytes], control_app(environ, start_response))
        base = _BASE.match(path)
        if base is None:
            environ["PATH_INFO"] = "/no/such/base"
        else:
            environ["SCRIPT_NAME"], environ["PATH_INFO"] = base.group(), path[base.end() :] or "/"
        if clock.monotonic() < parts.outage_until:
            # The connection is cut without an answer, as if nobody were there.
            environ["simulator.mischief"] = Mischief(hang=0.001)
        return app(environ, start_response)

    return dispatch


def _add_reads(app: Flask) -> None:
    @app.get("/me")
    def me() -> Response:
        return item(me_record(caller()))

    @app.get("/ping")
    def ping() -> Response:
        return reply({"data": {"response": "Pong"}})

    @app.get("/<name>")
    def listed(name: str) -> Response:
        collection = open_collection(name)
        world, person = machine().world, caller()
        with world.lock:
            if name == "calls":
                live = world.live_records(clock.unix())
                records: list[Record] = [call for call in live if person.is_root or is_party(call, person)]
            else:
                records = list(collection.visible(person))
            page, total = collection_page(collection, records)
            return reply({"data": [include(name, record) for record in page], "total": total})

    @app.get("/<name>/<key>")
    def one(name: str, key: str) -> Response:
        if name in ("monitors", "voicemessages") and key.endswith(".mp3"):
            return _mp3(name, key[:-4])
        with machine().world.lock:
            record = open_record(name, key)
            collection = machine().world.collections[name]
            full = record if name == "calls" else collection.item(record)
            return item(include(name, full), path=f"/{name}/{key}")


def _mp3(name: str, key: str) -> Response:
    """The whole file; Range is ignored, as observed (observed.md §6)."""
    record = open_record(name, key)
    return Response(audio.mp3(record["duration"], record["id"]), content_type="audio/mpeg3")


def _add_checks(app: Flask, parts: Machine) -> None:
    @app.before_request
    def begin() -> Response | None:
        g.machine = parts
        g.started = clock.monotonic()
        g.token = None
        g.faults = {fault.kind: fault for fault in parts.faults.draw(request.method, request.path)}
        if "status" in g.faults:
            return _status(g.faults["status"])
        if request.method == "OPTIONS" or request.path in _OPEN_PATHS:
            return None
        try:
            g.token = parts.doorman.check(
                request.headers.get("X-Auth-Token"), request.headers.get("Authorization")
            )
            if "expire-token" in g.faults and g.token.name is None:
                parts.doorman.revoke(g.token.secret)
                raise Denied(401, "Unauthorized")
        except Denied as error:
            return reply(error_body(str(error)), error.status)
        return None

    @app.after_request
    def end(answer: Response) -> Response:
        _misbehave(answer, g.faults)
        answer.headers["Access-Control-Allow-Origin"] = "*"
        answer.headers["Access-Control-Allow-Headers"] = "X-Auth-Token, Content-Type, Authorization"
        answer.headers["Access-Control-Allow-Methods"] = "GET, POST, PATCH, DELETE"
        answer.headers["Date"] = clock.now().strftime("%a, %d %b %Y %H:%M:%S GMT")
        parts.log.append(
            {
                "at": clock.stamp(),
                "method": request.method,
                "path": request.path,
                "query": request.query_string.decode("latin-1"),
                "user_id": g.token.person.id if g.token else None,
                "status": answer.status_code,
                "faults": sorted(g.faults),
                "seconds": round(clock.monotonic() - g.started, 4),
            }
        )
        return answer

    @app.errorhandler(Answered)
    def answered(error: Answered) -> Response:
        return reply(error_body(str(error), error.errors), error.status)

    @app.errorhandler(HTTPException)
    def refused(error: HTTPException) -> Response:
        messages = {404: "Resource not found", 405: "Method not allowed"}
        status = error.code or 500
        return reply(error_body(messages.get(status, error.name)), status)


def _status(fault: Fault) -> Response:
    code, _, wait = (fault.value or "500").partition("/")
    answer = reply(error_body(f"Simulated {code}"), int(code))
    if code in ("429", "503"):
        answer.headers["Retry-After"] = wait or "1"
    return answer


def _misbehave(answer: Response, faults: dict[str, Fault]) -> None:
    """Change an answer as the faults of its request say."""
    if "html" in faults:
        _replace(answer, _HTML, "text/html; charset=utf-8")
    if "empty" in faults and answer.status_code == 200:
        _replace(answer, b'{"data":[],"total":0}', "application/json")
    if "double-row" in faults and answer.is_json:
        body = answer.get_json()
        if isinstance(body.get("data"), list) and body["data"]:
            body["data"].append(body["data"][-1])
            answer.set_data(orjson.dumps(body))
    if "wrong-mp3" in faults and answer.content_type == "audio/mpeg3":
        fault = faults["wrong-mp3"]
        what = fault.value or fault.rng.choice(("short", "html", "zero"))
        if what == "html":
            _replace(answer, _HTML, "text/html; charset=utf-8")
        else:
            data = answer.get_data()
            answer.set_data(b"" if what == "zero" else data[: len(data) // 2])
    mischief = Mischief()
    if "malformed" in faults:
        if faults["malformed"].value == "headers":
            mischief.broken_headers = True
        else:
            data = answer.get_data()
            answer.set_data(data[: max(1, len(data) * 2 // 3)].rstrip(b"}] \n"))
    if "hang" in faults:
        mischief.hang = faults["hang"].number()
    if "slow" in faults:
        mischief.delay = faults["slow"].number()
    if "drip" in faults:
        mischief.drip = faults["drip"].number()
    if "truncate" in faults:
        mischief.truncate = min(0.99, faults["truncate"].number(0.5))
    if faults and mischief != Mischief():
        request.environ["simulator.mischief"] = mischief


def _replace(answer: Response, body: bytes, content_type: str) -> None:
    answer.status_code = 200
    answer.content_type = content_type
    answer.set_data(body)
