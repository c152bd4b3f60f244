"""mirror.db: a table for every collection of the catalogue, and our own tables beside them.

Collection tables are STRICT with columns of type ANY, which keeps every value as it came: with inference or
INTEGER affinity `+442079460001` becomes a number and loses its plus (design.md §4). sqlite-utils can open
and query all of them; it has no word for ANY, and asks the whole schema anew for each table, so the tables
are created by plain SQL.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

from integration.catalogue import RESOURCES
from integration.catalogue.shapes import Resource
from integration.mirror.calls import backlog
from integration.mirror.calls import schema as calls
from integration.mirror.page_queries import history, messages
from integration.mirror.page_queries import media_lists as audio
from integration.mirror.page_queries import report_rollups as summary
from integration.mirror.query import page_cache as shortcuts
from integration.mirror.query import query
from integration.mirror.records import (
    indexes,
)
from integration.mirror.records import (
    missing_records as missing,
)
from integration.mirror.records import (
    promoted_fields as promoted,
)
from integration.mirror.records import (
    response_cache as answers,
)
from integration.mirror.records import (
    schema_drift as drift,
)
from integration.mirror.records import (
    subresources as below,
)
from integration.mirror.records.rows import key_type, quote
from integration.mirror.sync_state import (
    collection_state as walks,
)
from integration.mirror.sync_state import (
    completeness as coverage,
)
from integration.mirror.sync_state import (
    lookup_queue as lookups,
)
from integration.mirror.sync_state import (
    media_files as media,
)
from integration.mirror.sync_state import (
    pending_deletions as accepted,
)
from integration.sqlite import migrations
from integration.sqlite.database import Database
from integration.sqlite.migrations import Step, run_script
from integration.sqlite.transaction import Change

CORE = """
CREATE TABLE IF NOT EXISTS _meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS _changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL,
    topic TEXT NOT NULL, key TEXT NOT NULL, data TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS _applied (seq INTEGER PRIMARY KEY, result TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS _flagged (
    id INTEGER PRIMARY KEY, table_name TEXT NOT NULL, at TEXT NOT NULL,
    reason TEXT NOT NULL, doc TEXT NOT NULL,
    UNIQUE (table_name, doc)
) STRICT;
"""

OWN_TABLES = (
    CORE,
    calls.TABLES,
    backlog.TABLES,
    lookups.TABLES,
    media.TABLES,
    walks.TABLES,
    missing.TABLES,
    coverage.TABLES,
    drift.TABLES,
    below.TABLES,
    history.TABLES,
    messages.TABLES,
    accepted.TABLES,
    answers.TABLES,
    audio.TABLES,
    indexes.INDEXES,
    shortcuts.TABLES,
    summary.TABLES,
)

MIGRATIONS: Mapping[str, Step] = {
    "walks tell more": walks.add_columns,
    "triggers of calls without conflict clauses": calls.drop_triggers,
}
"""In order, by name. mirror.db can be rebuilt, so a step may also just empty a derived table."""

BOOKKEEPING = (
    "_doc TEXT NOT NULL, _item TEXT, _first_seen TEXT NOT NULL, _last_seen TEXT NOT NULL, "
    "_source TEXT NOT NULL, _missing_since TEXT"
)


def mirrored() -> list[Resource]:
    """The collections that have a table: those that a GET without parameters lists, and `/me`."""
    return [resource for resource in RESOURCES if resource.listed]


def open_mirror(
    path: Path,
    *,
    on_commit: Callable[[list[Change]], None] | None = None,
    on_broken: Callable[[BaseException], None] | None = None,
) -> Database:
    """Open (create, bring up to date) mirror.db. Raises StorageError, NewerDatabase."""
    return Database(path, prepare=prepare, functions=query.register, on_commit=on_commit, on_broken=on_broken)


def prepare(connection: sqlite3.Connection) -> None:
    """Bring the schema to this version's form. Raises NewerDatabase."""
    migrations.prepare(connection, "mirror.db", MIGRATIONS, _create_all)


def _create_all(connection: sqlite3.Connection) -> None:
    present = _columns(connection)
    for resource in mirrored():
        _create(connection, resource, present.get(resource.table))
    for script in OWN_TABLES:
        run_script(connection, script)
    connection.execute("INSERT OR IGNORE INTO _meta VALUES ('epoch', ?)", (secrets.token_hex(8),))


def epoch(connection: sqlite3.Connection) -> str:
    """What tells this mirror.db's change numbers from those of one rebuilt later."""
    return str(connection.execute("SELECT value FROM _meta WHERE key = 'epoch'").fetchone()[0])


def _columns(connection: sqlite3.Connection) -> dict[str, set[str]]:
    """The columns of every table that there is."""
    found: dict[str, set[str]] = {}
    for table, column in connection.execute(
        "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table'"
    ):
        found.setdefault(table, set()).add(column)
    return found


def _create(connection: sqlite3.Connection, resource: Resource, present: set[str] | None) -> None:
    """The table of `resource`; a field that the catalogue has learnt since becomes a new column."""
    if present is None:
        columns = [_key_column(resource)]
        columns += [f"{quote(field.name)} ANY" for field in resource.fields if field.name != resource.key]
        connection.execute(
            f"CREATE TABLE {quote(resource.table)} ({', '.join(columns)}, {BOOKKEEPING}) STRICT"
        )
        return
    for field in resource.fields:
        if field.name not in present:
            promoted.document(connection, resource, field.name)


def _key_column(resource: Resource) -> str:
    if resource.key is None:
        return "_n INTEGER PRIMARY KEY"
    return f"{quote(resource.key)} {key_type(resource)} PRIMARY KEY NOT NULL"
