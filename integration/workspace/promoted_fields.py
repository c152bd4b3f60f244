"""Which undocumented fields are columns of the mirror, by whose wish. It stands here so that a mirror that is
built anew has them again."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from integration.catalogue import UnknownResource, get_resource
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.errors import QueryError
from integration.mirror.records import promoted_fields
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

if TYPE_CHECKING:
    from integration.core.commands import Arguments, Handler, Progress, Result

ACTOR = "command line"
PROMOTE, DEMOTE = "promote", "demote"

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
    """Collection → fields."""
    fields: dict[str, set[str]] = defaultdict(set)
    for collection, name in connection.execute("SELECT collection, field FROM promoted_fields"):
        fields[collection].add(name)
    return dict(fields)


def promote(
    app_db: Database,
    mirror_db: Database,
    target: Resource,
    name: str,
    who: str,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> None:
    """Make a field a column, for good; `on_progress(done, total)` records. Raises QueryError where it can't
    be."""
    with mirror_db.read() as connection:
        refusal = promoted_fields.find_refusal_reason(connection, target, name)
    if refusal is not None:
        raise QueryError(refusal)
    # First: what is interrupted here is finished at the next start.
    app_db.write(lambda tx: _record_request(tx, target, name, who))
    promoted_fields.promote(mirror_db, target, name, on_progress)


def demote(app_db: Database, mirror_db: Database, target: Resource, name: str) -> None:
    """Take a column away, for good. What is interrupted is as it was at the next start."""
    promoted_fields.demote(mirror_db, target, name)
    app_db.write(
        lambda tx: (
            tx.execute(
                "DELETE FROM promoted_fields WHERE collection = ? AND field = ?", (target.collection, name)
            )
            and None
        )
    )


def handlers(app_db: Database, mirror_db: Database) -> Mapping[str, Handler]:
    """`promote` and `demote` {collection, field}, for the channel."""

    def handle_promote(arguments: Arguments, progress: Progress) -> Result:
        target, name = get_resource(arguments["collection"]), arguments["field"]

        def report_progress(done: int, total: int) -> None:
            progress(collection=f"{target.collection}.{name}", done=done, total=total)

        promote(app_db, mirror_db, target, name, ACTOR, report_progress)
        return {"table": target.table}

    def handle_demote(arguments: Arguments, _progress: Progress) -> Result:
        target, name = get_resource(arguments["collection"]), arguments["field"]
        with app_db.read() as connection:
            if name not in list_requested(connection).get(target.collection, ()):
                raise QueryError(f"/{target.collection}: {name!r} was not made a column")
        demote(app_db, mirror_db, target, name)
        return {"table": target.table}

    return {PROMOTE: handle_promote, DEMOTE: handle_demote}


def restore_columns(
    app_db: Database, mirror_db: Database, is_stopping: Callable[[], bool] = lambda: False
) -> None:
    """A mirror that is new, or of another time, gets the columns that are wanted, unless `is_stopping`;
    filling those of a big one takes a minute or so."""
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
