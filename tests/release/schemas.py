"""Schemas of the databases of each release, as SQL text in `tests/fixtures/older_schemas/VERSION/`."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from integration.app_schema import open_app_db
from integration.inbox.store import Inbox
from integration.mirror.schema import open_mirror
from tests.support.harness import ROOT

FOLDER = ROOT / "tests" / "fixtures" / "older_schemas"
OPENERS: dict[str, Callable[[Path], Any]] = {"mirror": open_mirror, "house": open_app_db, "inbox": Inbox}
"""Functions that create or migrate a database, by its name without suffix."""


def dump_schema(path: Path, version: str) -> str:
    """Return the SQL of a database: tables, indexes, triggers, recorded steps."""
    with closing(sqlite3.connect(path)) as connection:
        hidden = {row[1] for row in connection.execute("PRAGMA table_list") if row[2] == "shadow"}
        statements = [
            sql
            for name, sql in connection.execute(
                "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%'"
                " ESCAPE '\\' ORDER BY CASE type WHEN 'table' THEN 0 WHEN 'index' THEN 1 ELSE 2 END, name"
            )
            if name not in hidden
        ]
        steps = connection.execute(
            "SELECT migration_set, name FROM _sqlite_migrations ORDER BY id"
        ).fetchall()
    for step in steps:
        texts = ", ".join("'" + text.replace("'", "''") + "'" for text in (*step, "2026-11-23 00:00:00"))
        statements.append(
            f"INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ({texts})"
        )
    return f"-- The schema of {path.name} as version {version} created it.\n" + "".join(
        f"{statement};\n" for statement in statements
    )


def dump_all(version: str) -> dict[str, str]:
    """Return the schemas of new databases of this code by file name."""
    with tempfile.TemporaryDirectory() as folder:
        texts = {}
        for name, opener in OPENERS.items():
            path = Path(folder, f"{name}.db")
            opener(path).close()
            texts[f"{name}.sql"] = dump_schema(path, version)
    return texts


def record(version: str) -> bool:
    """Write the schemas of `version`. Returns whether a file changed."""
    folder, is_changed = FOLDER / version, False
    folder.mkdir(exist_ok=True)
    for name, text in dump_all(version).items():
        path = folder / name
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            is_changed = True
    return is_changed
