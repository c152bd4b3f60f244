"""The facade's one door: every request below a base path comes through `Facade.answer`."""

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
from werkzeug.routing import PathConverter, Rule

from integration.access.authenticator import Caller, Gatekeeper
from integration.catalogue import match, methods_for, resource
from integration.catalogue.shapes import Operation
from integration.context import House
from integration.core.api_responses import Stop, failure, no_answer, whole
from integration.core.errors import PlatformError, QueryError, StorageError
from integration.facade import files, reads, writes
from integration.facade import pass_through as passing
from integration.facade import read_through_cache as lasting
from integration.facade.exposure import BEYOND, EXPOSURE, Exposure
from integration.facade.login import logout, public, token_deleted
from integration.facade.reference import Reference
from integration.facade.request import Asked, Fetch, check_rights
from integration.mirror.query.page_cache import Shortcuts

log = logging.getLogger(__name__)

NAME = "facade"
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PATCH", "DELETE")
PASSED_ON = ("GET", "POST", "PATCH", "DELETE")
"""What the platform may know of a path that the specification doesn't list."""
_FAX = re.compile(r"/faxes/(?P<id>[0-9]{1,19})\.pdf")
"""Archived like recordings, though the specification lacks its path (observed.md §7)."""
_ALLOWED_HEADERS = "Authorization, Content-Type, X-Auth-Token, Cache-Control, Idempotency-Key, Range"
_EXPOSED_HEADERS = (
    "X-Mirror-Age, X-Mirror-Complete, X-Export-Rows, Content-Range, Accept-Ranges, ETag, Retry-After"
)


class Rest(PathConverter):
    """Everything below a base path. Werkzeug's own stops at a line break, and something else would answer."""

    regex = r"(?s:[^/].*?)"


def base_paths(house: House) -> tuple[str, ...]:
    """Where the facade answers, the longest first: as configured, and at the path of platform.base_url with
    either version segment."""
    found = {path.rstrip("/") for path in house.settings.facade.base_paths}
    own = urlsplit(str(house.settings.platform.base_url)).path.rstrip("/")
    if own:
        found.add(own)
        segments = own.split("/")
        for at, segment in enumerate(segments):
            if segment in ("v1.1", "v1.2"):
                found |= {
                    "/".join([*segments[:at], version, *segments[at + 1 :]]) for version in ("v1.1", "v1.2")
                }
    return tuple(sorted((path for path in found if path), key=lambda path: (-len(path), path)))


def make_blueprint(house: House, fetch: Fetch | None = None) -> Blueprint:
    """The facade as a blueprint called `facade`, open to the guard: it has credentials of its own.

    `fetch(kind, record_id)` brings a missing file into the archive.
    """
    blueprint = Blueprint(NAME, __name__)
    facade = Facade(house, fetch)
    blueprint.record(partial(_route, base_paths(house), facade))
    reference = Reference(base_paths(house), house.settings.facade.max_limit)
    blueprint.add_url_rule("/openapi.json", view_func=reference.openapi)
    blueprint.add_url_rule("/docs", view_func=reference.page)
    return blueprint


def _route(bases: Iterable[str], facade: Facade, state: BlueprintSetupState) -> None:
    """Every path below `bases`, by every method there is: a rule that names its methods would leave the
    answer to a TRACE to Flask, in another shape. `Blueprint.add_url_rule` knows no such rule."""
    routes = state.app.url_map
    routes.converters["facade_rest"] = Rest
    endpoint = f"{NAME}.answer"
    state.app.view_functions[endpoint] = facade.answer
    for base in bases:
        for path in (base, f"{base}/", f"{base}/<facade_rest:rest>"):
            routes.add(Rule(path, endpoint=endpoint, strict_slashes=True, merge_slashes=False))


class Facade:
    """What stands behind the routes. One per application."""

    def __init__(self, house: House, fetch: Fetch | None = None) -> None:
        self._house = house
        self._fetch = fetch
        self._shortcuts = Shortcuts()
        self.gatekeeper = Gatekeeper(house)

    def answer(self, rest: str = "") -> Response:
        """Every request: answered, or refused in the one shape of errors."""
        try:
            response = self._answer("/" + rest)
        except Stop as stop:
            response = stop.response()
        except QueryError as error:
            response = failure(400, str(error))
        except HTTPException as error:
            response = failure(error.code or 500, error.description or error.name, headers=_told(error))
        except PlatformError as error:
            response = no_answer(error).response()
        except StorageError as error:
            response = failure(503, str(error), headers={"Retry-After": "5"})
        except sqlite3.OperationalError as error:
            if str(error) != "interrupted":
                log.exception("%s %s failed", request.method, request.path)
                response = failure(500, "Something went wrong here; the log says what.")
            else:
                response = failure(400, "This query takes too long; filter on an indexed property.")
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            response = failure(500, "Something went wrong here; the log says what.")
        return self._for_browsers(response)

    def _answer(self, path: str) -> Response:
        if request.method == "OPTIONS":
            return self._options(path)
        method = "GET" if request.method == "HEAD" else request.method
        parts = path[1:].split("/")
        if path != "/" and (any(part in ("", ".", "..") for part in parts) or not path.isprintable()):
            raise Stop(404, "There is nothing at this path.")
        found = match(method, path)
        operation, parameters = found if found else (None, {})
        if fax := _FAX.fullmatch(path):
            parameters = fax.groupdict()
        if operation is not None and EXPOSURE[operation.name] is Exposure.PUBLIC:
            return public(self._asked(Caller("nobody"), method, path, operation, parameters), self.gatekeeper)
        caller = self.gatekeeper.identify(request)
        asked = self._asked(caller, method, path, operation, parameters)
        if path == "/":
            raise Stop(404, "There is nothing at this path.")
        taken = methods_for(path)
        if (
            operation is None
            and (taken or method not in PASSED_ON)
            and (method, path.split("/")[1]) not in BEYOND
        ):
            raise Stop(405, f"{method} is not allowed here.", headers={"Allow": _allow(taken or PASSED_ON)})
        check_rights(asked)
        return self._dispatch(asked)

    def _asked(
        self, caller: Caller, method: str, path: str, operation: Operation | None, parameters: dict[str, str]
    ) -> Asked:
        return Asked(
            self._house,
            request,
            caller,
            method,
            path,
            operation,
            parameters,
            self._fetch,
            self._shortcuts,
        )

    def _dispatch(self, asked: Asked) -> Response:
        operation = asked.operation
        exposure = EXPOSURE[operation.name] if operation else None
        if exposure is Exposure.LOCAL:
            return logout(asked, self.gatekeeper) if asked.path == "/logout" else _ping()
        if asked.method != "GET":
            response = writes.write(asked)
            token_deleted(asked, response, self.gatekeeper)
            return response
        if not asked.caller.from_mirror:
            return passing.through(asked)
        if operation is None:
            return files.archived(asked) if asked.parameters else passing.through(asked)
        if exposure is Exposure.READ_THROUGH:
            return lasting.read(asked)
        if exposure is Exposure.FILE:
            return files.user_cdrs(asked) if asked.path.endswith(".csv") else files.archived(asked)
        target = resource(operation.resource or "")
        if operation.answer == "dictionary":
            return reads.dictionary(asked, target) or lasting.read(asked)
        if operation.answer == "collection":
            return reads.collection(asked, target)
        return reads.item(asked, target)

    def _options(self, path: str) -> Response:
        """Preflights carry no credentials, so neither does this answer need any."""
        return whole(b"", 204, headers={"Allow": _allow(methods_for(path) or METHODS)})

    def _for_browsers(self, response: Response) -> Response:
        """CORS as configured (facade.cors_origins). No cache on the way may keep an answer."""
        response.headers.setdefault("Cache-Control", "no-store")
        origins = self._house.settings.facade.cors_origins
        if not origins:
            return response
        response.headers.add("Vary", "Origin")
        origin = request.headers.get("Origin")
        if origin is None or not (origin in origins or "*" in origins):
            return response
        response.headers["Access-Control-Allow-Origin"] = "*" if "*" in origins else origin
        response.headers["Access-Control-Expose-Headers"] = _EXPOSED_HEADERS
        if request.method == "OPTIONS":
            response.headers["Access-Control-Allow-Methods"] = ", ".join(METHODS)
            response.headers["Access-Control-Allow-Headers"] = _ALLOWED_HEADERS
            response.headers["Access-Control-Max-Age"] = "600"
        return response


def _allow(methods: Iterable[str]) -> str:
    found = list(methods)
    if "GET" in found and "HEAD" not in found:
        found.append("HEAD")
    return ", ".join(dict.fromkeys([*found, "OPTIONS"]))


def _told(error: HTTPException) -> dict[str, str]:
    """What an error says in headers: the Content-Range of a 416, the Allow of a 405."""
    return {name: value for name, value in error.get_headers() if name != "Content-Type"}


def _ping() -> Response:
    """Both forms: the specification's `message` and the observed `data` (observed.md §2)."""
    return whole(orjson.dumps({"message": "Pong", "data": {"response": "Pong"}}))
