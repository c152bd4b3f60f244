"""Fields to which users of version 0.1.0 gave columns are read from the records."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.release.schemas import FOLDER
from tests.support.clock import Clock
from tests.support.people import BOB
from tests.support.scheduled_exports import ScheduledExports

MOODS = {1: "dull", 2: "fine", 3: None}
"""Value of the field `mood` by id of the CDR."""
IS_FINE = json.dumps([{"property": "mood", "operator": "eq", "value": "fine"}])


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Databases of 0.1.0 with the columns `mood`, and `tone`, which is not filled yet."""
    folder = tmp_path / "data0"
    folder.mkdir()
    for name in ("mirror", "house", "inbox"):
        with closing(sqlite3.connect(folder / f"{name}.db")) as connection, connection:
            connection.executescript((FOLDER / "0.1.0" / f"{name}.sql").read_text())
    with closing(sqlite3.connect(folder / "mirror.db")) as connection, connection:
        connection.execute("ALTER TABLE cdrs ADD COLUMN mood ANY")
        connection.execute("ALTER TABLE cdrs ADD COLUMN tone ANY")
        connection.execute("CREATE INDEX cdrs_promoted_mood ON cdrs (mood, _missing_since)")
        # This field is documented by now.
        connection.execute("CREATE INDEX cdrs_promoted_src ON cdrs (src, _missing_since)")
        for number, mood in MOODS.items():
            record = {
                "id": number,
                "calldate": "2026-11-18 10:00:00",
                "src": "1",
                "mood": mood,
                "tone": "low",
            }
            connection.execute(
                "INSERT INTO cdrs (id, calldate, src, mood, _doc, _first_seen, _last_seen, _source)"
                " VALUES (:id, :calldate, :src, :mood, :doc, :calldate, :calldate, 'sync')",
                {**record, "doc": json.dumps(record, separators=(",", ":"))},
            )
    with closing(sqlite3.connect(folder / "house.db")) as connection, connection:
        connection.execute("INSERT INTO promoted_fields VALUES ('cdrs', 'mood', 'a@example.com', '')")
        connection.execute("INSERT INTO column_sets VALUES (1, NULL, 'cdrs', 'Moods', 'id,mood', 1, '')")
    return folder


def test_filters_column_sets_and_schedules_read_promoted_fields_from_the_records(
    data_dir: Path,
    make_exporting: Callable[..., ScheduledExports],
    movable_clock: Clock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = make_exporting()
    assert app.data_dir == data_dir
    (notice,) = [line for line in caplog.messages if "promoted" in line]
    assert "are dropped: cdrs.mood, cdrs.tone;" in notice

    app.schedule(args={"set": "Moods", "filter": IS_FINE})
    app.put("cdrs", {"id": 4, "calldate": "2026-11-18 11:00:00", "mood": "fine"}, complete=False)
    app.put("cdrs", {"id": 1, "calldate": "2026-11-18 10:00:00", "mood": "fine"}, complete=False)
    moods = {**MOODS, 4: "fine", 1: "fine"}
    records = app.get("/cdrs", query_string={"filter": IS_FINE, "sort": "id"}).json["data"]
    assert [record["id"] for record in records] == [1, 2, 4]
    export = app.log_in(BOB).get("/exports/cdrs.csv", params={"set": "Moods", "sort": "mood", "dir": "DESC"})
    assert dict(line.split(",") for line in export.text.split()[1:]) == {
        str(number): f'"{mood}"' if mood else "" for number, mood in moods.items()
    }
    movable_clock.set("2026-11-19 03:00:00")
    app.count_day("2026-11-17", 0, 0)
    app.count_day("2026-11-18", 4, 4)
    app.finish_sync()
    app.deliver()
    (delivered,) = app.exported_files().values()
    assert delivered.split() == ['"id","mood"', '1,"fine"', '2,"fine"', '4,"fine"']

    caplog.clear()
    app.restart()
    assert "promoted" not in caplog.text
    with app.mirror_db.read() as connection:
        assert not connection.execute(
            "SELECT name FROM sqlite_schema WHERE name GLOB 'cdrs_promoted*'"
        ).fetchall()
        columns = {row[0] for row in connection.execute("SELECT name FROM pragma_table_info('cdrs')")}
    assert columns.isdisjoint({"mood", "tone"})
    assert "src" in columns
