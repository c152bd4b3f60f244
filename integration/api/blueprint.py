"""Routes of the own API below `/api/`: joined calls, the call-back list and reports for programs.

The facade is the platform's API, with one record for each phone that rang. docs/api.md describes this one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import orjson
from flask import Blueprint, Response, request

from integration.api import calls, missed, reports
from integration.api.events import EventReaders
from integration.api.requests import ApiRequest
from integration.context import AppContext
from integration.core.api_responses import ApiError, build_response
from integration.core.ids import parse_id
from integration.settings.api_paths import OWN_API_PATH
from integration.sync.writing import write_log
from integration.web import api_requests

NAME = "api"
MAX_BODY_BYTES = 64 * 1024


def make_blueprint(context: AppContext, places: threading.BoundedSemaphore) -> Blueprint:
    """Create the blueprint `api`. It is exempt from the login check and checks its own credentials.

    `places`: those of requests that stay open (`live/stream`).
    """
    blueprint = Blueprint(NAME, __name__, url_prefix=OWN_API_PATH)
    api = OwnApi(context, EventReaders(places))
    for rule in ("/", "/<path:rest>"):
        # Flask answers OPTIONS and other methods in its own form; here every response is JSON.
        blueprint.add_url_rule(
            rule,
            "respond",
            api.respond,
            methods=[*api_requests.METHODS, "PUT"],
            provide_automatic_options=False,
            strict_slashes=False,
        )
    blueprint.after_request(
        lambda response: api_requests.add_shared_headers(response, context.settings.facade.cors_origins)
    )
    return blueprint


View = Callable[[ApiRequest, bytes], dict[str, Any]]
"""Function from a request and its body to the values of the response."""


class OwnApi:
    """Handler of all requests to the own API."""

    def __init__(self, context: AppContext, event_readers: EventReaders) -> None:
        self._context = context
        self._event_readers = event_readers

    def respond(self, rest: str = "") -> Response:
        """Respond to a request. Every error has the JSON form of the facade."""
        return api_requests.respond(lambda: self._handle(rest.removesuffix("/").split("/")))

    def _handle(self, segments: list[str]) -> Response:
        method, view = self._find_view(segments)
        if request.method == "OPTIONS":
            return build_response(b"", 204, headers={"Allow": _format_allow(method)})
        caller = self._context.authenticator.identify(request)
        if caller.key is None:
            raise ApiError(403, "This API requires a local key (`switchroom key add`).")
        if view is None:
            raise ApiError(404, "There is no resource at this path.")
        if ("GET" if request.method == "HEAD" else request.method) != method:
            raise ApiError(
                405,
                f"The method {request.method} is not allowed at this path.",
                headers={"Allow": _format_allow(method)},
            )
        api_request = ApiRequest(self._context, request, caller)
        if method == "POST":
            return self._respond_once(api_request, view)
        return build_response(orjson.dumps(view(api_request, b"")), headers=api_request.response_headers)

    def _respond_once(self, api_request: ApiRequest, view: View) -> Response:
        """Respond to a POST, at most once for an Idempotency-Key of the client (docs/facade.md)."""
        if not request.is_json:
            # A page of another site cannot send this type without a preflight request.
            raise ApiError(415, "Send the body as JSON, with Content-Type: application/json.")
        request.max_content_length = MAX_BODY_BYTES
        body, key = request.get_data(cache=False), request.headers.get("Idempotency-Key")
        if key is None:
            return build_response(orjson.dumps(view(api_request, body)))
        app_db, who = self._context.app_db, api_request.caller.name
        earlier = write_log.claim_key(app_db, who, key, request.method, request.path, body)
        if earlier is not None:
            return build_response(earlier.body or b"", api_requests.check_repeat(earlier))
        try:
            response_body = orjson.dumps(view(api_request, body))
        except ApiError:
            # Refused, nothing changed. After another error the action may be stored: the key stays claimed.
            write_log.release_key(app_db, who, key)
            raise
        write_log.store_response(app_db, who, key, 200, "application/json", response_body)
        return build_response(response_body)

    def _find_view(self, segments: list[str]) -> tuple[str, View | None]:
        """Return the method and the view of a path, ("GET", None) for an unknown path."""
        number = parse_id(segments[1]) if len(segments) > 1 else None
        match segments:
            case ["calls"]:
                return "GET", lambda api_request, _: calls.list_calls(api_request)
            case ["calls", _] if number is not None:
                return "GET", lambda api_request, _: calls.read_call(api_request, number)
            case ["missed"]:
                return "GET", lambda api_request, _: missed.list_items(api_request)
            case ["missed", _, action] if number is not None and action in missed.ACTIONS:
                return "POST", lambda api_request, body: missed.change_item(api_request, number, action, body)
            case ["events"]:
                return "GET", lambda api_request, _: self._event_readers.list_events(api_request)
            case ["reports", period]:
                return "GET", lambda api_request, _: reports.read_report(api_request, period)
        return "GET", None


def _format_allow(method: str) -> str:
    return "GET, HEAD, OPTIONS" if method == "GET" else f"{method}, OPTIONS"
