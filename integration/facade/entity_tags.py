"""ETags of JSON reads: 304 for a response that the client has.

A tag is the hash of the body. Tags are weak, because a proxy may compress the body.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from flask import Response

from integration.catalogue import get_resource
from integration.core.api_responses import JSON
from integration.facade.request import FacadeRequest
from integration.mirror.records.masking import has_secrets

_DIGITS = 24


def complete(request: FacadeRequest, response: Response) -> Response:
    """Add ETag and Cache-Control to a JSON read; 304 if unchanged.

    Other responses are unchanged: errors, files, and bodies that are still being received.
    """
    is_json = response.status_code == 200 and response.mimetype == JSON and response.is_sequence
    if request.method != "GET" or request.operation is None or not is_json:
        return response
    response.headers["Cache-Control"] = "no-store" if _can_have_secrets(request) else "private, no-cache"
    tag = _hash(response.iter_encoded())
    response.set_etag(tag, weak=True)
    known_tags = request.http_request.if_none_match
    if not known_tags.star_tag and not known_tags.contains_weak(tag):
        return response
    unchanged = Response(status=304, headers=response.headers)
    for name in ("Content-Type", "Content-Length"):
        unchanged.headers.pop(name, None)
    return unchanged


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


def _hash(parts: Iterable[bytes]) -> str:
    # The parts of a page of 5,000 CDRs are not joined: a copy of 3 MB takes 2 ms, as long as its hash.
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()[:_DIGITS]
