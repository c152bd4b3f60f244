"""Which undocumented fields are columns of the mirror, by whose wish. It stands here so that a mirror that is
built anew has them again."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from integration.catalogue import UnknownResource, resource
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.errors import QueryError
from integration.mirror.records import promoted_fields as promoted
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

if TYPE_CHECKING:
    from integration.server.control_channel import Arguments, Handler, Progress, Result

WHO = "command line"
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


def wanted(connection: sqlite3.Connection) -> dict[str, set[str]]:
    """Collection → fields."""
    found: dict[str, set[str]] = defaultdict(set)
    for collection, name in connection.execute("SELECT collection, field FROM promoted_fields"):
        found[collection].add(name)
    return dict(found)


def promote(
    house: Database,
    mirror: Database,
    of: Resource,
    name: str,
    who: str,
    told: Callable[[int, int], None] = lambda _done, _total: None,
) -> None:
    """Make a field a column, for good; `told(done, total)` records. Raises QueryError where it can't be."""
    with mirror.read() as connection:
        why = promoted.refusal(connection, of, name)
    if why is not None:
        raise QueryError(why)
    # First: what is interrupted here is finished at the next start.
    house.write(lambda tx: _note(tx, of, name, who))
    promoted.promote(mirror, of, name, told)


def demote(house: Database, mirror: Database, of: Resource, name: str) -> None:
    """Take a column away, for good. What is interrupted is as it was at the next start."""
    promoted.demote(mirror, of, name)
    house.write(
        lambda tx: (
            tx.execute(
                "DELETE FROM promoted_fields WHERE collection = ? AND field = ?", (of.collection, name)
            )
            and None
        )
    )


def handlers(house: Database, mirror: Database) -> Mapping[str, Handler]:
    """`promote` and `demote` {collection, field}, for the channel."""

    def make(arguments: Arguments, progress: Progress) -> Result:
        of, name = resource(arguments["collection"]), arguments["field"]

        def told(done: int, total: int) -> None:
            progress(collection=f"{of.collection}.{name}", done=done, total=total)

        promote(house, mirror, of, name, WHO, told)
        return {"table": of.table}

    def take_back(arguments: Arguments, _progress: Progress) -> Result:
        of, name = resource(arguments["collection"]), arguments["field"]
        with house.read() as connection:
            if name not in wanted(connection).get(of.collection, ()):
                raise QueryError(f"/{of.collection}: {name!r} was not made a column")
        demote(house, mirror, of, name)
        return {"table": of.table}

    return {PROMOTE: make, DEMOTE: take_back}


def settle(house: Database, mirror: Database, stopping: Callable[[], bool] = lambda: False) -> None:
    """A mirror that is new, or of another time, gets the columns that are wanted, unless `stopping`; filling
    those of a big one takes a minute or so."""
    with house.read() as connection:
        fields = wanted(connection)
    for collection, names in fields.items():
        try:
            of = resource(collection)
        except UnknownResource:
            continue
        promoted.settle(mirror, of, names, stopping)


def _note(tx: Transaction, of: Resource, name: str, who: str) -> None:
    tx.execute(
        "INSERT OR REPLACE INTO promoted_fields VALUES (?, ?, ?, ?)",
        (of.collection, name, who, clock.stamp()),
    )
