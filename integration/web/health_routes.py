"""`/healthz`, `/readyz` and `/metrics`: for probes, not for people (interface.md §3)."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify, request

from integration.access import keys
from integration.access import login_throttle as attempts
from integration.access.browser import from_here
from integration.access.login_throttle import TooManyAttempts
from integration.context import House
from integration.mirror.calls import backlog
from integration.web.metrics import CONTENT_TYPE, Metrics


def make_blueprint(parts: House) -> Blueprint:
    """The three routes. They ask for no login: `/metrics` asks for loopback or a key."""
    blueprint = Blueprint("health", __name__)
    metrics = Metrics(parts.health)
    metrics.gauge("live_streams", "Open live streams.", lambda: parts.hub.watchers)
    metrics.gauge(
        "legs_waiting",
        "Legs of old calls, stored by a first load, whose calls are not put together yet.",
        lambda: _waiting(parts),
    )
    metrics.counts(
        "webhooks", "Webhooks by what their senders were told.", "outcome", lambda: parts.inbox.counts()
    )

    @blueprint.get("/healthz")
    def healthz() -> Response:
        return _text("ok\n")

    @blueprint.get("/readyz")
    def readyz() -> tuple[Response, int]:
        report = parts.health.report()
        status = 503 if report["status"] == "unready" else 200
        if not from_here(request):
            # Whoever can reach us may know that something fails; what it says may name hosts and paths.
            report = {
                "status": report["status"],
                "checks": {name: {"state": check["state"]} for name, check in report["checks"].items()},
            }
        return jsonify(report), status

    @blueprint.get("/metrics")
    def show_metrics() -> Response:
        if not from_here(request):
            refusal = _refusal(parts)
            if refusal is not None:
                return refusal
        return Response(metrics.text(), content_type=CONTENT_TYPE)

    return blueprint


def _waiting(parts: House) -> int:
    with parts.mirror.read() as connection:
        return backlog.left(connection)


def _refusal(parts: House) -> Response | None:
    """None for a request with a key of ours."""
    given = request.authorization
    if given is not None and given.type == "basic":
        user, secret = given.username or "", given.password or ""
    else:
        user, secret = None, request.headers.get("X-Auth-Token", "").strip()
    address = request.remote_addr or ""
    try:
        attempts.check(parts.house, "key", user, address)
        if secret and keys.check(parts.house, user, secret) is not None:
            return None
        if secret:
            attempts.failed(parts.house, "key", user, address)
    except TooManyAttempts as error:
        return _text(f"{error}\n", 429, {"Retry-After": str(error.retry_after)})
    return _text("a key is needed\n", 401, {"WWW-Authenticate": 'Basic realm="Switchroom"'})


def _text(text: str, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(text, status, headers, content_type="text/plain; charset=utf-8")
