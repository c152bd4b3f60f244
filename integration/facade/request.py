"""A facade request, its query parameters, and its key's rights."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import orjson
from flask import Request
from werkzeug.datastructures import MultiDict

from integration.access.authenticator import Caller, check_right
from integration.catalogue import COLLECTIONS, get_resource
from integration.catalogue.field_meanings import is_secret
from integration.catalogue.rows import COLLECTION_QUERY
from integration.catalogue.shapes import Operation
from integration.context import AppContext
from integration.core.api_responses import ApiError
from integration.core.errors import QueryError
from integration.facade.not_found_cache import NotFoundCache
from integration.facade.subcollections import SUBCOLLECTIONS, RelatedRecords, StoredBelow
from integration.mirror.query.positions import Positions
from integration.mirror.sync_state.media_files import MediaKind
from integration.platform_api.paging import encode_path
from integration.platform_api.shared_download import SharedDownload

_CONTENT_SUFFIXES = ("mp3", "wav", "ogg", "trace", "pcap")
"""Suffixes of paths that require the right `recordings`."""

FetchFile = Callable[[MediaKind, int], Path | SharedDownload]
"""Fetches a file by kind and record id. Returns its path in the archive, or the running download.

Raises PlatformError."""


def fold_name(text: str) -> str:
    """Return a name without case and punctuation, to recognise other spellings."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


_COLLECTIONS_BY_FOLDED_NAME = {fold_name(name): name for name in COLLECTIONS}


@dataclass(frozen=True, slots=True)
class FacadeRequest:
    """A facade request.

    `path` is the decoded path below the base path, with a leading slash. `operation` is None for undocumented
    operations. `method` is GET for HEAD requests too.
    """

    context: AppContext
    http_request: Request
    caller: Caller
    method: str
    path: str
    operation: Operation | None
    path_parameters: dict[str, str]
    fetch_file: FetchFile | None
    positions: Positions
    not_found_cache: NotFoundCache

    @property
    def args(self) -> MultiDict[str, str]:
        return self.http_request.args

    @property
    def encoded_path(self) -> str:
        return encode_path(self.path)

    @property
    def query_string(self) -> str:
        return self.http_request.query_string.decode("latin-1")

    @property
    def collections(self) -> tuple[str, ...]:
        """All collections that the path gives access to.

        A key needs access to each of them.
        """
        segments = [segment for segment in self.path.split("?")[0].strip("/").split("/") if segment]
        if "/".join(segments[:2]) in COLLECTIONS and len(segments) > 1:
            return ("/".join(segments[:2]),)
        stems = [segment.partition(".")[0] for segment in segments]
        # Below a record the platform may accept other spellings of a collection, such as CDRS.
        stems[1:] = [_COLLECTIONS_BY_FOLDED_NAME.get(fold_name(stem), stem) for stem in stems[1:]]
        if isinstance(self.subcollection, RelatedRecords):
            stems.append(self.subcollection.target)
        elif self.subcollection is not None and self.subcollection.required_collection is not None:
            stems.append(self.subcollection.required_collection)
        return (
            tuple(dict.fromkeys([stems[0], *(stem for stem in stems if stem in COLLECTIONS)]))
            if stems
            else ()
        )

    @property
    def subcollection(self) -> RelatedRecords | StoredBelow | None:
        """Relation of a path below a record, None for other paths."""
        return SUBCOLLECTIONS.get(self.operation.name) if self.operation is not None else None

    @property
    def client_name(self) -> str | None:
        """Name of a client with platform credentials, None for local keys.

        The platform may show a record to one client and not to another.
        """
        return None if self.caller.credentials is None else self.caller.name

    @property
    def requires_fresh(self) -> bool:
        """True if `Cache-Control: no-cache` applies.

        Keys with a user scope cannot use it, because the platform would return records of all users.
        """
        return "no-cache" in self.http_request.cache_control and self.caller.visibility.user_scope is None


def check_rights(request: FacadeRequest) -> None:
    """Check that a local key has the rights for a request.

    Raises ApiError 403, or QueryError for a filter or sort by a secret field. The platform checks the rights
    of platform credentials.
    """
    key = request.caller.key
    if key is None:
        return
    collections = request.collections
    if collections == ("ping",) or request.path == "/logout":
        return
    if request.method != "GET" and key.scope != "write":
        raise ApiError(
            403, f"The key {key.name!r} has the scope read. Writes need a key with the scope write."
        )
    for collection in (*collections, *_list_includes(request)):
        if not key.can_access(collection):
            raise ApiError(403, f"The key {key.name!r} has no access to the collection {collection}.")
    if _returns_content(request.path):
        check_right(key, "recordings")
    _check_properties(request)
    if key.platform_user_id is not None:
        _check_user_scope(request, collections)


def _returns_content(path: str) -> bool:
    """Return whether a path has audio, traces or packet captures.

    Case is ignored, because the platform may accept other spellings.
    """
    name = path.casefold().rstrip("/").rpartition("/")[2]
    return name == "trace" or name.rpartition(".")[2] in _CONTENT_SUFFIXES


def _list_includes(request: FacadeRequest) -> list[str]:
    """Return the relations requested by `include`."""
    return [
        name for text in request.args.getlist("include") for part in text.split(",") if (name := part.strip())
    ]


def _check_properties(request: FacadeRequest) -> None:
    """Raise QueryError for a filter or sort by a secret field.

    With such filters a client could determine the value of a field that is masked for local keys.
    """
    names = [
        name.lstrip("-") for parameter in ("sort", "group_by") for name in request.args.getlist(parameter)
    ]
    for text in request.args.getlist("filter"):
        try:
            entries = orjson.loads(text)
        except orjson.JSONDecodeError:
            continue
        if isinstance(entries, list):
            names += [str(entry.get("property")) for entry in entries if isinstance(entry, dict)]
    for name in names:
        if is_secret(name):
            raise QueryError(f"Local keys cannot filter, sort or group by {name!r}.")


def _check_user_scope(request: FacadeRequest, collections: tuple[str, ...]) -> None:
    if request.method == "POST" and request.path == "/calls":
        return
    if _is_own_subcollection(request):
        return
    is_documented = request.operation is not None and request.operation.resource is not None
    is_cdr_file = request.operation is not None and request.operation.path == "/users/{id}/cdrs.csv"
    if (
        request.method == "GET"
        and is_cdr_file
        and request.path_parameters["id"] == str(request.caller.visibility.user_scope)
    ):
        return
    is_plain = (
        is_documented
        and request.operation is not None
        and request.operation.response_kind in ("collection", "item", "file")
    )
    is_reachable = len(collections) == 1 and collections[0] in request.caller.visibility.collections
    is_single_resource = (
        is_plain
        and request.operation is not None
        and get_resource(request.operation.resource or "").collection in collections
    )
    has_extra_data = request.path.endswith((".trace", ".pcap")) or "include" in request.args
    if request.method != "GET" or not is_reachable or not is_single_resource or has_extra_data:
        raise ApiError(403, "This key sees only its own user's records.")


def _is_own_subcollection(request: FacadeRequest) -> bool:
    """Return whether the path shows records of the key's own user."""
    subcollection, visibility = request.subcollection, request.caller.visibility
    return (
        isinstance(subcollection, RelatedRecords)
        and subcollection.parent == "users"
        and subcollection.target in visibility.collections
        and request.path_parameters["id"] == str(visibility.user_scope)
        and "include" not in request.args
    )


def list_query_names(operation: Operation) -> tuple[str, ...]:
    """Return the names of the query parameters of an operation.

    The OpenAPI document and the limits of keys use them.
    """
    fields = list(operation.query)
    if operation.response_kind == "dictionary" or operation.name in SUBCOLLECTIONS:
        fields += COLLECTION_QUERY
    names = [field.name for field in fields]
    if operation.can_include:
        for relation in get_resource(operation.resource or "").relations:
            if relation.is_includable:
                names += ["include", f"fields[{relation.name}]"]
    return tuple(dict.fromkeys(names))
