"""What refers to a record: the groups it is a member of, the numbers that lead to it, its history."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from integration.catalogue import field_labels as words_of
from integration.catalogue.shapes import Relation, Resource
from integration.core.errors import QueryError
from integration.dashboard.account import list_query as account_view
from integration.dashboard.account.sections import RESOURCE, SHELVES, Shelf, Sight
from integration.dashboard.site import formats
from integration.exports.selection import HISTORY
from integration.mirror.query import browse
from integration.mirror.query.filters import Condition
from integration.mirror.query.query import Query

MOST = 50
"""Records named one by one; the rest is behind the link to their list."""


@dataclass(frozen=True, slots=True)
class Related:
    """Either `links`, (name, URL) each, or `count` records behind the list at `url`."""

    word: str
    links: tuple[tuple[str, str], ...] = ()
    url: str | None = None
    count: int = 0


def related(
    connection: sqlite3.Connection,
    sight: Sight,
    shelf: Shelf,
    key: int | str,
    values: Mapping[str, Any],
) -> list[Related]:
    """What the person may see of it."""
    found = []
    own_names = {str(key)} | ({str(values["e164"])} if values.get("e164") else set())
    for other in SHELVES.values():
        if not sight.reaches(other):
            continue
        about = RESOURCE[other.collection]
        for relation in about.relations:
            if relation.to != shelf.collection:
                continue
            if not relation.many:
                found.append(_records(connection, sight, other, about, relation, key))
            elif sight.items(other):
                found.append(_members(connection, other, about, relation, own_names))
    if sight.opens("ddis"):
        found.insert(0, _numbers(connection, shelf, key))
    return [there for there in found if there is not None]


def _members(
    connection: sqlite3.Connection, other: Shelf, about: Resource, relation: Relation, names: set[str]
) -> Related | None:
    groups = browse.members(connection, about, relation, names)
    links = [(words_of.title_of(record) or str(its), f"{other.path}/{its}") for its, record in groups[:MOST]]
    return Related(other.title, tuple(links)) if links else None


def _records(
    connection: sqlite3.Connection,
    sight: Sight,
    other: Shelf,
    about: Resource,
    relation: Relation,
    key: int | str,
) -> Related | None:
    asked = Query(about, (Condition(relation.name, "eq", key),), missing=other.collection in HISTORY)
    asked = sight.narrowed(connection, other, asked)
    count = asked.total(connection) if browse.quick(connection, about, relation.name) else 0
    if not count:
        return None
    word = other.title
    if relation.name not in ("user_id", "live_id"):
        word += f" ({words_of.label(relation.name).lower()})"
    return Related(word, url=account_view.filtered(other.path, relation.name, key), count=count)


def _numbers(connection: sqlite3.Connection, shelf: Shelf, key: int | str) -> Related | None:
    """Telephone numbers whose target this is."""
    ddis = RESOURCE["ddis"]
    letters = [letter for letter, (to, _) in words_of.DESTINATION_TYPES.items() if to == shelf.collection]
    if not letters:
        return None
    asked = Query(
        ddis, (Condition("target_id", "eq", key), Condition("target_type", "in", letters)), limit=MOST
    )
    try:
        rows = asked.rows(connection)
    except QueryError:
        # Where the types are numbers, as the specification has them, nobody tells what they mean.
        return None
    links = [
        (formats.national(str(row["e164"] or row["id"])), f"{SHELVES['ddis'].path}/{row['id']}")
        for row in rows
    ]
    return Related("Telephone numbers", tuple(links)) if links else None
