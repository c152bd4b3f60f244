"""Reads of single live calls.

List and record come from table `calls`, which polls and webhooks keep, and have the same headers.
"""

from __future__ import annotations

from flask import Response

from integration.catalogue.shapes import Resource
from integration.core.api_responses import ApiError
from integration.core.ids import MAX_ID
from integration.facade import read_through
from integration.facade.reads import (
    build_item_response,
    read_new_record,
)
from integration.facade.request import FacadeRequest
from integration.mirror.calls import live_table
from integration.mirror.records import single_record
from integration.mirror.sync_state.collection_state import get_state
from integration.web import api_requests


def read_live_call(request: FacadeRequest, resource: Resource) -> Response:
    """Respond with one live call: `{data, links}`.

    A call whose end is known is 404. Another call that the mirror lacks may have just begun and is read
    through. Until the first poll the list is read through, so its calls are too.
    """
    if request.requires_fresh:
        return read_through.read(request, resource)
    key = int(request.path_parameters["id"])
    not_found_error = ApiError(404, f"There is no {resource.title} {key}.")
    if key > MAX_ID:
        raise not_found_error
    with request.context.mirror_db.read(seconds=api_requests.QUERY_TIMEOUT_SECONDS) as connection:
        state = get_state(connection, resource.collection)
        stored_record = single_record.find_record(connection, resource, key)
        has_ended = live_table.has_ended(connection, key)
    if stored_record is None and has_ended:
        raise not_found_error
    if stored_record is None:
        return read_new_record(request, resource, key, not_found_error)

    def build(allow_partial: bool) -> Response | None:
        if not state.can_serve_reads and not allow_partial:
            return None
        text = stored_record.doc.encode()
        return build_item_response(request, resource, text, state, stored_record.links)

    return read_through.read_if_lacking(build, lambda: read_through.read(request, resource))
