"""WSGI application of the simulator: authentication, faults and routes.

Reads (`reads.py`) and writes (`writes.py`) are generic. Other operations have separate modules:
`accounts.py`, `live.py`, `files.py`.
All routes are below `/v1.1` and `/v1.2`. Control of the simulator is below `/_simulator`.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable
from typing import Any

import orjson
from flask import Flask, Response, g, request
from werkzeug.exceptions import HTTPException

from integration.core import clock
from integration.core.errors import error_body
from integration.simulator import control
from integration.simulator.calls.participants import NoParticipant
from integration.simulator.context import SimulatorContext
from integration.simulator.http.faults import Fault, InvalidFaultSpec
from integration.simulator.http.responses import ErrorResponse, make_json_response
from integration.simulator.http.transport import WIRE_FAULTS_KEY, Environ
from integration.simulator.routes import accounts, files, live, reads, writes

_BASE_PATH = re.compile(r"^/v1\.[12](/voipstudio)?(?=/|$)")
CONTEXT_KEY = "simulator.context"
"""Key of the simulator context in the WSGI environment."""
_PUBLIC_PATHS = re.compile(r"^/(login|login2fa|confirmation|password|reset|registrations(/.*)?)/?$")
_WIRE_FAULTS = {
    "hang": (0.0, math.inf),
    "slow": (0.0, math.inf),
    "drip": (0.0, math.inf),
    "truncate": (0.5, 0.99),
    "no-length": (0.5, 1.0),
}
"""Default and maximum of the value by kind of fault."""
_HTML = b"<!DOCTYPE html><html><head><title>502</title></head><body><h1>Bad gateway</h1></body></html>"


def create_app(context: SimulatorContext) -> Callable[[Environ, Callable[..., Any]], Iterable[bytes]]:
    """Create the WSGI application of one simulator."""
    app = _create_flask_app()

    def dispatch(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ[CONTEXT_KEY] = context
        path = environ["PATH_INFO"]
        if path.startswith(f"{control.PREFIX}/"):
            return app(environ, start_response)
        base = _BASE_PATH.match(path)
        if base is None:
            environ["PATH_INFO"] = "/no/such/base"
        else:
            environ["SCRIPT_NAME"], environ["PATH_INFO"] = base.group(), path[base.end() :] or "/"
        if clock.monotonic() < context.outage_until:
            # Close the connection without a response, as an unreachable platform would.
            environ[WIRE_FAULTS_KEY]["hang"] = 0.001
        return app(environ, start_response)

    return dispatch


@functools.cache
def _create_flask_app() -> Flask:
    """Create all routes, once for all simulators of the process.

    Werkzeug compiles each rule twice when it is added, which takes 110 of the 135 ms of a simulator's start.
    """
    app = Flask("simulator", static_folder=None, template_folder=None)
    app.url_map.strict_slashes = False
    app.json.sort_keys = False  # type: ignore[attr-defined]
    for module in (control, accounts, live):
        app.register_blueprint(module.blueprint)
    for routes in (files, writes, reads):
        routes.add_routes(app)
    _add_request_hooks(app)
    return app


def _add_request_hooks(app: Flask) -> None:
    @app.before_request
    def authenticate_request() -> Response | None:
        context: SimulatorContext = request.environ[CONTEXT_KEY]
        g.simulator_context = context
        if _is_control_request():
            return None
        g.token = None
        g.faults = context.faults.draw(request.method, request.path)
        if "status" in g.faults:
            return _make_fault_response(g.faults["status"])
        if request.method == "OPTIONS" or _PUBLIC_PATHS.match(request.path):
            return None
        g.token = context.login_service.authenticate(
            request.headers.get("X-Auth-Token"), request.headers.get("Authorization")
        )
        if "expire-token" in g.faults and g.token.name is None:
            context.login_service.revoke(g.token.secret)
            raise ErrorResponse(401, "Unauthorized")
        return None

    @app.after_request
    def finish_response(response: Response) -> Response:
        if _is_control_request():
            return response
        _apply_faults(response, g.faults)
        response.headers["Access-Control-Allow-Origin"] = "*"
        response.headers["Access-Control-Allow-Headers"] = "X-Auth-Token, Content-Type, Authorization"
        response.headers["Access-Control-Allow-Methods"] = "GET, POST, PATCH, DELETE"
        response.headers["Date"] = clock.now().strftime("%a, %d %b %Y %H:%M:%S GMT")
        g.simulator_context.request_log.append(
            {
                "at": clock.utc_text(),
                "method": request.method,
                "path": request.path,
                "query": request.query_string.decode("latin-1"),
                "user_id": g.token.person.id if g.token else None,
                "status": response.status_code,
                "faults": sorted(g.faults),
            }
        )
        return response

    @app.errorhandler(ErrorResponse)
    def handle_error_response(error: ErrorResponse) -> Response:
        return make_json_response(error_body(str(error), error.errors), error.status)

    @app.errorhandler(InvalidFaultSpec)
    @app.errorhandler(NoParticipant)
    def handle_bad_request(error: Exception) -> Response:
        return make_json_response(error_body(str(error)), 400)

    @app.errorhandler(HTTPException)
    def handle_http_exception(error: HTTPException) -> Response:
        messages = {404: "Resource not found", 405: "Method not allowed"}
        status = error.code or 500
        return make_json_response(error_body(messages.get(status, error.name)), status)


def _is_control_request() -> bool:
    return request.path.startswith(f"{control.PREFIX}/")


def _make_fault_response(fault: Fault) -> Response:
    code, _, wait = (fault.value or "500").partition("/")
    response = make_json_response(error_body(f"Simulated {code}"), int(code))
    if code in ("429", "503"):
        response.headers["Retry-After"] = wait or "1"
    return response


def _apply_faults(response: Response, faults: dict[str, Fault]) -> None:
    """Apply the faults drawn for the request to its response."""
    if "html" in faults:
        _replace_body(response, _HTML, "text/html; charset=utf-8")
    if "empty" in faults and response.status_code == 200:
        _replace_body(response, b'{"data":[],"total":0}', "application/json")
    if response.is_json and faults.keys() & {"double-row", "short-page"}:
        _corrupt_page(response, faults)
    if "wrong-file" in faults and response.content_type in ("audio/mpeg3", "application/pdf"):
        fault = faults["wrong-file"]
        replacement = fault.value or fault.rng.choice(("short", "html", "zero"))
        if replacement == "html":
            _replace_body(response, _HTML, "text/html; charset=utf-8")
        else:
            data = response.get_data()
            response.set_data(b"" if replacement == "zero" else data[: len(data) // 2])
    wire_faults = request.environ[WIRE_FAULTS_KEY]
    for kind in _WIRE_FAULTS.keys() & faults.keys():
        default, limit = _WIRE_FAULTS[kind]
        wire_faults[kind] = min(limit, float(faults[kind].value or default))
    if "malformed" in faults:
        if faults["malformed"].value == "headers":
            wire_faults["malformed"] = 1.0
        else:
            data = response.get_data()
            response.set_data(data[: max(1, len(data) * 2 // 3)].rstrip(b"}] \n"))


def _corrupt_page(response: Response, faults: dict[str, Fault]) -> None:
    """Duplicate the last record of a page, or remove half of them."""
    body = response.get_json()
    records = body.get("data")
    if not isinstance(records, list) or not records:
        return
    if "double-row" in faults:
        records.append(records[-1])
    else:
        del records[len(records) // 2 :]
    response.set_data(orjson.dumps(body))


def _replace_body(response: Response, body: bytes, content_type: str) -> None:
    response.status_code = 200
    response.content_type = content_type
    response.set_data(body)
