"""Derived rows follow their sources, are found if they differ, and are computed anew."""

from __future__ import annotations

import random
from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest

from integration.core.phone_numbers import PhoneNumbers
from integration.mirror.calls.schema import build_insert_sql
from integration.mirror.derived import due, rebuild
from integration.mirror.derived.declaration import Rules
from integration.mirror.derived.registry import DERIVED
from integration.mirror.derived.search_index import SEARCH
from integration.mirror.page_queries.missed_calls import CountingRules
from integration.mirror.schema import open_mirror
from integration.sqlite.readers import open_readonly

RULES = Rules(PhoneNumbers("GB"), CountingRules(ZoneInfo("Europe/London")))
CALL = {
    "id": 0, "direction": "in", "state": "ended", "unconfirmed": 0, "provisional": 0, "hold_incomplete": 0,
    "party": "+447700900101", "party_name": "Ann Example", "legs": 1, "recordings": 0, "voicemails": 0,
    "cdrs": 1, "sources": "cdr", "change_no": 0, "started_at": "2026-01-05 10:00:00", "outcome": "answered",
}  # fmt: skip
INSERT = build_insert_sql("_calls", list(CALL))


class Mirror:
    """A mirror whose transactions compute what they make due."""

    def __init__(self, folder) -> None:
        self.database = open_mirror(folder / "mirror.db")
        rebuild.install(self.database, RULES)

    def insert(self, ids, **values) -> None:
        rows = [tuple({**CALL, "id": id_, **values}.values()) for id_ in ids]
        self.database.write(lambda tx: tx.executemany(INSERT, rows))

    def execute(self, sql: str, *parameters: object) -> None:
        self.database.write(lambda tx: tx.execute(sql, parameters))

    def query(self, sql: str) -> list[tuple]:
        with self.database.read() as connection:
            return [tuple(row) for row in connection.execute(sql)]

    def list_due(self, name: str) -> list[tuple]:
        return self.query(f"SELECT low, high FROM _due WHERE derived = '{name}'")

    def find_differences(self) -> dict[str, list]:
        with open_readonly(self.database.path) as connection:
            found = {
                derived.name: list(rebuild.find_differences(connection, derived, RULES, sampled=False))
                for derived in DERIVED
            }
        return {name: ranges for name, ranges in found.items() if ranges}


@pytest.fixture
def mirror(tmp_path):
    mirror = Mirror(tmp_path)
    yield mirror
    mirror.database.close()


def test_any_change_is_followed_and_every_wrong_row_is_found(mirror):
    rng = random.Random(3)
    for number in range(200):
        match rng.choice(("insert", "update", "delete", "bulk", "rebuild")):
            case "insert":
                mirror.insert([number], party_name=rng.choice(("Zoë Müller", "Ann")))
            case "update":
                mirror.execute(
                    "UPDATE _calls SET party_name = ?, started_at = ?, outcome = 'missed' WHERE id % 7 = ?",
                    f"Name {number}", f"2026-01-{rng.randrange(1, 29):02} 11:00:00", rng.randrange(7),
                )  # fmt: skip
            case "delete":
                mirror.execute("DELETE FROM _calls WHERE id % 11 = ?", rng.randrange(11))
            case "bulk":
                mirror.insert(range(1000 * number, 1000 * number + 80))
            case "rebuild":
                rebuild.rebuild_due(mirror.database, RULES)
        assert mirror.find_differences() == {}
    rebuild.rebuild_due(mirror.database, RULES)
    assert mirror.query("SELECT count(*) FROM _calls") == mirror.query("SELECT count(*) FROM _calls_search")
    assert mirror.list_due("search") == []
    ((wrong,),) = mirror.query("SELECT max(id) FROM _calls")
    mirror.execute("UPDATE _calls_search SET text = 'changed' WHERE rowid = ?", wrong)
    ((low, high),) = mirror.find_differences()["search"]
    assert low <= wrong <= high
    # Rows of calls that do not exist, above and below all others.
    for orphan in (wrong + 1000, -5):
        mirror.execute("INSERT INTO _calls_search (rowid, text) VALUES (?, 'nobody')", orphan)
    above, *_, below = differences = mirror.find_differences()["search"]
    assert above[0] <= wrong + 1000 <= above[1]
    assert below[0] <= -5 <= below[1]
    mirror.database.write(lambda tx: due.mark(tx, "search", differences))
    rebuild.rebuild_due(mirror.database, RULES)
    assert mirror.find_differences() == {}


def test_a_bulk_store_records_one_range_and_its_newest_keys_are_computed_first(mirror):
    ids = range(1, 3001)
    rows = [tuple({**CALL, "id": id_}.values()) for id_ in ids]
    mirror.database.write(lambda tx: (due.mark_new(tx, SEARCH, ids), tx.executemany(INSERT, rows)))
    assert mirror.list_due("search") == [(1, 3000)]
    with mirror.database.read() as connection:
        assert [state.count for state in due.list_states(connection, [SEARCH])] == [3000]
    mirror.database.write(lambda tx: rebuild.rebuild_next(tx, SEARCH, RULES, 1000))
    assert mirror.list_due("search") == [(1, 2000)]
    assert mirror.query("SELECT min(rowid), max(rowid) FROM _calls_search") == [(2001, 3000)]
    mirror.insert([3001])
    assert mirror.query("SELECT max(rowid) FROM _calls_search") == [(3001,)]
    # Calls that were stored one by one between older ones are no range.
    mirror.database.write(lambda tx: due.mark_new(tx, SEARCH, list(range(2500, 2000, -5))))
    assert mirror.list_due("search") == [(1, 2000)]


def test_recording_a_key_reads_only_the_range_before_it(mirror):
    steps = []

    def job(tx):
        tx.executemany("INSERT INTO _due VALUES ('search', ?, ?, 1)", [(n, n) for n in range(1, 2000)])
        tx.connection.set_progress_handler(lambda: steps.append(100), 100)
        tx.execute(INSERT, tuple(CALL.values()))
        tx.connection.set_progress_handler(None, 0)

    mirror.database.write(job)
    assert sum(steps) < 2000


def test_changed_rules_make_all_due_and_other_rules_are_not_compared(mirror, monkeypatch):
    mirror.insert([1, 2])
    changed = replace(SEARCH, describe_rules=lambda rules: "another form")
    monkeypatch.setattr(rebuild, "DERIVED", (changed,))
    mirror.execute("UPDATE _calls_search SET text = 'of the former rules'")
    with open_readonly(mirror.database.path) as connection:
        assert list(rebuild.find_differences(connection, changed, RULES, sampled=False)) == []
    rebuild.install(mirror.database, RULES)
    ((low, high),) = mirror.list_due("search")
    assert low < 1
    assert high > 2
    rebuild.rebuild_due(mirror.database, RULES, (changed,))
    assert mirror.query("SELECT count(*) FROM _calls_search WHERE text LIKE 'of the%'") == [(0,)]
    rebuild.install(mirror.database, RULES)
    assert mirror.list_due("search") == []


def test_a_change_is_stored_although_its_derived_rows_cannot_be_computed(mirror, caplog):
    mirror.execute("ALTER TABLE monitors RENAME TO hidden")
    mirror.insert([1], recordings=1)
    assert mirror.query("SELECT id FROM _calls") == [(1,)]
    assert "derived rows of a change could not be computed" in caplog.text
    assert mirror.list_due("search") == [(1, 1)]
    mirror.execute("ALTER TABLE hidden RENAME TO monitors")
    rebuild.rebuild_due(mirror.database, RULES)
    assert mirror.query("SELECT rowid FROM _calls_search") == [(1,)]


def test_a_transcript_that_was_stored_before_its_call_was_computed_is_found(mirror):
    mirror.execute(
        "INSERT INTO monitors (id, live_id, transcript, _doc, _first_seen, _last_seen, _source)"
        " VALUES (5, 11, 'the greenhouse has no door', '{}', '', '', 'sync')"
    )
    mirror.execute(
        "INSERT INTO cdrs (id, live_id, calldate, _doc, _first_seen, _last_seen, _source)"
        " VALUES (7, '11', '2026-01-05 10:00:00', '{}', '', '', 'sync')"
    )
    assert mirror.query("SELECT count(*) FROM _calls_search WHERE text LIKE '%greenhouse%'") == [(1,)]
