"""Schemas of the databases as SQL: of this code in `docs/schema/`, of each release for tests of migrations.

`python -m tests.release.schemas` prints those of this code. Those of releases are in
`tests/fixtures/older_schemas/VERSION/`.
"""

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
PRINTED_FOLDER = ROOT / "docs" / "schema"
OPENERS: dict[str, Callable[[Path], Any]] = {"mirror": open_mirror, "house": open_app_db, "inbox": Inbox}
"""Functions that create or migrate a database, by its name without suffix."""


def list_statements(path: Path) -> list[str]:
    """Return the statements that create tables, indexes, triggers and views of a database."""
    with closing(sqlite3.connect(path)) as connection:
        hidden = {row[1] for row in connection.execute("PRAGMA table_list") if row[2] == "shadow"}
        return [
            sql
            for name, sql in connection.execute(
                "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%'"
                " ESCAPE '\\' ORDER BY CASE type WHEN 'table' THEN 0 WHEN 'index' THEN 1 ELSE 2 END, name"
            )
            if name not in hidden
        ]


def dump_schema(path: Path, version: str) -> str:
    """Return the SQL of a database: tables, indexes, triggers, recorded steps."""
    statements = list_statements(path)
    with closing(sqlite3.connect(path)) as connection:
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


def print_schema(path: Path) -> str:
    """Return the text of `docs/schema/NAME.sql`."""
    return (
        f"-- Schema of {path.name}, printed by `python -m tests.release.schemas`.\n"
        "-- The architecture says which package owns a table. Tables may change in any version.\n\n"
    ) + "\n".join(f"{statement};\n" for statement in list_statements(path))


def make_all(make_text: Callable[[Path], str]) -> dict[str, str]:
    """Return the texts of new databases of this code by file name."""
    with tempfile.TemporaryDirectory() as folder:
        texts = {}
        for name, opener in OPENERS.items():
            path = Path(folder, f"{name}.db")
            opener(path).close()
            texts[f"{name}.sql"] = make_text(path)
    return texts


def write_all(folder: Path, make_text: Callable[[Path], str]) -> bool:
    """Write the texts of new databases to `folder`. Returns whether a file changed."""
    is_changed = False
    folder.mkdir(exist_ok=True)
    for name, text in make_all(make_text).items():
        path = folder / name
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            is_changed = True
    return is_changed


def record(version: str) -> bool:
    """Write the schemas of `version`. Returns whether a file changed."""
    return write_all(FOLDER / version, lambda path: dump_schema(path, version))


if __name__ == "__main__":
    write_all(PRINTED_FOLDER, print_schema)
