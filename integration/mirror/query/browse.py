"""Any collection of the mirror, read for browsing: how it stands, pages of it, single records, and what they
refer to."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from integration.catalogue.shapes import Field, Relation, Resource
from integration.core.json_records import read_object
from integration.mirror.query import text_search as anywhere
from integration.mirror.query.query import Query
from integration.mirror.records.masking import is_secret
from integration.mirror.records.rows import key_type
from integration.mirror.sync_state.collection_state import LIVE

SAMPLE = 200
"""Records looked at for what fields there are."""
FEW = 20_000
"""Records that may be looked through while somebody waits for a page."""


Key = int | str


@dataclass(frozen=True, slots=True)
class Standing:
    """How a collection stands in the mirror. Times are UTC text.

    `rows`: present records; `gone`: kept ones that the platform has no longer; `total`: on the platform when
    last told; `complete_at`: when it was last walked to its end; `read_at`: what its age counts from;
    `walked`: records read by a walk under way, None while none is; `live`: it lists what goes on now.
    """

    rows: int = 0
    gone: int = 0
    total: int | None = None
    complete_at: str | None = None
    read_at: str | None = None
    error: str | None = None
    error_at: str | None = None
    walked: int | None = None
    live: bool = False

    @property
    def mirrored(self) -> bool:
        """Whether anything was ever read of it."""
        return self.read_at is not None or self.walked is not None or bool(self.rows or self.gone)


def standing(connection: sqlite3.Connection, resource: Resource, question: Query | None = None) -> Standing:
    """`question` narrows what is counted, for people who see a part."""
    row = connection.execute("SELECT * FROM _walks WHERE collection = ?", (resource.collection,)).fetchone()
    asked = question or Query(resource)
    rows = asked.total(connection)
    binder = asked.binder(connection)
    where = replace(asked, missing=True).where(binder)
    sql = f'SELECT count(*) FROM "{resource.table}" WHERE _missing_since IS NOT NULL AND {where}'
    gone = int(connection.execute(sql, binder.values).fetchone()[0])
    if row is None:
        return Standing(rows, gone)
    return Standing(
        rows,
        gone,
        row["total"],
        row["complete_at"],
        row["last_success_at"],
        row["last_error"],
        row["last_error_at"],
        row["walk_rows"] if row["begun_at"] else None,
        resource.collection in LIVE,
    )


@dataclass(frozen=True, slots=True)
class Sample:
    """What the newest records of a collection look like. `strange`: fields that nobody documented, as the
    records order them, secrets left out; `filled`: fields that hold something in at least one."""

    strange: tuple[str, ...]
    filled: frozenset[str]


def sample(connection: sqlite3.Connection, resource: Resource) -> Sample:
    key = f'"{resource.key}"' if resource.key else "_n"
    rows = connection.execute(
        f'SELECT _doc FROM "{resource.table}" ORDER BY {key} DESC LIMIT ?', (SAMPLE,)
    ).fetchall()
    strange: dict[str, None] = {}
    filled = set()
    for row in rows:
        for name, value in read_object(row["_doc"]).values.items():
            if resource.field(name) is None and not is_secret(name):
                strange[name] = None
            if value is not None and value not in ("", [], {}):
                filled.add(name)
    return Sample(tuple(strange), frozenset(filled))


# --- pages -------------------------------------------------------------------------------------------


def page(
    connection: sqlite3.Connection, question: Query, groups: anywhere.Words = (), *, items: bool = True
) -> list[sqlite3.Row]:
    """Rows of one page, all columns. `items`: search the records' own forms too. Raises QueryError."""
    if not groups:
        return question.rows(connection)
    resource = question.resource
    binder = question.binder(connection)
    where = f"{question.where(binder)} AND {anywhere.found(binder, groups, question.hidden, items=items)}"
    key = f'"{resource.key}"' if resource.key else "_n"
    order = f"{key} DESC" if question.sort == resource.key and question.descending else key
    if question.sort is not None and question.sort != resource.key:
        direction = "DESC" if question.descending else "ASC"
        order = f"{binder.expression(question.sort, 'sort')} {direction}, {key}"
    limit, skip = binder.bind(question.limit), binder.bind(min((question.page - 1) * question.limit, 2**62))
    return connection.execute(
        f'SELECT * FROM "{resource.table}" WHERE {where} ORDER BY {order} LIMIT {limit} OFFSET {skip}',
        binder.values,
    ).fetchall()


def count(
    connection: sqlite3.Connection, question: Query, groups: anywhere.Words = (), *, items: bool = True
) -> int:
    """How many records match. Raises QueryError."""
    if not groups:
        return question.total(connection)
    binder = question.binder(connection)
    where = f"{question.where(binder)} AND {anywhere.found(binder, groups, question.hidden, items=items)}"
    sql = f'SELECT count(*) FROM "{question.resource.table}" WHERE {where}'
    return int(connection.execute(sql, binder.values).fetchone()[0])


# --- records and what they refer to ------------------------------------------------------------------


def key_of(resource: Resource, text: str) -> Key | None:
    """The key that a path names; None for what no record of `resource` can have."""
    if resource.key is not None and key_type(resource) == "TEXT":
        return text
    if not re.fullmatch(r"-?[0-9]{1,19}", text) or not -(2**63) <= int(text) < 2**63:
        return None
    return int(text)


def key_in(resource: Resource, row: sqlite3.Row) -> Key:
    """The key of a row; its place in the answer where records have none."""
    key: Key = row[resource.key or "_n"]
    return key


def record(connection: sqlite3.Connection, resource: Resource, key: Key) -> sqlite3.Row | None:
    """The record, present or not. One without a key of its own goes by `_n`, its place in the answer."""
    name = f'"{resource.key}"' if resource.key else "_n"
    found: sqlite3.Row | None = connection.execute(
        f'SELECT * FROM "{resource.table}" WHERE {name} = ?', (key,)
    ).fetchone()
    return found


def only_record(connection: sqlite3.Connection, resource: Resource) -> sqlite3.Row | None:
    """The newest record of a collection that has one."""
    found: sqlite3.Row | None = connection.execute(
        f'SELECT * FROM "{resource.table}" ORDER BY _last_seen DESC LIMIT 1'
    ).fetchone()
    return found


def named(
    connection: sqlite3.Connection, resource: Resource, by: str, values: Iterable[Any]
) -> dict[str, dict[str, Any]]:
    """The records whose field `by` is among `values`, parsed, by that field as text."""
    if resource.field(by) is None:
        raise ValueError(f"{resource.name} has no field {by!r}")
    texts = {str(value) for value in values}
    forms: list[Any] = [*texts, *(int(text) for text in texts if key_of(_NUMBERED, text) is not None)]
    rows = connection.execute(
        f'SELECT "{by}" AS name, _doc FROM "{resource.table}"'
        f' WHERE "{by}" IN (SELECT value FROM json_each(?)) ORDER BY _missing_since IS NULL',
        (json.dumps(forms),),
    )
    return {str(row["name"]): read_object(row["_doc"]).values for row in rows}


_NUMBERED = Resource("numbered", "numbered", "", (Field("id", "integer"),))


def members(
    connection: sqlite3.Connection, groups: Resource, relation: Relation, values: Collection[str]
) -> list[tuple[Key, dict[str, Any]]]:
    """The records of `groups` whose list `relation` names one of `values`: the queues of a user."""
    found = []
    for row in connection.execute(
        f'SELECT "{groups.key}" AS key, _doc, _item FROM "{groups.table}" WHERE _missing_since IS NULL'
        f' ORDER BY "{groups.key}"'
    ):
        fields = read_object(row["_doc"]).values
        whole = {**fields, **(read_object(row["_item"]).values if row["_item"] else {})}
        if any(reference in values for reference in references(whole.get(relation.name))):
            found.append((row["key"], fields))
    return found


def quick(connection: sqlite3.Connection, resource: Resource, name: str) -> bool:
    """Whether records with a given value of `name` are found at once: by an index, or among few."""
    indexed = connection.execute(
        "SELECT 1 FROM pragma_index_list(?) AS list, pragma_index_info(list.name) AS info"
        " WHERE list.partial = 0 AND info.seqno = 0 AND info.name = ?",
        (resource.table, name),
    ).fetchone()
    return indexed is not None or Query(resource).total(connection) <= FEW


def references(value: Any) -> list[str]:
    """The ids in a relation's value, as text: one, or a list of them, or of objects that have one."""
    listed = value if isinstance(value, list) else [value]
    ids = (item.get("id", item.get("e164")) if isinstance(item, dict) else item for item in listed)
    return [str(one) for one in ids if isinstance(one, int | str) and not isinstance(one, bool) and one != ""]
