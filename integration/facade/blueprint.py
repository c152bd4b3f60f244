"""Entry point of the facade: handling of requests below a base path."""

from __future__ import annotations

import logging
import re
import sqlite3
from collections.abc import Iterable
from functools import partial
from urllib.parse import urlsplit

import orjson
from flask import Blueprint, Response, request
from flask.blueprints import BlueprintSetupState
from werkzeug.exceptions import HTTPException
from werkzeug.routing import PathConverter

from integration.access.authenticator import Caller
from integration.catalogue import get_resource, list_methods, match
from integration.catalogue.shapes import Operation
from integration.context import AppContext
from integration.core.api_responses import (
    ApiError,
    build_error_response,
    build_query_error_response,
    build_response,
    to_gateway_error,
)
from integration.core.errors import FilterError, PlatformError, QueryError, StorageError
from integration.facade import (
    compression,
    entity_tags,
    files,
    live_calls,
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
from integration.facade.request import FacadeRequest, FetchFile
from integration.mirror.calls import live_table
from integration.mirror.query.positions import Positions
from integration.sqlite.errors import DAMAGED_MESSAGE, is_damage

log = logging.getLogger(__name__)

NAME = "facade"
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PATCH", "DELETE")
PASS_THROUGH_METHODS = ("GET", "POST", "PATCH", "DELETE")
"""Methods that are passed through for paths that the specification does not list."""
UNEXPECTED_ERROR_MESSAGE = (
    "Switchroom failed on this request because of an internal error; the log of the server has the cause. "
    "Retry a read in a few seconds. Before you retry a write, check whether it was carried out."
)
_FAX_PATH = re.compile(r"/faxes/(?P<id>[0-9]{1,19})\.pdf")
"""Path of a fax file, archived like recordings. The specification lacks it (docs/platform.md#7-resources)."""
_CREDENTIAL_HEADERS = ("Authorization", "X-Auth-Token")
_ENDPOINT = f"{NAME}.respond"
"""Endpoint of all paths of the API."""
_REQUESTED_HEADERS = "Access-Control-Request-Headers"
_EXPOSED_HEADERS = (
    "X-Mirror-Age, X-Mirror-Complete, X-Export-Rows, Content-Range, Accept-Ranges, ETag, Retry-After"
)


class PathBelowBase(PathConverter):
    """Any path below a base path.

    Werkzeug's own converter stops at a line break; such paths would get a response of another form.
    """

    regex = r"(?s:[^/].*?)"


def list_base_paths(context: AppContext) -> tuple[str, ...]:
    """Return the base paths, longest first.

    These are the configured paths, and the path of `platform.base_url` with either version segment.
    """
    paths = {path.rstrip("/") for path in context.settings.facade.base_paths}
    platform_path = urlsplit(str(context.settings.platform.base_url)).path.rstrip("/")
    if platform_path:
        paths.add(platform_path)
        segments = platform_path.split("/")
        for index, segment in enumerate(segments):
            if segment in ("v1.1", "v1.2"):
                paths |= {
                    "/".join([*segments[:index], version, *segments[index + 1 :]])
                    for version in ("v1.1", "v1.2")
                }
    return tuple(sorted((path for path in paths if path), key=lambda path: (-len(path), path)))


def make_blueprint(context: AppContext, fetch_file: FetchFile | None = None) -> Blueprint:
    """Create the blueprint `facade`.

    It is exempt from the login check and checks its own credentials.

    `fetch_file(kind, record_id)` downloads a missing file into the archive.
    """
    blueprint = Blueprint(NAME, __name__)
    facade = Facade(context, fetch_file)
    blueprint.after_request(facade.add_shared_headers)
    blueprint.record(partial(_add_routes, list_base_paths(context), facade))
    reference = Reference(context, list_base_paths(context))
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

    def __init__(self, context: AppContext, fetch_file: FetchFile | None = None) -> None:
        self._context = context
        self._fetch_file = fetch_file
        self._positions = Positions()
        self._not_found_cache = NotFoundCache()
        self.authenticator = context.authenticator

    def respond(self, rest: str = "") -> Response:
        """Respond to a request. Every error has the JSON form of `build_error_response`."""
        try:
            # Clients may send one trailing slash. The specification lists the paths without it.
            response = self._handle("/" + rest.removesuffix("/"))
        except ApiError as api_error:
            response = api_error.to_response()
        except QueryError as error:
            response = build_query_error_response(error)
        except HTTPException as error:
            response = build_error_response(
                error.code or 500, error.description or error.name, headers=_select_error_headers(error)
            )
        except PlatformError as error:
            response = to_gateway_error(error).to_response()
        except StorageError as error:
            response = build_error_response(503, str(error), headers={"Retry-After": "5"})
        except Exception as error:
            if isinstance(error, sqlite3.OperationalError) and str(error) == "interrupted":
                response = build_query_error_response(
                    FilterError(
                        f"The query needs more than {reads.QUERY_TIMEOUT_SECONDS:g} s of CPU time and was"
                        " cancelled. Filter by an indexed property."
                    )
                )
            elif is_damage(error):
                log.error("%s %s: %s", request.method, request.path, error)
                response = build_error_response(503, DAMAGED_MESSAGE, headers={"Retry-After": "60"})
            else:
                log.exception("%s %s failed", request.method, request.path)
                response = build_error_response(500, UNEXPECTED_ERROR_MESSAGE)
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
        if operation is not None and EXPOSURE[operation.name] is Exposure.PUBLIC:
            return forward_public(
                self._build_request(Caller("unauthenticated client"), method, path, operation, parameters),
                self.authenticator,
            )
        caller = self.authenticator.identify(request)
        if caller.is_local:
            policy.check_path(path)
        facade_request = self._build_request(caller, method, path, operation, parameters)
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
            self.authenticator.record_refusal(caller.credentials[1])
        files.audit_content(facade_request, response)
        return entity_tags.complete(facade_request, response)

    def _build_request(
        self, caller: Caller, method: str, path: str, operation: Operation | None, parameters: dict[str, str]
    ) -> FacadeRequest:
        return FacadeRequest(
            self._context,
            request,
            caller,
            method,
            path,
            operation,
            parameters,
            self._fetch_file,
            self._positions,
            self._not_found_cache,
        )

    def _dispatch(self, facade_request: FacadeRequest) -> Response:
        operation = facade_request.operation
        exposure = EXPOSURE[operation.name] if operation else None
        if exposure is Exposure.LOCAL:
            return (
                logout(facade_request, self.authenticator)
                if facade_request.path == "/logout"
                else _respond_ping()
            )
        if facade_request.method != "GET":
            response = writes.write(facade_request)
            revoke_deleted_token(facade_request, response, self.authenticator)
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
            return live_calls.read_live_call(facade_request, target)
        return reads.read_record(facade_request, target)

    def _respond_options(self, path: str) -> Response:
        """Respond to OPTIONS. Preflight requests have no credentials, so none are required."""
        return build_response(b"", 204, headers={"Allow": _format_allow(list_methods(path) or METHODS)})

    def add_shared_headers(self, response: Response) -> Response:
        """Add Cache-Control, Vary, and the CORS headers for `facade.cors_origins`.

        Called for each response at a path of the API, including refusals before `respond`. Caches must not
        store a response without a Cache-Control of its own.
        """
        if request.endpoint != _ENDPOINT:
            return response
        response.headers.setdefault("Cache-Control", "no-store")
        response.vary.update(_CREDENTIAL_HEADERS)
        origins = self._context.settings.facade.cors_origins
        if not origins:
            return response
        response.vary.add("Origin")
        origin = request.headers.get("Origin")
        if origin is None or not (origin in origins or "*" in origins):
            return response
        response.headers["Access-Control-Allow-Origin"] = "*" if "*" in origins else origin
        response.headers["Access-Control-Expose-Headers"] = _EXPOSED_HEADERS
        if request.method == "OPTIONS":
            response.headers["Access-Control-Allow-Methods"] = ", ".join(METHODS)
            # All requested headers: libraries add some, such as X-Requested-With. None changes rights.
            response.vary.add(_REQUESTED_HEADERS)
            if requested := request.headers.get(_REQUESTED_HEADERS):
                response.headers["Access-Control-Allow-Headers"] = requested
            response.headers["Access-Control-Max-Age"] = "600"
        return response


def _format_allow(methods: Iterable[str]) -> str:
    names = list(methods)
    if "GET" in names and "HEAD" not in names:
        names.append("HEAD")
    return ", ".join(dict.fromkeys([*names, "OPTIONS"]))


def _select_error_headers(error: HTTPException) -> dict[str, str]:
    """Return the headers of an error.

    Examples: Content-Range of a 416, Allow of a 405.
    """
    return {name: value for name, value in error.get_headers() if name != "Content-Type"}


def _respond_ping() -> Response:
    """Respond with the documented `message` and the observed `data` (docs/platform.md#2-sign-in)."""
    return build_response(orjson.dumps({"message": "Pong", "data": {"response": "Pong"}}))
