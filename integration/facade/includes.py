"""Parameters `include=users,ddis` and `fields[users]=id,first_name`, served from the mirror."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

import orjson

from integration.catalogue import get_resource
from integration.catalogue.shapes import Relation
from integration.mirror.query.query import Query
from integration.mirror.records import single_record


def include_relations(
    connection: sqlite3.Connection, parsed_query: Query, texts: list[bytes], *, allow_partial: bool
) -> list[bytes] | None:
    """Return the records of `texts` with related objects instead of ids.

    Returns None if the mirror lacks data: a relation that the record does not have, or a field that the
    related records do not have, such as an agent's `status` in a queue. With `allow_partial` such fields are
    null and such relations are unchanged.
    """
    relations = [
        relation
        for relation in parsed_query.resource.relations
        if relation.is_includable and relation.name in parsed_query.include
    ]
    if not relations:
        return texts
    parsed = [orjson.loads(text) for text in texts]
    items = [orjson.loads(text) if text else {} for text in parsed_query.fetch_texts(connection, "_item")]
    for relation in relations:
        if not _include_relation(connection, parsed_query, relation, parsed, items) and not allow_partial:
            return None
    return [orjson.dumps(record) for record in parsed]


def _include_relation(
    connection: sqlite3.Connection,
    parsed_query: Query,
    relation: Relation,
    parsed: list[dict[str, Any]],
    items: list[dict[str, Any]],
) -> bool:
    """Insert the related objects.

    Returns whether the mirror has all requested relations and fields.
    """
    target = get_resource(relation.target_collection)
    requested_fields = parsed_query.fields.get(relation.name)
    member_lists = [
        record.get(relation.name, item.get(relation.name)) for record, item in zip(parsed, items, strict=True)
    ]
    is_complete = all(isinstance(member_list, list) for member_list in member_lists)
    keys = [
        _member_key(member)
        for member_list in member_lists
        if isinstance(member_list, list)
        for member in member_list
    ]
    related_by_key = single_record.fetch_by_key(connection, target, [key for key in keys if key is not None])
    for record, member_list in zip(parsed, member_lists, strict=True):
        if not isinstance(member_list, list):
            continue
        objects = []
        for member in member_list:
            member_fields = member if isinstance(member, dict) else {}
            merged = {
                **related_by_key.get(str(_member_key(member)), {"id": _member_key(member)}),
                **member_fields,
            }
            is_complete = is_complete and all(name in merged for name in requested_fields or ())
            objects.append(_select_fields(merged, requested_fields) if requested_fields else merged)
        record[relation.name] = objects
    return is_complete


def _member_key(member: Any) -> Any:
    return member.get("id") if isinstance(member, dict) else member


def _select_fields(record: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: record.get(name) for name in names}
