"""A facade request."""

from __future__ import annotations

import re
from dataclasses import dataclass

from flask import Request
from werkzeug.datastructures import MultiDict

from integration.access.authenticator import Caller
from integration.catalogue import COLLECTIONS
from integration.catalogue.shapes import Operation
from integration.context import AppContext
from integration.facade.not_found_cache import NotFoundCache
from integration.facade.subcollections import SUBCOLLECTIONS, RelatedRecords, StoredBelow
from integration.mirror.query.positions import Positions
from integration.platform_api.paging import encode_path


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
    def is_limited(self) -> bool:
        """True for a key that is limited to a user or to collections."""
        key = self.caller.key
        return key is not None and (key.platform_user_id is not None or key.collections is not None)

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
