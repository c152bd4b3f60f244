"""Requests of users to promote undocumented fields to columns.

The requests are stored in house.db, so that a rebuilt mirror has the same columns.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from integration.catalogue import UnknownResource, get_resource
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.commands import COMMAND_LINE, Arguments, Progress, Result, command
from integration.core.errors import QueryError
from integration.mirror.records import promoted_fields
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

if TYPE_CHECKING:
    from integration.context import AppContext

TABLES = """
CREATE TABLE IF NOT EXISTS promoted_fields (
    collection TEXT NOT NULL,
    field TEXT NOT NULL,
    who TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (collection, field)
) STRICT, WITHOUT ROWID;
"""


def list_requested(connection: sqlite3.Connection) -> dict[str, set[str]]:
    """Return the promoted fields by collection."""
    fields: dict[str, set[str]] = defaultdict(set)
    for collection, name in connection.execute("SELECT collection, field FROM promoted_fields"):
        fields[collection].add(name)
    return dict(fields)


@command("fields.promote")
def promote(context: AppContext, arguments: Arguments, progress: Progress) -> Result:
    """Add a column for the undocumented field {collection, field}.

    Raises QueryError if that is impossible.

    `who` is the stored name of the actor; the default is the command line.
    """
    target, name = get_resource(arguments["collection"]), arguments["field"]
    with context.mirror_db.read() as connection:
        refusal = promoted_fields.find_refusal_reason(connection, target, name)
    if refusal is not None:
        raise QueryError(refusal)
    # Store the request first: an interrupted promotion is completed at the next start.
    context.app_db.write(lambda tx: _record_request(tx, target, name, arguments.get("who", COMMAND_LINE)))

    def report_progress(done: int, total: int) -> None:
        progress(collection=f"{target.collection}.{name}", done=done, total=total)

    promoted_fields.promote(context.mirror_db, target, name, report_progress)
    return {"table": target.table}


@command("fields.demote")
def demote(context: AppContext, arguments: Arguments, _: Progress) -> Result:
    """Remove the column of {collection, field}.

    Raises QueryError if the field is not promoted.

    An interrupted removal is undone at the next start.
    """
    target, name = get_resource(arguments["collection"]), arguments["field"]
    with context.app_db.read() as connection:
        if name not in list_requested(connection).get(target.collection, ()):
            raise QueryError(f"/{target.collection}: the field {name!r} is not promoted")
    promoted_fields.demote(context.mirror_db, target, name)
    context.app_db.write(lambda tx: _delete_request(tx, target, name))
    return {"table": target.table}


def restore_columns(
    app_db: Database, mirror_db: Database, is_stopping: Callable[[], bool] = lambda: False
) -> None:
    """Add the promoted columns to a rebuilt or restored mirror.

    No column is filled further after `is_stopping` has returned True. Filling the columns of a large table
    takes about a minute.
    """
    with app_db.read() as connection:
        fields = list_requested(connection)
    for collection, names in fields.items():
        try:
            target = get_resource(collection)
        except UnknownResource:
            continue
        promoted_fields.apply_requested_columns(mirror_db, target, names, is_stopping)


def _record_request(tx: Transaction, target: Resource, name: str, who: str) -> None:
    tx.execute(
        "INSERT OR REPLACE INTO promoted_fields VALUES (?, ?, ?, ?)",
        (target.collection, name, who, clock.utc_text()),
    )


def _delete_request(tx: Transaction, target: Resource, name: str) -> None:
    tx.execute("DELETE FROM promoted_fields WHERE collection = ? AND field = ?", (target.collection, name))
