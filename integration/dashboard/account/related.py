"""Records that refer to a record: groups, telephone numbers and history."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from integration.access.visibility import Visibility
from integration.catalogue import HISTORY, field_labels
from integration.catalogue.shapes import Relation, Resource
from integration.core.errors import QueryError
from integration.dashboard.account import list_query
from integration.dashboard.account.sections import SECTIONS, Section
from integration.dashboard.site import formats
from integration.mirror.query import browse
from integration.mirror.query.filters import Condition
from integration.mirror.query.query import Query

MAX_LINKS = 50
"""Maximum number of records listed by name."""


@dataclass(frozen=True, slots=True)
class Related:
    """Group of related records.

    Either `links` has (name, URL) of each record, or `count` is the number of records in the list at `url`.
    """

    label: str
    links: tuple[tuple[str, str], ...] = ()
    url: str | None = None
    count: int = 0


def list_related(
    connection: sqlite3.Connection,
    visibility: Visibility,
    section: Section,
    key: int | str,
    values: Mapping[str, Any],
) -> list[Related]:
    """Return the related records that the viewer sees."""
    related_groups = []
    reference_keys = {str(key)} | ({str(values["e164"])} if values.get("e164") else set())
    for other_section in SECTIONS.values():
        if not visibility.can_open(other_section.resource):
            continue
        resource = other_section.resource
        for relation in resource.relations:
            if relation.target_collection != section.collection:
                continue
            if not relation.is_list:
                related_groups.append(
                    _count_related(connection, visibility, other_section, resource, relation, key)
                )
            elif visibility.can_see_item_fields(resource):
                related_groups.append(
                    _member_links(connection, other_section, resource, relation, reference_keys)
                )
    if visibility.can_open(SECTIONS["ddis"].resource):
        related_groups.insert(0, _number_links(connection, section, key))
    return [related_group for related_group in related_groups if related_group is not None]


def _member_links(
    connection: sqlite3.Connection,
    section: Section,
    resource: Resource,
    relation: Relation,
    reference_keys: set[str],
) -> Related | None:
    members = browse.find_referring(connection, resource, relation, reference_keys)
    links = [
        (field_labels.record_title(record) or str(member_key), f"{section.path}/{member_key}")
        for member_key, record in members[:MAX_LINKS]
    ]
    return Related(section.title, tuple(links)) if links else None


def _count_related(
    connection: sqlite3.Connection,
    visibility: Visibility,
    section: Section,
    resource: Resource,
    relation: Relation,
    key: int | str,
) -> Related | None:
    record_query = Query(
        resource, (Condition(relation.name, "eq", key),), include_missing=section.collection in HISTORY
    )
    record_query = visibility.restrict_query(connection, record_query)
    count = (
        record_query.count_matches(connection)
        if browse.is_fast_lookup(connection, resource, relation.name)
        else 0
    )
    if not count:
        return None
    label = section.title
    if relation.name not in ("user_id", "live_id"):
        label += f" ({field_labels.label_field(relation.name).lower()})"
    return Related(label, url=list_query.filtered_url(section.path, relation.name, key), count=count)


def _number_links(connection: sqlite3.Connection, section: Section, key: int | str) -> Related | None:
    """Return links to the telephone numbers whose target is this record."""
    ddis = SECTIONS["ddis"].resource
    if not section.destination_codes:
        return None
    conditions = Condition("target_id", "eq", key), Condition("target_type", "in", section.destination_codes)
    record_query = Query(ddis, conditions, limit=MAX_LINKS)
    try:
        rows = record_query.fetch_rows(connection)
    except QueryError:
        # `target_type` is an integer, as in the specification, which does not document its values.
        return None
    links = [
        (formats.national(str(row["e164"] or row["id"])), f"{SECTIONS['ddis'].path}/{row['id']}")
        for row in rows
    ]
    return Related("Telephone numbers", tuple(links)) if links else None
