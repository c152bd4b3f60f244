"""Wide search of data_dir after an erasure.

`find_places` reads the rows of the three databases, the bytes of their files, and every other file. A place
names a table and a key, or a path below data_dir.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from integration.core.number_search.wide_search import WideSearch
from integration.maintenance.manifest import DATABASES
from integration.mirror.privacy.held_records import HeldRecords
from integration.privacy import copies
from integration.privacy.file_search import search_files
from integration.privacy.finder import describe_table, is_row_held, list_tables
from integration.privacy.personal_data import DERIVED_TABLES
from integration.sqlite.database import Database

UNFINISHED_FILE = "unfinished.json"
"""File with the command that is being run; the next command or the end of this one replaces it."""

_CELL_BORDER = b"-" * 32
"""Bytes between two values of a row, so that digits of two values are not one number."""
_SIDE_FILES = ("", "-wal")


def find_places(
    databases: Collection[Database],
    data_dir: Path,
    e164: str,
    held_records: HeldRecords,
    skipped_paths: Collection[Path],
    on_step: Callable[[str], None],
) -> list[str]:
    """Return the places that possibly contain the number, except under `skipped_paths`.

    Rows under legal hold are left out. A database with such rows is searched by row only. Raises OSError and
    StorageError.
    """
    search, places = WideSearch(e164), []
    database_files: list[Path] = []
    for database in databases:
        on_step(f"searching {database.name}")
        with database.read(full_scan=True) as connection:
            found, has_held_rows = _search_rows(connection, search, held_records)
        places += [f"{database.name}: {place}" for place in found]
        if not found and not has_held_rows:
            database_files += [database.path.with_name(database.name + suffix) for suffix in _SIDE_FILES]
    on_step("searching files")
    own_names = {f"{name}{suffix}" for name in DATABASES for suffix in ("", "-wal", "-shm")}
    other_files = [
        path
        for path in copies.iterate_files(data_dir)
        if str(path.relative_to(data_dir)) not in own_names
        and path.name != UNFINISHED_FILE
        and not any(path.is_relative_to(skipped) for skipped in skipped_paths)
    ]
    found_files = set(search_files([*database_files, *other_files], [e164]))
    found_files.update(path for path in other_files if search.contains(path.name.encode()))
    places += [f"{path.name}: unused pages or an index" for path in database_files if path in found_files]
    return places + [str(path.relative_to(data_dir)) for path in other_files if path in found_files]


def _search_rows(
    connection: sqlite3.Connection, search: WideSearch, held_records: HeldRecords
) -> tuple[list[str], bool]:
    """Return tables with matching keys, and whether rows are held."""
    places, has_held_rows = [], False
    # Derived tables last: a held contact leaves its number in them.
    for table in sorted(list_tables(connection), key=lambda name: name in DERIVED_TABLES):
        keys: list[str] = []
        described = describe_table(connection, table)
        for key, values in described.iterate(connection):
            if search.contains(_CELL_BORDER.join(_iterate_texts(values))):
                if (has_held_rows and table in DERIVED_TABLES) or is_row_held(
                    connection, table, dict(zip(described.columns, values, strict=True)), held_records
                ):
                    has_held_rows = True
                else:
                    keys.append(str(key[0]))
        if keys:
            more = f" and {len(keys) - 5:,} more" if len(keys) > 5 else ""
            places.append(f"{table} {', '.join(keys[:5])}{more}")
    return places, has_held_rows


def _iterate_texts(values: Collection[object]) -> Iterator[bytes]:
    for value in values:
        if isinstance(value, bytes):
            yield value
        elif isinstance(value, str):
            yield value.encode("utf-8", "surrogatepass")
