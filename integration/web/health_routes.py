"""Routes for monitoring: `/healthz`, `/readyz` and `/metrics`."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify, request

from integration.access.browser import is_local_request
from integration.context import AppContext
from integration.core.api_responses import ApiError
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
            try:
                context.authenticator.check_key(request)
            except ApiError as error:
                return _text_response(f"{error}\n", error.status, error.headers)
        return Response(metrics.render(), content_type=CONTENT_TYPE)

    return blueprint


def _text_response(text: str, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(text, status, headers, content_type="text/plain; charset=utf-8")
