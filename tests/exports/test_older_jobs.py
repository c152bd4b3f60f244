"""Schedules and prepared exports of version 0.1.0 continue after an upgrade."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from integration.core import clock
from integration.exports import jobs
from tests.release.schemas import FOLDER
from tests.support.clock import Clock
from tests.support.people import BOB
from tests.support.scheduled_exports import ScheduledExports

ROWS = """
INSERT INTO people (id, email, role, created_at) VALUES (3, 'bob@example.com', 'supervisor', '2026-01-01');
INSERT INTO export_schedules VALUES
    (4, 'Desk', 'desk', 'bob@example.com', 'cdrs', 'csv', '{"columns": "id"}', 'day', '02:30',
     'Europe/Berlin', 'folder', 'in', '', 6, 1, '2026-11-15 12:00:00', NULL, '2026-01-02 03:04:05'),
    (5, 'Left', 'left', 'gone@example.com', 'cdrs', 'csv', '{}', 'week', '06:00', 'UTC', 'put',
     'https://files.example.com/in', 'Bearer x', 0, 0, '2026-11-15 12:00:00', '2026-11-16 00:00:00', ''),
    (9, 'Removed', 'removed', '', 'cdrs', 'csv', '{}', 'day', '06:00', 'UTC', 'folder', '', '', 6, 1,
     '', NULL, '');
DELETE FROM export_schedules WHERE id = 9;
INSERT INTO export_periods (schedule_id, period, state, tries, next_at, holds_all, error, waits_for,
    partial_at, again)
VALUES (4, '2026-11-15', 'delivered', 0, NULL, 0, NULL, NULL, NULL, 2),
    (4, '2026-11-16', 'open', 3, '2026-11-18 13:00:00', 1, 'the disk is full', 'records',
     '2026-11-17 09:00:00', 1),
    (5, '2026-W46', 'skipped', 0, NULL, 0, NULL, NULL, NULL, 0);
INSERT INTO export_attempts (schedule_id, name, period, at, file, state, result)
VALUES (4, 'Desk', '2026-11-15', '2026-11-16 01:30:00', 'desk-2026-11-15.csv', 'delivered', 'written');
INSERT INTO prepared_exports (id, owner, who, person_id, export, form, args, state, total, begun, rows, bytes,
    created_at, ended_at)
VALUES
    (11, 'person 3', 'bob@example.com', 3, 'cdrs', 'xlsx', '{}', 'done', 6, 1, 6, 4, '2026-11-18 10:00:00',
     '2026-11-18 10:01:00'),
    (12, 'person 3', 'bob@example.com', 3, 'cdrs', 'xlsx', '{"columns": "id"}', 'running', 1, 1, NULL, NULL,
     '2026-11-18 11:00:00', NULL),
    (20, 'key 1', 'k', NULL, 'cdrs', 'xlsx', '{}', 'cancelled', 1, 0, NULL, NULL, '', '2026-11-18 11:00:00');
"""


def test_waiting_and_finished_jobs_of_an_older_version_go_on(
    tmp_path: Path, make_exporting: Callable[..., ScheduledExports], movable_clock: Clock
) -> None:
    prepared = tmp_path / "data0" / "prepared"
    prepared.mkdir(parents=True)
    (prepared / "11.xlsx").write_bytes(b"file")
    with closing(sqlite3.connect(tmp_path / "data0" / "house.db")) as connection, connection:
        connection.executescript((FOLDER / "0.1.0" / "house.sql").read_text() + ROWS)
    app = make_exporting()
    app.put_cdrs("2026-11-16 10:00:00")
    app.finish_sync()
    bob = app.log_in(BOB)
    assert bob.get("/exports/prepared/11/file").content == b"file"
    app.runner.do_due_runs(None)
    states = {number: bob.get(f"/exports/prepared/{number}") for number in (11, 12, 20)}
    assert [states[number].json()["state"] for number in (11, 12)] == ["done", "done"]
    assert states[20].status_code == 404
    with app.app_db.read() as connection:
        desk, left = jobs.list_schedules(connection)
        statuses = [status.state for status in jobs.list_statuses(connection, clock.now())]
        assert list(jobs.list_failing(connection)) == [("Desk", "the disk is full")]
    assert (desk.id, desk.person_id, desk.args, statuses) == (4, 3, {"columns": "id"}, ["failing", "paused"])
    assert (left.id, left.person_id, left.place, left.secret, left.incomplete) == (
        5, None, "https://files.example.com/in", "Bearer x", False,
    )  # fmt: skip
    app.deliver(desk)
    assert app.exported_files("in") == {}, "the back-off of the older version holds"
    movable_clock.advance(hours=1)
    app.deliver(desk)
    app.deliver(desk)
    assert list(app.exported_files("in")) == ["desk-2026-11-16.csv", "desk-2026-11-17.csv"]
    assert [attempt[:2] for attempt in app.attempts(desk)] == [
        ("2026-11-15", "delivered"), ("2026-11-16", "delivered"), ("2026-11-17", "delivered"),
    ]  # fmt: skip
    assert app.schedule("New").id > 9, "the log has attempts of the schedule that was removed"
    with app.app_db.read() as connection:
        row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'export_runs'").fetchone()
    assert row[0] > 20, "no path of a prepared export gets another file"
