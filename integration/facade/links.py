"""`links` of item responses.

They are those that the platform sent, otherwise `self` and the related records. A key with a user scope or
with selected collections gets only the latter, which lead to nothing outside its rights.
"""

from __future__ import annotations

import sqlite3
from typing import Any
from urllib.parse import quote

import orjson
from flask import Response

from integration.catalogue import get_resource
from integration.catalogue.shapes import Relation, Resource
from integration.core.ids import as_id
from integration.core.json_records import find_item, read_record
from integration.facade.request import FacadeRequest
from integration.mirror.records import single_record


def build_links(
    request: FacadeRequest, resource: Resource, record: dict[str, Any], connection: sqlite3.Connection
) -> dict[str, str]:
    """Return the links of a record by name.

    They are paths below the base path of the request. A single relation is named without `_id` (`user_id`:
    `user`) and present only if the mirror has the
    record. A list is a collection filtered by its members. Collections outside the rights of a local key are
    omitted.
    """
    base_path = request.http_request.path.rstrip("/").removesuffix(request.encoded_path.rstrip("/"))
    base_path = base_path.removesuffix(request.path.rstrip("/"))
    links = {"self": base_path + request.encoded_path}
    for relation in resource.relations:
        path = _build_path(relation, record.get(relation.name), connection)
        if path is not None and _can_follow(request, relation):
            links[relation.name.removesuffix("_id")] = base_path + path
    return links


def wrap_record(
    request: FacadeRequest, resource: Resource, text: bytes, sent_links: str | None = None
) -> bytes:
    """Return the body `{data, links}` of a record with the JSON `text`.

    `sent_links`: links that the platform sent with the record, a JSON object.
    """
    if sent_links is not None and not request.is_limited:
        return b'{"data":%b,"links":%b}' % (text, sent_links.encode())
    values = read_record(text.decode()).values
    with request.context.mirror_db.read() as connection:
        record_links = build_links(request, resource, values, connection)
    return b'{"data":%b,"links":%b}' % (text, orjson.dumps(record_links))


def complete_links(request: FacadeRequest, resource: Resource, response: Response) -> Response:
    """Add links to a response of the platform without links.

    Links for a limited key replace those of the platform.
    """
    body = response.get_data()
    item = find_item(body) if response.status_code == 200 else None
    if item is None:
        return response
    envelope = orjson.loads(body)
    if (not item.links or request.is_limited) and envelope.keys() <= {"data", "links"}:
        response.set_data(wrap_record(request, resource, item.text.encode()))
    return response


def _can_follow(request: FacadeRequest, relation: Relation) -> bool:
    """Return whether the client may read the target.

    A key with a user scope gets no links to other records.
    """
    key = request.caller.key
    return key is None or (key.platform_user_id is None and key.can_access(relation.target_collection))


def _build_path(relation: Relation, value: Any, connection: sqlite3.Connection) -> str | None:
    target = get_resource(relation.target_collection)
    if relation.is_list:
        return _build_list_path(relation, target, value)
    key = as_id(value)
    if key is None or not target.item:
        return None
    if target.is_listed and not single_record.fetch_by_key(connection, target, [key]):
        return None
    return f"/{target.collection}/{key}"


def _build_list_path(relation: Relation, target: Resource, value: Any) -> str | None:
    members = [
        member.get(target.key) if isinstance(member, dict) else member
        for member in (value if isinstance(value, list) else ())
    ]
    if not members or any(not isinstance(member, int | str) for member in members):
        return None
    # Numbers are texts; ids are numbers, unless the members are objects.
    is_number = len(relation.reference_fields) > 1 and not any(isinstance(entry, dict) for entry in value)
    has_texts = any(isinstance(member, str) for member in members)
    name = relation.reference_fields[-1] if is_number and has_texts else target.key
    values = [str(member).lstrip("+") for member in members] if name != target.key else members
    condition = [{"property": name, "operator": "in", "value": values}]
    return f"/{target.collection}?filter={quote(orjson.dumps(condition))}"
