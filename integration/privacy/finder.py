"""Find, erase and protect the data of one telephone number, in every place of `personal_data`.

A search has three steps: rows with the number, the calls of their legs, and the rows of these calls.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, get_args

from integration.core.ids import id_list
from integration.core.number_variants import Finder, make_finder
from integration.maintenance.manifest import DATABASES
from integration.mirror.privacy.erasure_gate import LEGS_KEY
from integration.mirror.privacy.held_records import HeldRecords
from integration.mirror.records.rows import quote_identifier
from integration.mirror.sync_state import media_files
from integration.mirror.sync_state.media_files import MediaKind
from integration.privacy.personal_data import Place, Row, has_number, list_places
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

BATCH_SIZE = 500
"""Number of rows erased in one transaction."""

Key = tuple[Any, ...]
_IN_JSON_LIST = "IN (SELECT value FROM json_each(?))"


# --- rows of any table -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Table:
    """Table of a database: `columns`, and those that identify a row (`key`)."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]

    def iterate(
        self, connection: sqlite3.Connection, condition: str = "1", parameters: Any = (), columns: Any = ()
    ) -> Iterator[tuple[Key, tuple[Any, ...]]]:
        """Yield key and values of rows; of `columns` only, if they are given."""
        columns = columns or self.columns
        # Unquoted, because in a table without rowid SQLite would treat "rowid" as a text.
        names = [name if name == "rowid" else quote_identifier(name) for name in (*self.key, *columns)]
        count = len(self.key)
        for row in connection.execute(
            f"SELECT {', '.join(names)} FROM {quote_identifier(self.name)} WHERE {condition}", parameters
        ):
            yield tuple(row[:count]), tuple(row[count:])

    def read(self, connection: sqlite3.Connection, key: Key) -> dict[str, Any] | None:
        """Return all columns of a row, None without it."""
        for _, values in self.iterate(connection, self.where, key):
            return dict(zip(self.columns, values, strict=True))
        return None

    @property
    def where(self) -> str:
        """SQL condition of one key."""
        return " AND ".join(
            f"{name if name == 'rowid' else quote_identifier(name)} IS ?" for name in self.key
        )


def list_tables(connection: sqlite3.Connection) -> list[str]:
    """Return all tables except SQLite's own and those of search indexes."""
    return sorted(
        name
        for _, name, kind, *_ in connection.execute("PRAGMA main.table_list")
        if kind == "table" and not name.startswith("sqlite_")
    )


def describe_table(connection: sqlite3.Connection, name: str) -> Table:
    rows = connection.execute(f"PRAGMA table_info({quote_identifier(name)})").fetchall()
    key = sorted((row[5], row[1]) for row in rows if row[5])
    return Table(name, tuple(row[1] for row in rows), tuple(column for _, column in key) or ("rowid",))


def is_row_held(
    connection: sqlite3.Connection, table: str, values: Mapping[str, Any], held_records: HeldRecords
) -> bool:
    """Return whether a row or its parent record is under legal hold."""
    return held_records.are_values_held(values) or (
        table == "_below"
        and held_records.is_row_held(connection, values["collection"].replace("/", "_"), values["key"])
    )


# --- finding -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class FoundData:
    """Data of one number.

    `rows`: place, keys, and whether the row is about the person; by database. `legs`, `calls`: ids of the
    legs and calls with the number. `files`: kind, id of the record and path below data_dir. `held_legs`:
    those under legal hold, and `held`: other data under legal hold, by label; it is left unchanged.
    `own_number_tables`: tables that list the number as the account's own. `has_live_call`: a call with the
    number has not ended.
    """

    rows: dict[str, list[tuple[Place, list[tuple[Key, bool]]]]] = field(default_factory=dict)
    legs: list[int] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    files: list[tuple[MediaKind, int, str]] = field(default_factory=list)
    held_legs: list[int] = field(default_factory=list)
    held: dict[str, list[Any]] = field(default_factory=dict)
    own_number_tables: list[str] = field(default_factory=list)
    has_live_call: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of entries by label, without zeros."""
        counts = Counter({"calls": len(self.calls)})
        for places in self.rows.values():
            for place, keys in places:
                counts[place.label] += len(keys)
        counts["files (removed)"] += len(self.files)
        return dict(+counts)

    def list_record_keys(self) -> dict[str, list[Any]]:
        """Return the keys of records of collections, by table."""
        return {
            place.table: [key[0] for key, _ in keys]
            for place, keys in self.rows.get("mirror.db", ())
            if place.resource
        }


def find(
    connections: Mapping[str, sqlite3.Connection],
    e164: str,
    held_records: HeldRecords,
    earlier_records: Mapping[str, Collection[Any]],
) -> FoundData:
    """Search the three databases for data of a number. Changes nothing.

    `connections`: by name of the database. `earlier_records`: keys by table, and legs under `LEGS_KEY`, that
    an interrupted erasure has already found.
    """
    found, finder = FoundData(), make_finder([e164])
    mirror = connections["mirror.db"]
    searches = [
        _PlaceSearch(connections[database], database, place, finder, held_records)
        for database in sorted(DATABASES, key=lambda name: name != "mirror.db")
        for place in list_places(database, list_tables(connections[database]))
    ]
    legs = set(earlier_records.get(LEGS_KEY, ()))
    for search in searches:
        legs |= search.find_mentions(
            earlier_records.get(search.place.table, ()) if search.place.resource else ()
        )
    found.calls = _fetch_column(
        mirror,
        "SELECT id FROM _calls WHERE party_e164 = ?2 OR id IN"
        " (SELECT call_id FROM _legs WHERE leg_id IN (SELECT value FROM json_each(?1)))",
        legs,
        e164,
    )
    legs.update(_fetch_column(mirror, f"SELECT leg_id FROM _legs WHERE call_id {_IN_JSON_LIST}", found.calls))
    found.held_legs = sorted(legs & held_records.legs)
    found.legs = sorted(legs - held_records.legs)
    found.calls = held_records.exclude_held_calls(mirror, found.calls)
    links = {"legs": id_list(sorted(legs)), "calls": id_list(found.calls)}
    for search in searches:
        keys = search.finish(found, links)
        if search.place.names_calls:
            # The call-back list has calls that the mirror no longer has.
            links["calls"] = id_list({*found.calls, *(key[0] for key, _ in keys)})
    found.has_live_call = bool(
        _fetch_column(
            mirror, f"SELECT id FROM _calls WHERE state <> 'ended' AND id {_IN_JSON_LIST}", found.calls
        )
    )
    found.files = list(_list_files(mirror, found.list_record_keys()))
    return found


class _PlaceSearch:
    """Search in one place."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        database: str,
        place: Place,
        finder: Finder[Any],
        held_records: HeldRecords,
    ) -> None:
        self.place, self._database, self._connection = place, database, connection
        self._finder, self._held_records = finder, held_records
        self._table = describe_table(connection, place.table)
        self._found: dict[Key, bool] = {}
        """Whether the row is about the person, by key."""

    def find_mentions(self, earlier_keys: Collection[Any]) -> set[int]:
        """Find the rows with the number, and return the legs that they name."""
        place, legs = self.place, set[int]()
        for key, values in self._table.iterate(self._connection, columns=place.searched):
            if any(has_number(value, self._finder) for value in values):
                self._found[key] = False
        self._found |= {(key,): True for key in earlier_keys}
        if place.leg_columns:
            for row in filter(None, map(self._read, self._found)):
                # An event with a held number does not make its call one of the person.
                if place.resource is None and self._held_records.is_text_held(row["doc"]):
                    continue
                # 0 means “no leg”. Records of many persons contain it.
                named = (row.get(name) for name in place.leg_columns)
                legs.update(leg for leg in named if isinstance(leg, int) and leg > 0)
        return legs

    def finish(self, found: FoundData, links: Mapping[str, str]) -> list[tuple[Key, bool]]:
        """Find the rows of the person's calls, and add all rows to `found`.

        Returns the keys of those that are not under legal hold.
        """
        place = self.place
        if place.linked:
            for key, _ in self._table.iterate(self._connection, place.linked, links, self._table.key):
                self._found[key] = True
        keys: list[tuple[Key, bool]] = []
        for key, is_linked in self._found.items():
            if (values := self._read(key)) is None:
                continue
            is_owned = is_linked or any(has_number(values[name], self._finder) for name in place.owned_by)
            if is_row_held(self._connection, place.table, values, self._held_records):
                names = found.held.setdefault(place.label.removesuffix(" (removed)"), [])
                names[:] = sorted({*names, place.name(key)}, key=lambda name: (str(type(name)), name))
            else:
                keys.append((key, is_owned))
        if place.is_own_number:
            found.own_number_tables += [place.table] if keys else []
        elif keys:
            found.rows.setdefault(self._database, []).append((place, keys))
        return keys

    def _read(self, key: Key) -> dict[str, Any] | None:
        return self._table.read(self._connection, key)


def _list_files(
    connection: sqlite3.Connection, keys_by_table: Mapping[str, Collection[Any]]
) -> Iterator[tuple[MediaKind, int, str]]:
    for kind in get_args(MediaKind):
        for record_id, path in connection.execute(
            "SELECT record_id, path FROM media WHERE kind = ? AND state <> 'gone'"
            f" AND record_id {_IN_JSON_LIST}",
            (kind, id_list(keys_by_table.get(media_files.get_record_table(kind), ()))),
        ):
            yield kind, record_id, path


def _fetch_column(connection: sqlite3.Connection, sql: str, ids: Collection[int], *more: Any) -> list[Any]:
    return [row[0] for row in connection.execute(sql, (id_list(sorted(ids)), *more))]


# --- erasing -------------------------------------------------------------------------------------------


def erase_rows(
    database: Database,
    found: FoundData,
    e164: str,
    held_records: HeldRecords,
    on_step: Callable[[str], None],
) -> None:
    """Erase the rows of `found` in one database, in small transactions. Raises StorageError."""
    finder = make_finder([e164])
    for place, keys in found.rows.get(database.name, ()):
        on_step(place.label)
        for begin in range(0, len(keys), BATCH_SIZE):
            database.write(
                partial(
                    _erase_batch,
                    place=place,
                    keys=keys[begin : begin + BATCH_SIZE],
                    finder=finder,
                    held_records=held_records,
                )
            )


def _erase_batch(
    tx: Transaction,
    place: Place,
    keys: Sequence[tuple[Key, bool]],
    finder: Finder[Any],
    held_records: HeldRecords,
) -> None:
    table, erased = describe_table(tx.connection, place.table), []
    name = quote_identifier(place.table)
    for key, is_owned in keys:
        values = table.read(tx.connection, key)
        # The row can have changed, and a hold can have been set, since the search.
        if values is None or is_row_held(tx.connection, place.table, values, held_records):
            continue
        row = Row(dict(zip(table.key, key, strict=True)), values, is_owned)
        changes = place.erase(row, finder)
        if changes is None:
            tx.execute(f"DELETE FROM {name} WHERE {table.where}", key)
        elif changes:
            assignments = ", ".join(f"{quote_identifier(column)} = ?" for column in changes)
            # Rows that become equal violate unique keys. OR REPLACE keeps one of them.
            tx.execute(
                f"UPDATE OR REPLACE {name} SET {assignments} WHERE {table.where}",
                (*changes.values(), *key),
            )
        erased.append((row, changes))
    if place.after and erased:
        place.after(tx, erased)
