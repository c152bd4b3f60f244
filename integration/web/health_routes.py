"""Routes for monitoring: `/healthz`, `/readyz` and `/metrics`."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify, request

from integration.access import login_throttle
from integration.access.browser import is_local_request
from integration.access.keys import KeyRefused
from integration.access.login_throttle import TooManyAttempts
from integration.context import AppContext
from integration.web.metrics.registry import CONTENT_TYPE, Metrics


def make_blueprint(context: AppContext, metrics: Metrics) -> Blueprint:
    """Return the blueprint with the three routes.

    They need no login, and accept a final slash. `/metrics` requires a key, or a local request if there is
    no `server.public_url`: a proxy on this machine that sends no forwarding headers makes all requests look
    local.
    """
    blueprint = Blueprint("health", __name__)
    is_public = context.settings.server.public_url is not None

    @blueprint.get("/healthz", strict_slashes=False)
    def healthz() -> Response:
        return _text_response("ok\n")

    @blueprint.get("/readyz", strict_slashes=False)
    def readyz() -> tuple[Response, int]:
        report = context.health.report()
        status = 503 if report["status"] == "unready" else 200
        if not is_local_request(request):
            # The state of a check is public. Its error is not, because it may name hosts and paths.
            report = {
                "status": report["status"],
                "checks": {name: {"state": check["state"]} for name, check in report["checks"].items()},
            }
        return jsonify(report), status

    @blueprint.get("/metrics", strict_slashes=False)
    def show_metrics() -> Response:
        if is_public or not is_local_request(request):
            error_response = _check_credentials(context)
            if error_response is not None:
                return error_response
        return Response(metrics.render(), content_type=CONTENT_TYPE)

    return blueprint


def _check_credentials(context: AppContext) -> Response | None:
    """Return None for a valid local key, else the error response."""
    authorization = request.authorization
    if authorization is not None and authorization.type == "basic":
        user_part, secret = authorization.username or "", authorization.password or ""
    else:
        user_part, secret = None, request.headers.get("X-Auth-Token", "").strip()
    address = request.remote_addr or ""
    try:
        login_throttle.check_limit(context.app_db, "key", user_part, address)
        if secret and context.authenticator.find_key(user_part, secret, address) is not None:
            return None
        if secret:
            login_throttle.begin_attempt(context.app_db, "key", user_part, address)
    except TooManyAttempts as error:
        return _text_response(f"{error}\n", 429, {"Retry-After": str(error.retry_after)})
    except KeyRefused as error:
        headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
        return _text_response(f"{error}\n", error.status, headers)
    return _text_response(
        "This page requires a local key. Create one with `switchroom key add`.\n",
        401,
        {"WWW-Authenticate": 'Basic realm="Switchroom"'},
    )


def _text_response(text: str, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(text, status, headers, content_type="text/plain; charset=utf-8")
