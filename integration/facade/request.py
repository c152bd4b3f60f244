"""One request to the facade, and the rights that go with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import orjson
from flask import Request
from werkzeug.datastructures import MultiDict

from integration.access import user_scope as narrowing
from integration.access.authenticator import Caller
from integration.catalogue import RESOURCES, resource
from integration.catalogue.shapes import Operation
from integration.context import House
from integration.core.api_responses import Stop
from integration.core.errors import QueryError
from integration.mirror.query.page_cache import Shortcuts
from integration.mirror.records.masking import is_secret
from integration.mirror.sync_state.media_files import Kind
from integration.platform_api.shared_download import Arrival

Fetch = Callable[[Kind, int], Path | Arrival]
"""(kind, record id) → the file, complete and kept, or on its way. Raises PlatformError where it can't be
had."""

COLLECTIONS = frozenset(resource.collection for resource in RESOURCES)


@dataclass(frozen=True, slots=True)
class Asked:
    """`path` is below the base path, decoded, with its leading slash; `operation` None where the
    specification doesn't know it; `method` is GET for HEAD too."""

    house: House
    request: Request
    caller: Caller
    method: str
    path: str
    operation: Operation | None
    parameters: dict[str, str]
    fetch: Fetch | None
    shortcuts: Shortcuts

    @property
    def args(self) -> MultiDict[str, str]:
        return self.request.args

    @property
    def target(self) -> str:
        """The path for the platform, encoded: nothing in it can become a query or another path."""
        return quote(self.path, safe="/,+:@")

    @property
    def query(self) -> str:
        return self.request.query_string.decode("latin-1")

    @property
    def collections(self) -> tuple[str, ...]:
        """Every collection this path shows something of: a key must be allowed all of them."""
        parts = [part for part in self.path.split("?")[0].strip("/").split("/") if part]
        if "/".join(parts[:2]) in COLLECTIONS and len(parts) > 1:
            return ("/".join(parts[:2]),)
        stems = [part.partition(".")[0] for part in parts]
        return (
            tuple(dict.fromkeys([stems[0], *(stem for stem in stems if stem in COLLECTIONS)]))
            if stems
            else ()
        )

    @property
    def wants_fresh(self) -> bool:
        """`Cache-Control: no-cache`. A narrowed key can't: the platform would not narrow its answer."""
        return "no-cache" in self.request.cache_control and self.caller.narrowed is None


def check_rights(asked: Asked) -> None:
    """What a local key may not do ends here with 403; the platform decides for its own credentials. Raises
    Stop, QueryError."""
    key = asked.caller.key
    if key is None:
        return
    collections = asked.collections
    if not collections or collections[0].lower() == "apitokens":
        raise Stop(403, "A local key can't reach the platform's API tokens.")
    if collections == ("ping",) or asked.path == "/logout":
        return
    if asked.method != "GET" and key.scope != "write":
        raise Stop(403, f"The key {key.name!r} may only read.")
    for collection in (*collections, *_included(asked)):
        if not key.may_touch(collection):
            raise Stop(403, f"The key {key.name!r} has no right to {collection}.")
    _check_properties(asked)
    if key.platform_user_id is not None:
        _check_narrowed(asked, collections)


def _included(asked: Asked) -> list[str]:
    """Relations that are asked for as well, wherever the answer comes from."""
    return [
        name for text in asked.args.getlist("include") for part in text.split(",") if (name := part.strip())
    ]


def _check_properties(asked: Asked) -> None:
    """What a key may not see it may not filter or sort by: where the platform answers, it would spell the
    value out. Raises QueryError."""
    names = [name.lstrip("-") for used in ("sort", "group_by") for name in asked.args.getlist(used)]
    for text in asked.args.getlist("filter"):
        try:
            entries = orjson.loads(text)
        except orjson.JSONDecodeError:
            continue
        if isinstance(entries, list):
            names += [str(entry.get("property")) for entry in entries if isinstance(entry, dict)]
    for name in names:
        if is_secret(name):
            raise QueryError(f"a local key can't ask about {name!r}")


def _check_narrowed(asked: Asked, collections: tuple[str, ...]) -> None:
    if asked.method == "POST" and asked.path == "/calls":
        return
    known = asked.operation is not None and asked.operation.resource is not None
    own_list = asked.operation is not None and asked.operation.path == "/users/{id}/cdrs.csv"
    if asked.method == "GET" and own_list and asked.parameters["id"] == str(asked.caller.narrowed):
        return
    plain = known and asked.operation is not None and asked.operation.answer in ("collection", "item", "file")
    mine = len(collections) == 1 and narrowing.reachable(collections[0])
    one_kind = (
        plain
        and asked.operation is not None
        and resource(asked.operation.resource or "").collection in collections
    )
    beyond = asked.path.endswith((".trace", ".pcap")) or "include" in asked.args
    if asked.method != "GET" or not mine or not one_kind or beyond:
        raise Stop(403, "This key sees only its own user's records.")
