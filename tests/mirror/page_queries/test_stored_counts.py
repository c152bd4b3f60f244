"""Stored counts equal real counts; a limited count is marked as such."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from integration.core import clock
from integration.mirror.page_queries import history, media_lists
from integration.mirror.page_queries.history import CallFilter
from integration.mirror.schema import open_mirror
from integration.mirror.sync_state import media_files
from tests.support.application import running_app

STATES = ("wanted", "have", "failed", "gone")


@pytest.fixture
def mirror(tmp_path):
    mirror = open_mirror(tmp_path / "mirror.db")
    yield mirror
    mirror.close()


def test_stored_file_counts_by_state_equal_the_files_after_random_changes(mirror):
    rng = random.Random(5)
    kinds = ("recording", "voicemail")
    for _ in range(200):
        kind, number, size = rng.choice(kinds), rng.randrange(20), rng.choice((None, 10, 700))
        sql, values = rng.choice(
            (
                ("INSERT OR IGNORE INTO media (kind, record_id, path, size, state, updated_at)"
                 " VALUES (?, ?, 'x', ?, ?, '')", (kind, number, size, rng.choice(STATES))),
                ("INSERT INTO media (kind, record_id, path, size, state, updated_at)"
                 " VALUES (?, ?, 'x', ?, ?, '') ON CONFLICT DO UPDATE SET state = excluded.state,"
                 " size = excluded.size",
                 (kind, number, size, rng.choice(STATES))),
                ("UPDATE media SET state = ?, size = NULL WHERE kind = ? AND record_id = ?",
                 (rng.choice(STATES), kind, number)),
                ("DELETE FROM media WHERE kind = ? AND record_id = ?", (kind, number)),
            )
        )  # fmt: skip
        mirror.write(lambda tx, sql=sql, values=values: tx.execute(sql, values))
    with mirror.read() as connection:
        rows = connection.execute("SELECT kind, state, count(*) FROM media GROUP BY 1, 2").fetchall()
        size = connection.execute("SELECT sum(size) FROM media WHERE state = 'have'").fetchone()[0]
        assert media_files.count_by_state(connection, media_files.AUTOMATIC_KINDS) == {
            (row[0], row[1]): row[2] for row in rows
        }
        assert media_files.count_stored_bytes(connection) == size
        assert media_lists.count_by_state(connection, "voicemail") == {
            row[1]: row[2] for row in rows if row[0] == "voicemail"
        }


def test_a_count_that_stops_at_the_limit_is_marked_as_incomplete(tmp_path, monkeypatch):
    with running_app(tmp_path / "data") as app:
        for number in range(1, 31):
            app.call(number, clock.utc_text(clock.unix() - 60 * number), talk_seconds=number)
        call_filter = CallFilter(min_talk_seconds=25)
        with app.mirror_db.read() as connection:
            assert history.count_up_to_limit(connection, call_filter) == (6, True)
            monkeypatch.setattr(history, "MAX_COUNT", 10)
            number, is_complete = history.count_up_to_limit(
                connection, replace(call_filter, min_talk_seconds=5)
            )
            assert (number < 26, is_complete) == (True, False)
            assert history.count_up_to_limit(connection, CallFilter(user_id=7)) == (0, True)
        page = app.log_in().get("/calls?min=5").text
        assert ">more than" not in page, "one page shows all calls"


def test_pages_of_calls_in_time_spans_contain_each_call_once(tmp_path, monkeypatch):
    monkeypatch.setattr(history, "NEWEST_SPANS", 2)
    with running_app(tmp_path / "data") as app:
        for number in range(1, 21):
            app.call(number, f"2026-03-{number:02} 10:30:00")
        hours = (
            "["
            + ",".join(f'["2026-03-{day:02} 10:00:00", "2026-03-{day:02} 11:00:00"]' for day in range(1, 21))
            + "]"
        )
        call_filter = CallFilter(time_spans=hours)
        with app.mirror_db.read() as connection:
            for size in (1, 2, 5):
                seen, page = [], history.fetch_page(connection, call_filter, size=size)
                while True:
                    seen += [row["id"] for row in page.rows]
                    if page.older is None:
                        break
                    page = history.fetch_page(connection, call_filter, page.older, size=size)
                assert seen == list(range(20, 0, -1))
            assert history.count(connection, call_filter) == 20
