"""Reads of collections and records from the mirror."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import replace

import orjson
from flask import Response

from integration.access import user_scope
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.api_responses import ApiError, build_response
from integration.core.ids import MAX_ID
from integration.core.json_records import find_item
from integration.facade import includes, links, pass_through, read_through
from integration.facade.request import FacadeRequest
from integration.mirror.calls import live_table
from integration.mirror.query import browse, query
from integration.mirror.query.filters import Condition
from integration.mirror.query.query import Query
from integration.mirror.records import item_forms, schema_drift, single_record
from integration.mirror.records.masking import mask_json
from integration.mirror.records.single_record import StoredRecord
from integration.mirror.sync_state.collection_state import State, get_state, list_keys
from integration.web import api_requests


def read_collection(request: FacadeRequest, resource: Resource) -> Response:
    """Respond with a page of a collection: `{data: [...], total}`.

    A collection that was never synced completely is read through. If the platform then does not respond, the
    records in the mirror are returned.
    """
    parsed_query = parse_query(request, resource)
    if request.requires_fresh:
        return read_through.read(request, resource)
    is_limited = request.caller.visibility.user_scope is not None

    def build(allow_partial: bool) -> Response | None:
        with request.context.mirror_db.read(seconds=api_requests.QUERY_TIMEOUT_SECONDS) as connection:
            state = get_state(connection, resource.collection)
            if is_limited:
                user_scope.check_mirrored(connection, resource)
            has_part = allow_partial and not single_record.is_empty(connection, resource)
            if state.can_serve_reads or is_limited or has_part:
                return build_page(request, parsed_query, connection, state, allow_partial=allow_partial)
            return None

    return read_through.read_if_lacking(build, lambda: read_through.read(request, resource))


def read_dictionary(request: FacadeRequest, resource: Resource) -> Response | None:
    """Respond with a dictionary in the form that was received, list or object.

    Returns None if the form is not known. Mirrors of earlier versions lack it until the next sync; several
    records were a list, because an object is mirrored as one record.
    """
    parsed_query = parse_query(request, resource)
    if request.requires_fresh:
        return None
    with request.context.mirror_db.read(seconds=api_requests.QUERY_TIMEOUT_SECONDS) as connection:
        state = get_state(connection, resource.collection)
        if not state.is_complete or (state.form is None and Query(resource).count_matches(connection) < 2):
            return None
        return build_page(request, parsed_query, connection, state)


def read_record(request: FacadeRequest, resource: Resource) -> Response:
    """Respond with one record: `{data, links}`.

    A record unknown in a complete collection is 404, unless its key is above all stored keys. A record whose
    own path can return more than the mirror has is read through.
    """
    if resource.table == "me":
        return read_me(request, resource)
    key_field, key = _parse_key(request, resource)
    if request.requires_fresh:
        return read_through.read(request, resource)
    if request.caller.visibility.user_scope is not None and not is_own_record(request, resource, key):
        return _read_unknown_to_user(request, resource, key)
    with request.context.mirror_db.read(seconds=api_requests.QUERY_TIMEOUT_SECONDS) as connection:
        state = get_state(connection, resource.collection)
        stored_record = single_record.find_record(connection, resource, key, key_field=key_field)
        is_item_unread = stored_record is not None and item_forms.is_unread(
            connection, resource, stored_record
        )
        can_be_new = stored_record is None and single_record.is_above_highest(connection, resource, key)
    if state.is_complete and (stored_record is None or stored_record.is_missing):
        not_found_error = ApiError(404, f"There is no {resource.title} {key}.")
        if can_be_new:
            return read_new_record(request, resource, key, not_found_error)
        raise not_found_error

    def build(allow_partial: bool) -> Response | None:
        if stored_record is None or stored_record.is_missing or (is_item_unread and not allow_partial):
            return None
        return _build_record_response(
            request, resource, stored_record, state, key, allow_partial=allow_partial
        )

    response = read_through.read_if_lacking(build, lambda: read_through.read(request, resource))
    check_user_scope(request, resource, key)
    return response


def read_live_call(request: FacadeRequest, resource: Resource) -> Response:
    """Respond with one live call: `{data, links}`, with the headers of the list.

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


def _read_unknown_to_user(request: FacadeRequest, resource: Resource, key: int | str) -> Response:
    """Read a record that is not known as the user's own.

    A record of another user must look like one that does not exist, in response and time. Both are requested
    from the platform if the key is above all of the user's own, and both are 404 otherwise. Raises ApiError
    404, and 502 or 504 without a response.
    """
    not_found_error = ApiError(404, f"There is no {resource.title} {key}.")
    with request.context.mirror_db.read(seconds=api_requests.QUERY_TIMEOUT_SECONDS) as connection:
        own_records = request.caller.visibility.restrict_query(connection, Query(resource))
        is_complete = get_state(connection, resource.collection).is_complete
        highest_key = own_records.find_highest_key(connection)
    can_be_new = highest_key is None or (isinstance(key, int) and key > highest_key)
    if is_complete and not can_be_new:
        raise not_found_error

    def read_own() -> Response:
        response = read_through.read(request, resource)
        is_own = response.status_code == 200 and is_own_record(request, resource, key)
        return response if is_own else not_found_error.to_response()

    cache_key = (request.path, request.caller.name)
    return read_through.read_unless_missing(request, cache_key, not_found_error, read_own)


def read_new_record(
    request: FacadeRequest, resource: Resource, key: int | str, not_found_error: ApiError
) -> Response:
    """Read a record through that may be newer than the mirror.

    A 404 of the platform is passed on and cached. Raises `not_found_error` for a cached 404, and ApiError 502
    or 504 without a response.
    """

    def read_stored_or_new() -> Response:
        with request.context.mirror_db.read(seconds=api_requests.QUERY_TIMEOUT_SECONDS) as connection:
            state = get_state(connection, resource.collection)
            stored_record = single_record.find_record(connection, resource, key)
        if stored_record is not None:
            mirror_response = _build_record_response(request, resource, stored_record, state, key)
            if mirror_response is not None:
                return mirror_response
        return read_through.read(request, resource)

    cache_key = (f"/{resource.collection}/{key}", request.client_name)
    response = read_through.read_unless_missing(request, cache_key, not_found_error, read_stored_or_new)
    if response.status_code != 404:
        check_user_scope(request, resource, key)
    return response


def read_me(request: FacadeRequest, resource: Resource) -> Response:
    """Respond to `GET /me`: passed through for platform credentials.

    A local key gets the `/me` of the configured account, masked and without `sip_*` fields.
    """
    if not request.caller.is_local:
        return pass_through.relay_response(request, pass_through.fetch(request))
    if request.caller.visibility.user_scope is not None:
        raise ApiError(403, "This key sees only its own user's records.")
    with request.context.mirror_db.read() as connection:
        row = browse.find_single_record(connection, resource)
        state = get_state(connection, resource.collection)
    if row is not None and not request.requires_fresh:
        headers = build_mirror_headers(replace(state, last_success_at=row["_last_seen"]))
        return build_response(
            links.wrap_record(request, resource, _hide_credentials(row["_doc"].encode())), headers=headers
        )
    requested_at = clock.utc_text()
    platform_response = pass_through.fetch(request)
    if platform_response.status != 200:
        return pass_through.relay_response(request, platform_response)
    read_through.store(request, resource, platform_response.body, requested_at)
    record = find_item(platform_response.body)
    if record is None:
        raise ApiError(502, "The platform returned an invalid response to GET /me. Try again later.")
    return build_response(links.wrap_record(request, resource, _hide_credentials(record.text.encode())))


def parse_query(request: FacadeRequest, resource: Resource) -> Query:
    """Parse the query parameters of a request for records of `resource`.

    Raises QueryError.
    """
    return query.parse(
        resource,
        request.args,
        max_limit=request.context.settings.facade.max_limit,
        hidden_fields=request.caller.visibility.hidden_fields(resource)
        if request.caller.is_local
        else frozenset(),
    )


def build_page(
    request: FacadeRequest,
    parsed_query: Query,
    connection: sqlite3.Connection,
    state: State,
    *,
    allow_partial: bool = False,
) -> Response | None:
    """Build a page from the mirror.

    Returns None if the mirror lacks data of an included relation, or an object in place of a list. With
    `allow_partial` the page contains the part that the mirror has.
    """
    if state.form in ("object", "bare"):
        return _build_object(request, parsed_query.resource, connection, state)
    parsed_query = request.caller.visibility.restrict_query(connection, parsed_query)
    needs_masking = request.caller.is_local and (
        parsed_query.include or schema_drift.may_contain_secrets(connection, parsed_query.resource)
    )
    is_partial = False
    if _uses_item_fields(parsed_query):
        is_partial = bool(list_keys(connection, parsed_query.resource, without_item=True))
        state = _merge_item_age(connection, parsed_query.resource, state)
    is_joined = not parsed_query.include and not needs_masking
    texts, total = parsed_query.fetch_page(connection, request.positions, is_joined=is_joined)
    if parsed_query.include:
        texts, is_complete = includes.include_relations(connection, parsed_query, texts)
        if not is_complete and not allow_partial:
            return None
        is_partial = is_partial or not is_complete
        state = _merge_related_states(connection, parsed_query, state)
    data = b",".join(map(mask_json, texts) if needs_masking else texts)
    body = b'{"data":[', data, b'],"total":%d}' % total
    return build_response(body, headers=build_mirror_headers(state, is_partial=is_partial))


def _uses_item_fields(parsed_query: Query) -> bool:
    """Return whether the query uses a documented field that only records' own paths return."""
    names = {parsed_query.sort, parsed_query.group_by}
    names |= {condition.property for condition in parsed_query.conditions if isinstance(condition, Condition)}
    return any(field.item_only and field.name in names for field in parsed_query.resource.fields)


def _merge_item_age(connection: sqlite3.Connection, resource: Resource, state: State) -> State:
    """Return the state with the age of the oldest item form, which syncs of the list do not renew."""
    read_times = (state.last_success_at, item_forms.find_oldest_read(connection, resource))
    return replace(state, last_success_at=min(filter(None, read_times), default=None))


def _build_object(
    request: FacadeRequest, resource: Resource, connection: sqlite3.Connection, state: State
) -> Response | None:
    """Build a response that the platform sent as an object in place of a list.

    Returns None if an erasure removed the object.
    """
    texts = Query(resource).fetch_texts(connection)
    if not texts:
        return None
    text = mask_json(texts[0]) if request.caller.is_local else texts[0]
    if state.form == "object":
        text = b'{"data":%b,"links":%b}' % (
            text,
            orjson.dumps(links.build_links(request, resource, {}, connection)),
        )
    return build_response(text, headers=build_mirror_headers(state))


def _merge_related_states(connection: sqlite3.Connection, parsed_query: Query, state: State) -> State:
    """Return the state of a page with included records.

    The members of a relation can come from item forms.
    """
    for relation in parsed_query.resource.relations:
        if relation.is_includable and relation.name in parsed_query.include:
            related = get_state(connection, relation.target_collection)
            read_times = (state.last_success_at, related.last_success_at)
            state = replace(
                state,
                complete_at=state.complete_at and related.complete_at,
                last_success_at=min(filter(None, read_times), default=None),
            )
            state = _merge_item_age(connection, parsed_query.resource, state)
    return state


def _build_record_response(
    request: FacadeRequest,
    resource: Resource,
    stored_record: StoredRecord,
    state: State,
    key: int | str,
    *,
    allow_partial: bool = False,
) -> Response | None:
    """Respond with a mirrored record.

    Returns None if the mirror lacks data of an included relation. With `allow_partial` the response has what
    the mirror has, and the header of an incomplete one.
    """
    check_user_scope(request, resource, key)
    text = (stored_record.item or stored_record.doc).encode()
    state = replace(state, last_success_at=_find_read_time(stored_record, state))
    if include_query := _parse_include(request, resource, key):
        with request.context.mirror_db.read(seconds=api_requests.QUERY_TIMEOUT_SECONDS) as connection:
            (text,), is_complete = includes.include_relations(connection, include_query, [text])
            state = _merge_related_states(connection, include_query, state)
        if not is_complete and not allow_partial:
            return None
    return build_item_response(request, resource, text, state, stored_record.links, is_partial=allow_partial)


def build_item_response(
    request: FacadeRequest,
    resource: Resource,
    text: bytes,
    state: State,
    sent_links: str | None,
    *,
    is_partial: bool = False,
) -> Response:
    """Respond with the text of a record, masked for local keys."""
    if request.caller.is_local:
        text = mask_json(text)
    return build_response(
        links.wrap_record(request, resource, text, sent_links),
        headers=build_mirror_headers(state, is_partial=is_partial),
    )


def _find_read_time(stored_record: StoredRecord, state: State) -> str:
    """Return when the text of the response was read (UTC text)."""
    if stored_record.item is not None:
        # Syncs of the list do not renew the fields that only the record's own path returns.
        return stored_record.item_read_at or stored_record.last_seen
    if state.is_complete:
        return max(stored_record.last_seen, state.last_success_at or "")
    return stored_record.last_seen


def _parse_include(request: FacadeRequest, resource: Resource, key: int | str) -> Query | None:
    """Return the query for the record and its included relations.

    Returns None without such relations.
    """
    args = {
        name: value for name, value in request.args.items() if name == "include" or name.startswith("fields[")
    }
    parsed_query = query.parse(resource, args)
    if not includes.list_relations(resource, parsed_query.include):
        return None
    return parsed_query.with_conditions(Condition(resource.key or "id", "eq", key))


def check_user_scope(request: FacadeRequest, resource: Resource, key: int | str) -> None:
    """Raise ApiError 404 if the record is outside the key's user scope."""
    if request.caller.visibility.user_scope is not None and not is_own_record(request, resource, key):
        raise ApiError(404, f"There is no {resource.title} {key}.")


def is_own_record(request: FacadeRequest, resource: Resource, key: int | str) -> bool:
    """Return whether the mirror has the record within the key's user scope."""
    record_query = Query(resource, (Condition(resource.key or "id", "eq", key),))
    with request.context.mirror_db.read(seconds=api_requests.QUERY_TIMEOUT_SECONDS) as connection:
        own_record_query = request.caller.visibility.restrict_query(connection, record_query)
        return own_record_query.count_matches(connection) > 0


def _parse_key(request: FacadeRequest, resource: Resource) -> tuple[str | None, int | str]:
    """Return key field and key of the record in the path.

    The field is None for the default key field.
    """
    if "e164" in request.path_parameters:
        return "e164", request.path_parameters["e164"].lstrip("+")
    value = int(request.path_parameters["id"])
    if value > MAX_ID:
        raise ApiError(404, f"There is no {resource.title} {value}.")
    return None, value


def build_mirror_headers(state: State, *, is_partial: bool = False) -> Mapping[str, str]:
    """Return the headers X-Mirror-Complete and X-Mirror-Age (seconds).

    `is_partial`: the mirror lacks fields of the response.
    """
    headers = {"X-Mirror-Complete": "true" if state.is_current and not is_partial else "false"}
    moment = clock.parse_utc(state.updated_at)
    if moment is not None:
        headers["X-Mirror-Age"] = str(max(0, int((clock.now() - moment).total_seconds())))
    return headers


def _hide_credentials(text: bytes) -> bytes:
    record = orjson.loads(text)
    without_sip = {name: value for name, value in record.items() if not name.startswith("sip_")}
    return mask_json(orjson.dumps(without_sip))
