"""`sync promote` and `sync demote`: columns for undocumented fields."""

from __future__ import annotations

import json

from integration.catalogue import get_resource
from integration.core.json_records import JsonRecord
from integration.mirror.records.upsert import upsert
from integration.mirror.schema import open_mirror


def columns(home):
    mirror = open_mirror(home.data_dir / "mirror.db")
    try:
        with mirror.read() as connection:
            found = [row[0] for row in connection.execute("SELECT name FROM pragma_table_info('cdrs')")]
            values = connection.execute("SELECT mood FROM cdrs").fetchall() if "mood" in found else []
    finally:
        mirror.close()
    return [row[0] for row in values]


def test_a_field_is_promoted_to_a_column_and_demoted(home):
    mirror = open_mirror(home.data_dir / "mirror.db")
    record = {"id": 1, "mood": "fine"}
    documents = [JsonRecord(json.dumps(record), record)]
    mirror.write(
        lambda tx: upsert(
            tx, get_resource("cdrs"), documents, source="sync", requested_at="2026-11-02 09:15:00"
        )
    )
    mirror.close()
    # It names another platform than the settings of the command.
    (home.data_dir / "account.json").unlink()
    done = home.run("sync", "promote", "cdrs", "mood")
    assert (done.returncode, done.stdout) == (0, "mood is a column of cdrs\n"), done.stderr
    assert columns(home) == ["fine"]
    done = home.run("sync", "demote", "cdrs", "mood")
    assert (done.returncode, done.stdout) == (0, "mood is no longer a column of cdrs\n"), done.stderr
    assert columns(home) == []


def test_promote_requires_a_collection_and_a_field(home):
    assert home.run("sync", "promote", "cdrs").returncode == 2
