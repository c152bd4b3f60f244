"""Entry point of the facade: handling of requests below a base path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial

import orjson
from flask import Blueprint, Response, request
from flask.blueprints import BlueprintSetupState
from werkzeug.routing import PathConverter

from integration.access.authenticator import Caller
from integration.catalogue import get_resource, list_methods, match
from integration.context import AppContext
from integration.core.api_responses import ApiError, build_response
from integration.facade import (
    compression,
    entity_tags,
    files,
    pass_through,
    policy,
    read_through,
    reads,
    subcollection_reads,
    writes,
)
from integration.facade.exposure import EXPOSURE, UNDOCUMENTED_METHODS, Exposure
from integration.facade.login import forward_public, logout, revoke_deleted_token
from integration.facade.not_found_cache import NotFoundCache
from integration.facade.openapi.reference import Reference
from integration.facade.openapi.schemas import Json
from integration.facade.request import FacadeRequest
from integration.mirror.calls import live_table
from integration.mirror.query.positions import Positions
from integration.settings.api_paths import list_base_paths
from integration.web import api_requests

NAME = "facade"
PASS_THROUGH_METHODS = ("GET", "POST", "PATCH", "DELETE")
"""Methods that are passed through for paths that the specification does not list."""
_FAX_PATH = re.compile(r"/faxes/(?P<id>[0-9]{1,19})\.pdf")
"""Path of a fax file, archived like recordings. The specification lacks it (docs/platform.md#7-resources)."""
_ENDPOINT = f"{NAME}.respond"
"""Endpoint of all paths of the API."""


class PathBelowBase(PathConverter):
    """Any path below a base path.

    Werkzeug's own converter stops at a line break; such paths would get a response of another form.
    """

    regex = r"(?s:[^/].*?)"


def make_blueprint(context: AppContext, own_paths: Mapping[str, Json]) -> Blueprint:
    """Create the blueprint `facade`.

    It is exempt from the login check and checks its own credentials. `own_paths`: paths of the own API in the
    OpenAPI document.
    """
    blueprint = Blueprint(NAME, __name__)
    facade = Facade(context)
    blueprint.after_request(facade.add_shared_headers)
    blueprint.record(partial(_add_routes, list_base_paths(context.settings), facade))
    reference = Reference(context, list_base_paths(context.settings), own_paths)
    blueprint.add_url_rule("/openapi.json", view_func=reference.openapi)
    blueprint.add_url_rule("/docs", view_func=reference.page)
    return blueprint


def _add_routes(bases: Iterable[str], facade: Facade, state: BlueprintSetupState) -> None:
    """Add routes for all paths below `bases` and all methods.

    With a list of methods, Flask would respond to a TRACE with an error of another form.
    `Blueprint.add_url_rule` always sets a list of methods, so the rules are added directly.
    """
    routes = state.app.url_map
    routes.converters["facade_rest"] = PathBelowBase
    state.app.view_functions[_ENDPOINT] = facade.respond
    for base in bases:
        for path in (base, f"{base}/", f"{base}/<facade_rest:rest>"):
            routes.add(
                state.app.url_rule_class(path, endpoint=_ENDPOINT, strict_slashes=True, merge_slashes=False)
            )


class Facade:
    """Handler of all facade requests. One instance per application."""

    def __init__(self, context: AppContext) -> None:
        self._context = context
        self._positions = Positions()
        self._not_found_cache = NotFoundCache()

    def respond(self, rest: str = "") -> Response:
        """Respond to a request. Every error has the JSON form of `build_error_response`."""
        # Clients may send one trailing slash. The specification lists the paths without it.
        response = api_requests.respond(lambda: self._handle("/" + rest.removesuffix("/")))
        if self._context.settings.facade.gzip:
            response = compression.compress(request, response)
        return response

    def _handle(self, path: str) -> Response:
        if request.method == "OPTIONS":
            return self._respond_options(path)
        method = "GET" if request.method == "HEAD" else request.method
        segments = path[1:].split("/")
        if path != "/" and (
            any(segment in ("", ".", "..") for segment in segments) or not path.isprintable()
        ):
            raise ApiError(404, "There is no resource at this path.")
        operation_match = match(method, path)
        operation, parameters = operation_match if operation_match else (None, {})
        if fax_match := _FAX_PATH.fullmatch(path):
            parameters = fax_match.groupdict()
        is_public = operation is not None and EXPOSURE[operation.name] is Exposure.PUBLIC
        authenticator = self._context.authenticator
        caller = Caller("unauthenticated client") if is_public else authenticator.identify(request)
        if caller.is_local:
            policy.check_path(path)
        facade_request = FacadeRequest(
            self._context,
            request,
            caller,
            method,
            path,
            operation,
            parameters,
            self._positions,
            self._not_found_cache,
        )
        if is_public:
            return forward_public(facade_request)
        if caller.is_local:
            policy.check_tokens(facade_request)
        if path == "/":
            raise ApiError(404, "There is no resource at this path.")
        allowed_methods = list_methods(path)
        if (
            operation is None
            and (allowed_methods or method not in PASS_THROUGH_METHODS)
            and (method, path.split("/")[1]) not in UNDOCUMENTED_METHODS
        ):
            raise ApiError(
                405,
                f"The method {method} is not allowed at this path.",
                headers={"Allow": _format_allow(allowed_methods or PASS_THROUGH_METHODS)},
            )
        policy.check_request(facade_request)
        response = self._dispatch(facade_request)
        if response.status_code == 401 and caller.credentials is not None:
            authenticator.record_refusal(caller.credentials.secret)
        files.audit_content(facade_request, response)
        return entity_tags.complete(facade_request, response)

    def _dispatch(self, facade_request: FacadeRequest) -> Response:
        operation = facade_request.operation
        exposure = EXPOSURE[operation.name] if operation else None
        if exposure is Exposure.LOCAL:
            return logout(facade_request) if facade_request.path == "/logout" else _respond_ping()
        if facade_request.method != "GET":
            response = writes.write(facade_request)
            revoke_deleted_token(facade_request, response)
            return response
        if not facade_request.caller.can_read_mirror:
            return pass_through.forward(facade_request)
        if operation is None:
            return (
                files.serve_archived(facade_request)
                if facade_request.path_parameters
                else pass_through.forward(facade_request)
            )
        if facade_request.subcollection is not None:
            return subcollection_reads.read(facade_request, facade_request.subcollection)
        if exposure is Exposure.READ_THROUGH:
            return read_through.read_uncollected(facade_request)
        if exposure is Exposure.FILE:
            return (
                files.serve_user_cdrs(facade_request)
                if facade_request.path.endswith(".csv")
                else files.serve_archived(facade_request)
            )
        target = get_resource(operation.resource or "")
        if operation.response_kind == "dictionary":
            return reads.read_dictionary(facade_request, target) or read_through.read_uncollected(
                facade_request
            )
        if operation.response_kind == "collection":
            return reads.read_collection(facade_request, target)
        if target.table == live_table.COLLECTION:
            return reads.read_live_call(facade_request, target)
        return reads.read_record(facade_request, target)

    def _respond_options(self, path: str) -> Response:
        """Respond to OPTIONS. Preflight requests have no credentials, so none are required."""
        return build_response(
            b"", 204, headers={"Allow": _format_allow(list_methods(path) or api_requests.METHODS)}
        )

    def add_shared_headers(self, response: Response) -> Response:
        """Add the headers of each response at a path of the API, including refusals before `respond`."""
        if request.endpoint != _ENDPOINT:
            return response
        return api_requests.add_shared_headers(response, self._context.settings.facade.cors_origins)


def _format_allow(methods: Iterable[str]) -> str:
    names = list(methods)
    if "GET" in names and "HEAD" not in names:
        names.append("HEAD")
    return ", ".join(dict.fromkeys([*names, "OPTIONS"]))


def _respond_ping() -> Response:
    """Respond with the documented `message` and the observed `data` (docs/platform.md#2-sign-in)."""
    return build_response(orjson.dumps({"message": "Pong", "data": {"response": "Pong"}}))
