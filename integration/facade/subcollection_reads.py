"""Reads of the paths below a record from the mirror (facade/subcollections.py)."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

from flask import Response

from integration.access import user_scope
from integration.catalogue import get_resource
from integration.core.api_responses import ApiError, build_response
from integration.core.ids import MAX_ID
from integration.core.json_records import JsonRecord, read_record
from integration.facade import read_through, reads
from integration.facade.request import FacadeRequest
from integration.facade.subcollections import RelatedRecords, StoredBelow
from integration.mirror.query import record_array
from integration.mirror.query.query import Query
from integration.mirror.records import single_record, subresources
from integration.mirror.records.masking import mask_json
from integration.mirror.records.subresources import StoredSubresource
from integration.mirror.sync_state.collection_state import State, get_state
from integration.web import api_requests


def read(request: FacadeRequest, subcollection: RelatedRecords | StoredBelow) -> Response:
    """Respond with the records below a record: `{data: [...], total}`.

    Raises ApiError 404 for a parent that is unknown in a complete collection. What the mirror lacks is read
    through.
    """
    if int(request.path_parameters["id"]) > MAX_ID:
        raise _parent_not_found(request, subcollection)
    if isinstance(subcollection, StoredBelow):
        return _read_stored(request, subcollection)
    return _read_related(request, subcollection)


def _read_related(request: FacadeRequest, subcollection: RelatedRecords) -> Response:
    resource = subcollection.resource
    parsed_query = reads.parse_query(request, resource)
    is_limited = request.caller.visibility.user_scope is not None
    if request.requires_fresh:
        return read_through.read_uncollected(request)

    def build(allow_partial: bool) -> Response | None:
        with request.context.mirror_db.read(seconds=api_requests.QUERY_TIMEOUT_SECONDS) as connection:
            if is_limited:
                user_scope.check_mirrored(connection, resource)
            is_parent_known = _check_parent(request, subcollection, connection)
            state = get_state(connection, resource.collection)
            has_part = allow_partial and not single_record.is_empty(connection, resource)
            if is_limited or (is_parent_known and (state.can_serve_reads or has_part)):
                return _build_related_page(request, subcollection, parsed_query, connection, state)
            return None

    return read_through.read_if_lacking(build, lambda: _read_through(request, subcollection))


def _read_through(request: FacadeRequest, subcollection: RelatedRecords | StoredBelow) -> Response:
    """Forward the request.

    A 404 of the platform is cached like that of a record. Raises ApiError 404, and 502 or 504 without a
    response, present or cached.
    """
    return read_through.read_unless_missing(
        request,
        (request.path, request.client_name),
        _parent_not_found(request, subcollection),
        lambda: read_through.read_uncollected(request),
    )


def _build_related_page(
    request: FacadeRequest,
    subcollection: RelatedRecords,
    parsed_query: Query,
    connection: sqlite3.Connection,
    state: State,
) -> Response:
    conditions = subcollection.build_conditions(
        connection, request.context.phone_numbers, request.path_parameters
    )
    restricted_query = parsed_query.with_conditions(*conditions)
    page = reads.build_page(request, restricted_query, connection, state, allow_partial=True)
    assert page is not None  # allow_partial
    return page


def _check_parent(
    request: FacadeRequest, subcollection: RelatedRecords | StoredBelow, connection: sqlite3.Connection
) -> bool:
    """Return whether the mirror has the record in the path.

    Raises ApiError 404 if the record is unknown in a complete collection, unless its key is above all stored
    keys. An ended call is known by its CDRs and recordings.
    """
    parent = get_resource(subcollection.parent)
    key = int(request.path_parameters["id"])
    stored_record = single_record.find_record(connection, parent, key)
    if stored_record is not None and not stored_record.is_missing:
        return True
    if parent.collection == "calls":
        return any(
            single_record.find_record(connection, get_resource(name), key, key_field="live_id") is not None
            for name in ("cdrs", "monitors")
        )
    is_complete = get_state(connection, parent.collection).is_complete
    can_be_new = stored_record is None and single_record.is_above_highest(connection, parent, key)
    if is_complete and not can_be_new:
        raise _parent_not_found(request, subcollection)
    return False


def _parent_not_found(request: FacadeRequest, subcollection: RelatedRecords | StoredBelow) -> ApiError:
    title = get_resource(subcollection.parent).title
    return ApiError(404, f"There is no {title} {request.path_parameters['id']}.")


# --- records stored with their parent ----------------------------------------------------------------


def _read_stored(request: FacadeRequest, subcollection: StoredBelow) -> Response:
    parsed_query = reads.parse_query(request, subcollection.resource)
    if request.requires_fresh:
        return read_through.read_below(request, subcollection)
    with request.context.mirror_db.read() as connection:
        is_parent_known = _check_parent(request, subcollection, connection)
        key = int(request.path_parameters["id"])
        stored = subresources.find(connection, subcollection.parent, key, subcollection.name)
        count = _find_count(request, subcollection, connection)
        state = get_state(connection, subcollection.parent)
    if not is_parent_known:
        return _read_through(request, subcollection)
    records = None if stored is None or stored.doc is None else subresources.split_doc(stored.doc)

    def build(allow_partial: bool) -> Response | None:
        if stored is not None and records is not None and (allow_partial or count in (None, len(records))):
            return _build_stored_page(request, parsed_query, stored, records, is_complete=not allow_partial)
        if stored is not None and allow_partial:
            # The platform had none at the last read.
            raise _parent_not_found(request, subcollection)
        if count == 0 and allow_partial:
            return build_response(b'{"data":[],"total":0}', headers=reads.build_mirror_headers(state))
        return None

    return read_through.read_if_lacking(build, lambda: read_through.read_below(request, subcollection))


def _find_count(
    request: FacadeRequest, subcollection: StoredBelow, connection: sqlite3.Connection
) -> int | None:
    """Return the number of records that the parent has, None if unknown."""
    if subcollection.count_field is None:
        return None
    parent, key = get_resource(subcollection.parent), int(request.path_parameters["id"])
    record = single_record.fetch_by_key(connection, parent, [key]).get(str(key), {})
    count = record.get(subcollection.count_field)
    return count if isinstance(count, int) else None


def _build_stored_page(
    request: FacadeRequest,
    parsed_query: Query,
    stored: StoredSubresource,
    records: list[JsonRecord],
    *,
    is_complete: bool = True,
) -> Response:
    """Build the response in the platform's form: page or record."""
    age_state = State(
        parsed_query.resource.collection,
        complete_at=stored.read_at if is_complete else None,
        last_success_at=stored.read_at,
    )
    headers = reads.build_mirror_headers(age_state)
    if stored.doc is not None and stored.doc.startswith("{"):
        text = read_record(stored.doc).text.encode()
        text = mask_json(text) if request.caller.is_local else text
        return build_response(b'{"data":%b,"links":{}}' % text, headers=headers)
    texts, total = record_array.fetch_page(
        replace(parsed_query, include=()), records, api_requests.QUERY_TIMEOUT_SECONDS
    )
    data = b",".join(map(mask_json, texts) if request.caller.is_local else texts)
    return build_response(b'{"data":[%b],"total":%d}' % (data, total), headers=headers)
