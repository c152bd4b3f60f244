"""`include=users,ddis` and `fields[users]=id,first_name` on ring groups and queues, from the mirror."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

import orjson

from integration.catalogue import resource
from integration.catalogue.shapes import Relation
from integration.mirror.query.query import Query
from integration.mirror.records import single_record as records


def included(
    connection: sqlite3.Connection, question: Query, texts: list[bytes], *, anyway: bool
) -> list[bytes] | None:
    """The records of `texts` with their relations as objects instead of ids.

    None where the mirror can't tell: a relation that no record shows, or a field that the related records
    don't have, such as an agent's `status` in a queue. With `anyway` those are null or left as they are.
    """
    relations = [
        relation
        for relation in question.resource.relations
        if relation.includable and relation.name in question.include
    ]
    if not relations:
        return texts
    parsed = [orjson.loads(text) for text in texts]
    items = [orjson.loads(text) if text else {} for text in question.texts(connection, "_item")]
    for relation in relations:
        if not _include(connection, question, relation, parsed, items) and not anyway:
            return None
    return [orjson.dumps(record) for record in parsed]


def _include(
    connection: sqlite3.Connection,
    question: Query,
    relation: Relation,
    parsed: list[dict[str, Any]],
    items: list[dict[str, Any]],
) -> bool:
    """Put the related objects in; returns whether everything asked for is known."""
    target = resource(relation.to)
    wanted = question.fields.get(relation.name)
    members = [
        record.get(relation.name, item.get(relation.name)) for record, item in zip(parsed, items, strict=True)
    ]
    known = all(isinstance(found, list) for found in members)
    keys = [_key(member) for found in members if isinstance(found, list) for member in found]
    found_by_key = records.objects(connection, target, [key for key in keys if key is not None])
    for record, found in zip(parsed, members, strict=True):
        if not isinstance(found, list):
            continue
        objects = []
        for member in found:
            told = member if isinstance(member, dict) else {}
            whole = {**found_by_key.get(str(_key(member)), {"id": _key(member)}), **told}
            known = known and all(name in whole for name in wanted or ())
            objects.append(_only(whole, wanted) if wanted else whole)
        record[relation.name] = objects
    return known


def _key(member: Any) -> Any:
    return member.get("id") if isinstance(member, dict) else member


def _only(record: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: record.get(name) for name in names}
