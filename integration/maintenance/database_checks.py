"""Health checks of the databases, and the report on damaged ones."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from integration.context import AppContext
from integration.sqlite import damage
from integration.sqlite.database import Database

FACT = "damaged databases"
"""Name of the fact with the names of the files that were put aside."""


def register(context: AppContext) -> None:
    """Register the health checks of the databases, and report damaged files.

    A failed writer makes `/readyz` 503. Damage or a failed listener makes it degraded, because webhooks are
    still stored.
    """
    health = context.health
    for database in (context.inbox.database, context.mirror_db, context.app_db):
        health.probe(database.name, partial(_find_database_problem, database), essential=True)
        health.probe(f"content of {database.name}", partial(_find_damage, database))
        health.probe(f"listeners of {database.name}", partial(getattr, database, "listener_error"))
    if names := list_damaged_names(context.settings.storage.data_dir):
        health.set_fact(FACT, names)


def list_damaged_names(data_dir: Path) -> list[str]:
    """List the names of damaged files that were put aside."""
    return [path.name for path in damage.list_put_aside(data_dir)]


def _find_database_problem(database: Database) -> str | None:
    return None if database.is_healthy else "The writer has failed. Restart Switchroom."


def _find_damage(database: Database) -> str | None:
    if database.damage is None:
        return None
    if database.name == "mirror.db":
        return f"{database.damage}. The file is being replaced; webhooks are stored."
    return f"{database.damage}. Stop Switchroom, restore the last backup, and start it again."
