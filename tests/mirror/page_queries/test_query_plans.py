"""Query plans: frequent queries use an index, even without statistics."""

from __future__ import annotations

import pytest

from integration.mirror.calls.schema import build_insert_sql, build_update_sql
from integration.mirror.derived.call_details import CALL_DETAILS
from integration.mirror.derived.search_index import compute_texts
from integration.mirror.page_queries import call_detail, media_lists, platform_labels
from integration.mirror.page_queries.history import ESTIMATED_START
from integration.mirror.privacy.held_records import HeldRecords
from integration.mirror.schema import open_mirror
from integration.sqlite.transaction import Transaction

LISTS = (["Order"], [{"name": "Order"}, {"name": "Complaint"}])


@pytest.fixture
def plan(tmp_path):
    mirror = open_mirror(tmp_path / "mirror.db")

    def explain(sql: str) -> list[str]:
        with mirror.read() as connection:
            return [row["detail"] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}")]

    yield explain
    mirror.close()


@pytest.fixture
def traced(tmp_path):
    """Statements of a write job on an empty mirror."""

    def trace(work) -> list[str]:
        statements: list[str] = []

        def job(tx: Transaction) -> None:
            tx.connection.set_trace_callback(statements.append)
            work(tx)
            tx.connection.set_trace_callback(None)

        mirror = open_mirror(tmp_path / "traced.db")
        mirror.write(job)
        mirror.close()
        return statements

    return trace


def test_the_transcripts_of_a_call_are_found_by_an_index_on_its_legs(plan, traced):
    (sql,) = traced(lambda tx: compute_texts(tx.connection, [(1, 9)], None))[:1]
    steps = plan(sql)
    assert [step for step in steps if step in ("SCAN m", "SCAN v", "SCAN l")] == []
    assert any("monitors_live_id" in step for step in steps)


def test_what_programs_read_of_a_call_is_found_by_indexes_on_its_legs(plan, traced):
    def read(tx: Transaction) -> None:
        call_detail.list_recordings(tx.connection, [1])
        for detail in CALL_DETAILS:
            detail.rebuild(tx, [(1, 9)], None)

    statements = [sql for sql in traced(read) if "monitors" in sql]
    assert len(statements) == 3
    for sql in (*statements, f"SELECT {ESTIMATED_START} FROM _calls AS c WHERE c.id = 1"):
        steps = plan(sql)
        assert any("live_id (live_id=?)" in step for step in steps), steps
        assert not {"SEARCH f USING PRIMARY KEY (kind=?)", "SCAN voicemessages"} & set(steps)


def test_the_count_of_new_messages_reads_only_new_messages(tmp_path):
    mirror, statements = open_mirror(tmp_path / "mirror.db"), []
    with mirror.read() as connection:
        connection.set_trace_callback(statements.append)
        media_lists.count_unplayed(connection, None, [])
        connection.set_trace_callback(None)
        steps = [row["detail"] for row in connection.execute(f"EXPLAIN QUERY PLAN {statements[0]}")]
    mirror.close()
    assert steps[0] == "SCAN v USING INDEX voicemessages_new"


@pytest.mark.parametrize(
    ("media_filter", "index"),
    [
        ({}, "monitors_timestamp"),
        ({"user_id": 7}, "monitors_user_time"),
        ({"user_scope": 7, "since": "2026-10-01 00:00:00"}, "monitors_user_time"),
        ({"account_number": "442079460001", "since": "2026-10-01 00:00:00"}, "monitors_timestamp"),
        ({"state": "missing", "since": "2026-10-01 00:00:00"}, "monitors_timestamp"),
    ],
)
def test_a_list_of_recordings_is_read_in_the_order_of_an_index(tmp_path, media_filter, index):
    mirror, statements = open_mirror(tmp_path / "mirror.db"), []
    media_filter = media_lists.MediaFilter(**media_filter)
    with mirror.read() as connection:
        connection.set_trace_callback(statements.append)
        media_lists.fetch_page(connection, "recording", media_filter)
        media_lists.count_files(connection, "recording", media_filter, ())
        connection.set_trace_callback(None)
        (page, count) = [sql for sql in statements if "monitors m" in sql]
        steps = [row["detail"] for row in connection.execute(f"EXPLAIN QUERY PLAN {page}")]
        count_steps = [row["detail"] for row in connection.execute(f"EXPLAIN QUERY PLAN {count}")]
    mirror.close()
    assert f"USING INDEX {index}" in steps[0]
    assert "USE TEMP B-TREE FOR ORDER BY" not in steps
    if media_filter.since:
        assert any(f"USING INDEX {index}" in step for step in count_steps)


def test_the_legs_under_legal_hold_are_read_by_indexes_and_only_with_a_hold(tmp_path):
    mirror, statements, held_records = open_mirror(tmp_path / "mirror.db"), [], HeldRecords()
    with mirror.read() as connection:
        connection.set_trace_callback(statements.append)
        held_records.load(connection, [], [])
        assert statements == []
        held_records.load(connection, ["+442079460123"], [7])
        connection.set_trace_callback(None)
        steps = [row["detail"] for row in connection.execute(f"EXPLAIN QUERY PLAN {statements[0]}")]
    mirror.close()
    assert held_records.legs == {7}
    assert [step for step in steps if step.startswith("SCAN") and "json_each" not in step] == []


@pytest.mark.parametrize("sql", [build_insert_sql, build_update_sql])
def test_a_row_of_calls_is_written_without_a_statement_journal(tmp_path, sql):
    """Check that no opcode of the statement or its triggers can abort.

    SQLite copies the touched pages of a statement with triggers if a function or a constraint may abort it.
    """
    mirror = open_mirror(tmp_path / "mirror.db")
    with mirror.read() as connection:
        names = [row["name"] for row in connection.execute("PRAGMA table_info(_calls)")]
        statement = sql("_calls", names)
        steps = connection.execute(f"EXPLAIN {statement}", [None] * statement.count("?")).fetchall()
    mirror.close()
    found = {(row["opcode"], row["p2"]) for row in steps}
    assert any(name == "Program" for name, _ in found), "there are triggers"
    abort = 2
    assert not [name for name, p2 in found if "Func" in name or (name.startswith("Halt") and p2 == abort)]


def test_the_names_of_labels_cost_the_same_for_ten_times_as_many_labelled_calls(app):
    def measure(calls: int) -> int:
        app.put("cdrs", *({"id": id_, "live_id": id_, "labels": LISTS[id_ % 2]} for id_ in range(1, calls)))
        steps = 0

        def count() -> None:
            nonlocal steps
            steps += 1

        with app.mirror_db.read() as connection:
            connection.set_progress_handler(count, 10)
            assert platform_labels.list_names(connection) == ["Complaint", "Order"]
            connection.set_progress_handler(None, 0)
            assert sorted(platform_labels.find_legs(connection, "Order")) == list(range(1, calls))
        return steps

    few = measure(100)
    assert measure(1000) <= 1.2 * few
