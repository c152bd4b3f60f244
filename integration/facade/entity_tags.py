"""ETags of JSON reads: 304 for a response that the client has.

A page of a large collection gets its tag before its query: the version of the collection, the client's view
and the request decide what the page contains. Every other response gets the hash of its body, so a response
of the platform is always requested before it is compared. Tags are weak, because a proxy may compress the
body.
"""

from __future__ import annotations

import hashlib
import sqlite3

from flask import Request, Response

from integration import __version__
from integration.catalogue import get_resource
from integration.core.api_responses import JSON
from integration.facade.request import FacadeRequest
from integration.mirror.query.page_cache import get_version
from integration.mirror.query.query import Query
from integration.mirror.records.masking import has_secrets

_DIGITS = 24


def compute_page_tag(
    request: FacadeRequest, connection: sqlite3.Connection, query: Query, *, is_masked: bool
) -> str | None:
    """Return the tag of a page, without running its query.

    `query`: with the conditions of the client's view. `is_masked`: secrets are removed from the records. None
    for a collection without a version, and for a page that contains records of other collections.
    """
    version = get_version(connection, "_versions", query)
    if version is None or query.include:
        return None
    parts = (
        __version__,
        # Versions can repeat after a restore or a power cut, and Switchroom is started again then.
        request.tag_seed,
        version,
        request.http_request.path,
        request.query_string,
        query.conditions,
        query.limit,
        is_masked,
    )
    return _hash(repr(parts).encode())


def matches(http_request: Request, tag: str) -> bool:
    """Return whether the client already has the response with `tag`."""
    tags = http_request.if_none_match
    return tags.star_tag or tags.contains_weak(tag)


def build_unchanged_response(tag: str, response: Response) -> Response:
    """Return 304 with the headers of `response`, which has no body."""
    unchanged = Response(status=304, headers=response.headers)
    for name in ("Content-Type", "Content-Length"):
        unchanged.headers.pop(name, None)
    unchanged.set_etag(tag, weak=True)
    return unchanged


def complete(request: FacadeRequest, response: Response) -> Response:
    """Add ETag and Cache-Control to a JSON read; 304 if unchanged.

    Other responses are unchanged: errors, files, and bodies that are still being received.
    """
    is_page = response.status_code == 304 and response.headers.get("ETag", "").startswith("W/")
    is_json = response.status_code == 200 and response.mimetype == JSON and response.is_sequence
    if request.method != "GET" or request.operation is None or not (is_page or is_json):
        return response
    response.headers["Cache-Control"] = "no-store" if _can_have_secrets(request) else "private, no-cache"
    if is_page:
        return response
    tag, is_weak = response.get_etag()
    if tag is None or not is_weak:
        tag = _hash(response.get_data())
        response.set_etag(tag, weak=True)
    return build_unchanged_response(tag, response) if matches(request.http_request, tag) else response


def _can_have_secrets(request: FacadeRequest) -> bool:
    """Return whether a response may contain PINs or passwords.

    No cache may store these. They are masked for local keys.
    """
    if request.caller.is_local:
        return False
    resource_name = request.operation.resource if request.operation else None
    resource = request.subcollection.resource if request.subcollection else None
    if resource is None and resource_name is not None:
        resource = get_resource(resource_name)
    if resource is None or resource.table == "me" or "include" in request.args:
        return True
    return has_secrets(resource)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_DIGITS]
