"""The pretend platform's HTTP face: who asks, what may go wrong on purpose, and the routes.

Reads are generic (`reading.py`), and so are writes of plain records (`crud.py`, `bulk.py`); what is more than
that has routes by noun: `logins.py`, `accounts.py`, `live.py`, `groups.py`, `files.py`, `subpaths.py`.
Everything is mounted below `/v1.1` and `/v1.2`; control of the simulator itself is below `/_simulator`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, cast

import orjson
from flask import Flask, Response, g, request
from werkzeug.exceptions import HTTPException

from integration.core import clock
from integration.core.errors import error_body
from integration.simulator import control
from integration.simulator.context import Machine
from integration.simulator.http.faults import Fault
from integration.simulator.http.responses import Answered, reply
from integration.simulator.http.transport import Environ, Mischief
from integration.simulator.records import accounts, groups
from integration.simulator.records.authentication import Denied
from integration.simulator.routes import (
    bulk,
    crud,
    files,
    live,
    subpaths,
)
from integration.simulator.routes import (
    reads as reading,
)
from integration.simulator.routes import (
    sessions as logins,
)

_BASE = re.compile(r"^/v1\.[12](/voipstudio)?(?=/|$)")
_OPEN_PATHS = re.compile(r"^/(login|login2fa|confirmation|password|reset|registrations(/.*)?)/?$")
_HTML = b"<!DOCTYPE html><html><head><title>502</title></head><body><h1>Bad gateway</h1></body></html>"


def create_app(parts: Machine) -> Callable[[Environ, Callable[..., Any]], Iterable[bytes]]:
    """The WSGI application of one simulator."""
    app = Flask("simulator", static_folder=None, template_folder=None)
    app.url_map.strict_slashes = False
    for routes in (logins, accounts, live, groups, crud, bulk, files, subpaths):
        routes.add_routes(app)
    reading.add_routes(app, parts.world)
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


def _add_checks(app: Flask, parts: Machine) -> None:
    @app.before_request
    def begin() -> Response | None:
        g.machine = parts
        g.started = clock.monotonic()
        g.token = None
        g.faults = {fault.kind: fault for fault in parts.faults.draw(request.method, request.path)}
        if "status" in g.faults:
            return _status(g.faults["status"])
        if request.method == "OPTIONS" or _OPEN_PATHS.match(request.path):
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
    if answer.is_json and faults.keys() & {"double-row", "short-page", "short-list"}:
        _miscount(answer, faults)
    if "wrong-file" in faults and answer.content_type in ("audio/mpeg3", "application/pdf"):
        fault = faults["wrong-file"]
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
    if "no-length" in faults:
        mischief.no_length = min(1.0, faults["no-length"].number(0.5))
    if faults and mischief != Mischief():
        request.environ["simulator.mischief"] = mischief


def _miscount(answer: Response, faults: dict[str, Fault]) -> None:
    """A page with a record too many or with too few."""
    body = answer.get_json()
    records = body.get("data")
    if not isinstance(records, list) or not records:
        return
    if "double-row" in faults:
        records.append(records[-1])
    else:
        del records[len(records) // 2 :]
    if "short-list" in faults:
        body["total"] = len(records)
    answer.set_data(orjson.dumps(body))


def _replace(answer: Response, body: bytes, content_type: str) -> None:
    answer.status_code = 200
    answer.content_type = content_type
    answer.set_data(body)
