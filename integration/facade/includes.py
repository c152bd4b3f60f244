"""Parameters `include=users,ddis` and `fields[users]=id,first_name`, served from the mirror."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from integration.catalogue import get_resource
from integration.catalogue.shapes import Relation, Resource
from integration.core.json_records import read_record, serialize_values
from integration.mirror.query.query import Query
from integration.mirror.records import single_record

Record = dict[str, Any]


def list_relations(resource: Resource, names: Iterable[str]) -> list[Relation]:
    """Return the relations of `resource` that `include=` requests by `names`."""
    requested_names = frozenset(names)
    return [
        relation
        for relation in resource.relations
        if relation.is_includable and relation.name in requested_names
    ]


def include_relations(
    connection: sqlite3.Connection, parsed_query: Query, texts: list[bytes]
) -> tuple[list[bytes], bool]:
    """Return `texts` with related objects instead of references, and whether they are complete.

    They are not if the mirror lacks data: a relation that the record does not have, a related record, or one
    of its fields, such as an agent's `status` in a queue. Requested fields are null then, and such relations
    and references are unchanged.
    """
    relations = list_relations(parsed_query.resource, parsed_query.include)
    if not relations:
        return texts, True
    records = [read_record(text.decode()).values for text in texts]
    items: list[Record] = [
        read_record(text.decode()).values if text else {}
        for text in parsed_query.fetch_texts(connection, "_item")
    ]
    is_complete = True
    for relation in relations:
        requested_fields = parsed_query.fields.get(relation.name)
        is_complete &= _include_relation(connection, relation, requested_fields, records, items)
    # The error handler escapes lone surrogates as JSON does.
    included = [serialize_values(record).encode("utf-8", "backslashreplace") for record in records]
    return included, is_complete


def _include_relation(
    connection: sqlite3.Connection,
    relation: Relation,
    requested_fields: tuple[str, ...] | None,
    records: list[Record],
    items: list[Record],
) -> bool:
    """Replace the references of one relation by objects.

    Returns whether the mirror has all related records and their fields.
    """
    member_lists = [
        record.get(relation.name, item.get(relation.name))
        for record, item in zip(records, items, strict=True)
    ]
    references = [
        _find_reference(relation, member)
        for members in member_lists
        if isinstance(members, list)
        for member in members
    ]
    targets = _fetch_targets(connection, relation, references)
    is_complete = True
    for record, item, members in zip(records, items, member_lists, strict=True):
        if not isinstance(members, list):
            is_complete = False
            continue
        item_fields = _read_member_fields(relation, item.get(relation.name))
        objects = []
        for member in members:
            reference = _find_reference(relation, member)
            target = targets.get(_normalize(reference))
            if target is None and not isinstance(member, dict) and len(relation.reference_fields) > 1:
                # The reference can be an id or a number, so an object would be invented.
                objects.append(member)
                is_complete = False
                continue
            merged = {
                **(target if target is not None else {relation.reference_fields[0]: reference}),
                **item_fields.get(_normalize(reference), {}),
                **(member if isinstance(member, dict) else {}),
            }
            required_fields = requested_fields or relation.member_fields
            is_complete = is_complete and all(name in merged for name in required_fields)
            is_complete = is_complete and (target is not None or bool(requested_fields))
            objects.append(
                {name: merged.get(name) for name in requested_fields} if requested_fields else merged
            )
        record[relation.name] = objects
    return is_complete


def _read_member_fields(relation: Relation, members: Any) -> Mapping[str, Record]:
    """Return the objects of a relation by reference as text."""
    if not isinstance(members, list):
        return {}
    return {
        _normalize(_find_reference(relation, member)): member
        for member in members
        if isinstance(member, dict)
    }


def _fetch_targets(
    connection: sqlite3.Connection, relation: Relation, references: list[Any]
) -> Mapping[str, Record]:
    """Return the mirrored records behind `references`, by reference as text."""
    resource = get_resource(relation.target_collection)
    keys = {_normalize(reference) for reference in references} - {""}
    targets: dict[str, Record] = {}
    for field_name in reversed(relation.reference_fields):
        candidates = keys if field_name == resource.key else keys | {f"+{key}" for key in keys}
        found = single_record.fetch_by_key(connection, resource, candidates, key_field=field_name)
        targets |= {_normalize(key): record for key, record in found.items()}
    return targets


def _find_reference(relation: Relation, member: Any) -> Any:
    """Return the id or number by which a member names its record."""
    if not isinstance(member, dict):
        return member
    return next((member[name] for name in relation.reference_fields if member.get(name) is not None), None)


def _normalize(reference: Any) -> str:
    """Return a reference as text without a leading plus.

    Returns "" for a nested value or null.
    """
    if reference is None or isinstance(reference, bool | list | dict):
        return ""
    return str(reference).lstrip("+")
