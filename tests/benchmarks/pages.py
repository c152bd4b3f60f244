"""Benchmark of the dashboard's pages with many calls.

Each page is compared with 50 rows of a SELECT in a minimal template, in alternating runs. CPU time of the
responding thread is compared, because other processes affect elapsed time. A response is produced by one
thread.
"""

from __future__ import annotations

import random
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from flask import Flask, render_template_string

from integration.core import clock
from integration.mirror.page_queries import report_rollups, search_index
from integration.mirror.schema import open_mirror
from integration.mirror.sync_state import collection_state
from integration.sqlite.transaction import Transaction
from integration.workspace import wallboards
from tests.support.application import TestApp, make_app

ROUNDS = 7
LIMIT = 50.0
"""CPU milliseconds that a page may take."""
ZONE = "Europe/London"
FIRST_CALL = 3_000_001
PEOPLE, NUMBERS, GROUPS, CONTACTS = 30, 12, 6, 5000
TEMPLATE = "{% for row in rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>{% endfor %}"

Row = tuple[Any, ...]


# --- a year of a busy office -----------------------------------------------------------------------------


def fill(folder: Path, calls: int) -> None:
    """Create a mirror with `calls` calls of the last year."""
    path = folder / "mirror.db"
    mirror = open_mirror(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        for table, columns, rows in _account():
            _put(connection, table, columns, rows)
        for begin in range(0, calls, 50_000):
            for table, columns, rows in _history(begin, min(begin + 50_000, calls), calls):
                _put(connection, table, columns, rows)
        connection.execute("COMMIT")
    for collection in ("cdrs", "monitors", "contacts", "users", "ddis"):
        mirror.write(
            lambda tx, collection=collection: collection_state.finish_full_sync(tx, collection, None, None)
        )
    search_index.index_all_due(mirror)
    while report_rollups.update_due(mirror, ZoneInfo(ZONE), 20):
        pass
    mirror.close()


def _put(connection: sqlite3.Connection, table: str, columns: str, rows: list[Row]) -> None:
    if not table.startswith("_") and table != "media":
        now = clock.utc_text()
        columns += ", _doc, _first_seen, _last_seen, _source"
        rows = [(*row, "{}", now, now, "sync") for row in rows]
    marks = ", ".join("?" * (columns.count(",") + 1))
    connection.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", rows)


def _account() -> Iterator[tuple[str, str, list[Row]]]:
    yield (
        "users",
        "id, first_name, last_name, ext, active",
        [(number, "Ann", f"Example {number}", 1000 + number, 1) for number in range(1, PEOPLE + 1)],
    )
    yield "ddis", "id, e164, name", [(number, _line(number), f"Line {number}") for number in range(NUMBERS)]
    yield "queues", "id, name", [(number, f"Queue {number}") for number in range(GROUPS)]
    yield (
        "contacts",
        "id, first_name, last_name, company, tel",
        [(number, "Bob", f"Sample {number}", "Example Ltd", _party(number)) for number in range(CONTACTS)],
    )
    yield (
        "_contact_numbers",
        "e164, contact_id, name",
        [(f"+{_party(number)}", number, f"Bob Sample {number}") for number in range(CONTACTS)],
    )


def _line(number: int) -> str:
    return f"4420794600{number:02}"


def _party(number: int) -> str:
    return f"{(44, 44, 44, 1, 353, 49)[number % 6]}77009{number:06}"


def _history(begin: int, end: int, calls: int) -> Iterator[tuple[str, str, list[Row]]]:
    chance = random.Random(begin)
    now = clock.now().replace(tzinfo=None)
    rows: dict[str, list[Row]] = {
        name: [] for name in ("calls", "legs", "ids", "cdrs", "monitors", "media", "voice")
    }
    for number in range(begin, end):
        at = _moment(chance, now, number / calls)
        _call(chance, FIRST_CALL + number, at, rows)
    yield (
        "_calls",
        "id, direction, state, unconfirmed, provisional, outcome, started_at, answered_at, state_since,"
        " ended_at, wait_seconds, talk_seconds, hold_incomplete, party, party_e164, party_name, our_number,"
        " our_e164, group_kind, group_id, group_name, user_id, user_name, extension, charge, legs,"
        " recordings, voicemails, cdrs, sources, change_no",
        rows["calls"],
    )
    yield (
        "_legs",
        "leg_id, call_id, started, side, state, started_at, connected, inferred, missing, src, dst, user_id,"
        " user_name, duration, billsec, disposition, cdrs, recordings, voicemails, sources, origins",
        rows["legs"],
    )
    yield "_call_ids", "id, call_id", rows["ids"]
    yield "cdrs", "id, live_id, calldate, src, dst, duration, billsec, disposition, user_id", rows["cdrs"]
    yield (
        "monitors",
        "id, live_id, timestamp, duration, caller, called, user_id, transcript",
        rows["monitors"],
    )
    yield "media", "kind, record_id, path, size, state, tries, updated_at", rows["media"]
    yield "voicemessages", "id, live_id, origtime, duration, caller, extension_id, is_new", rows["voice"]


def _moment(chance: random.Random, now: datetime, share: float) -> datetime:
    """Return a time in office hours of the last year.

    `share`: 0 for a year ago, 1 for now.
    """
    day = (now - timedelta(days=365 * (1 - share))).replace(hour=0, minute=0, second=0, microsecond=0)
    return min(day + timedelta(seconds=int(chance.triangular(7 * 3600, 20 * 3600, 11 * 3600))), now)


def _call(chance: random.Random, id_: int, at: datetime, rows: dict[str, list[Row]]) -> None:
    direction = chance.choice(("in", "in", "in", "out", "internal"))
    outcome = {"out": "answered", "internal": "internal"}.get(direction) or chance.choice(
        ("answered",) * 12 + ("missed", "missed", "voicemail", "abandoned")
    )
    answered = outcome == "answered"
    party, line = _party(int(40_000 * chance.random() ** 3)), _line(chance.randrange(NUMBERS))
    user = chance.randint(1, PEOPLE) if answered else None
    wait, talk = chance.randint(2, 45), chance.randint(10, 900) if answered else None
    group = chance.randrange(GROUPS) if direction == "in" and chance.random() < 0.7 else None
    recorded, voicemail = int(answered and chance.random() < 0.4), int(outcome == "voicemail")
    begun, over = f"{at:%Y-%m-%d %H:%M:%S}", f"{at + timedelta(seconds=wait + (talk or 0)):%Y-%m-%d %H:%M:%S}"
    name = f"Ann Example {user}" if user else None
    charge = 0.02 * (talk or 0) / 60 if direction == "out" else None
    rows["calls"].append(
        (id_, direction, "ended", 0, 0, outcome, begun, begun if answered else None, over, over, wait, talk,
         0, party, f"+{party}", "", line, f"+{line}", None if group is None else "queue", group,
         None if group is None else f"Queue {group}", user, name, user and str(1000 + user), charge, 1,
         recorded, voicemail, 1, "webhook,cdr", 0)
    )  # fmt: skip
    unix = int(at.timestamp())
    rows["legs"].append(
        (id_, id_, unix, direction, "ENDED", begun, int(answered), 0, 0, party, line, user, name,
         wait + (talk or 0), talk or 0, "CONNECTED" if answered else "NO ANSWER", 1, recorded, voicemail,
         "webhook,cdr", "{}")
    )  # fmt: skip
    rows["ids"].append((id_, id_))
    rows["cdrs"].append((id_, id_, begun, party, line, wait + (talk or 0), talk or 0, "CONNECTED", user))
    if recorded:
        words = chance.choices(("invoice", "delivery", "Tuesday", "thanks", "address", "refund"), k=12)
        spoken = " ".join(words) if chance.random() < 0.1 else None
        rows["monitors"].append((id_, id_, begun, talk, party, line, user, spoken))
        state = "have" if chance.random() < 0.99 else "failed"
        rows["media"].append(("recording", id_, f"recordings/{id_}.mp3", 90_000, state, 1, begun))
    if voicemail:
        rows["voice"].append((id_, id_, begun, 20, party, 1, int(chance.random() < 0.001)))


def add_callbacks(app: TestApp, count: int) -> None:
    """Add call-backs, of which the newest 100 are open."""
    rows = [
        (_party(number), clock.utc_text(clock.unix() - 60 * number), FIRST_CALL + number,
         "open" if number < 100 else "closed")
        for number in range(count)
    ]  # fmt: skip

    def work(tx: Transaction) -> None:
        tx.executemany(
            "INSERT INTO callbacks (party, party_name, opened_at, last_at, attempts, last_call_id, reason,"
            " state) VALUES (?1, '', ?2, ?2, 1, ?3, 'missed', ?4)",
            rows,
        )

    app.app_db.write(work)


# --- measuring -------------------------------------------------------------------------------------------


def list_pages(newest: int, wall: str) -> dict[str, str]:
    """Return the paths of pages by name.

    `newest`: id of the last call. `wall`: token of a wallboard.
    """
    return {
        "live": "/",
        "missed": "/missed",
        "calls": "/calls",
        "calls, everything": "/calls?range=all",
        "calls, missed": "/calls?range=all&outcome=not_talked",
        "calls, of a person": "/calls?range=all&person=7",
        "calls, of a number": f"/calls?range=all&line={_line(3)}",
        "calls, long ones": "/calls?range=all&min=880",
        "calls, an hour of a weekday": "/calls?range=all&weekday=1&hour=10",
        "calls, a rare number": f"/calls?range=all&q={_party(39_000)}",
        "calls, part of a number": "/calls?range=all&q=7700900",
        "calls, a word": "/calls?range=all&q=refund",
        "call": f"/calls/{newest}",
        "messages": "/messages",
        "voicemail": "/voicemail",
        "recordings": "/recordings",
        "recordings, failed": "/recordings?state=failed",
        "recordings, a word": "/recordings?find=refund",
        "recordings, nothing found": "/recordings?find=aubergine",
        "contacts": "/contacts",
        "contact": "/contacts/1",
        "contacts, found": "/contacts?find=4999",
        "reports, today": "/reports?range=today",
        "reports, week": "/reports",
        "reports, 90 days": "/reports?range=quarter",
        "reports, year": "/reports?range=year",
        "account": "/account",
        "system": "/system",
        "settings": "/settings",
        "wallboard": f"/wall/{wall}",
        "alerts": "/system/alerts",
    }


def main(calls: int, kept: Path | None = None) -> dict[str, float]:
    """Print the table. Returns the CPU milliseconds of each page.

    `kept`: folder whose databases are reused.
    """
    with tempfile.TemporaryDirectory(prefix="switchroom-bench-") as made:
        folder = kept or Path(made)
        if not (folder / "mirror.db").exists():
            folder.mkdir(parents=True, exist_ok=True)
            begun = time.perf_counter()
            fill(folder, calls)
            print(f"{calls} calls created in {time.perf_counter() - begun:.0f} s")
        app = make_app(folder, dashboard__timezone=ZONE)
        try:
            with app.app_db.read() as connection:
                is_empty = connection.execute("SELECT 1 FROM callbacks").fetchone() is None
            if is_empty:
                add_callbacks(app, calls // 20)
            return _measure(app, calls)
        finally:
            app.close()


def _measure(app: TestApp, calls: int) -> dict[str, float]:
    client = app.product.site.test_client()
    client.set_cookie("session", app.make_token())
    render_minimal_page = _make_minimal_page(app)
    found: dict[str, float] = {}
    print(f"Pages over {calls} calls, best of {ROUNDS} alternating runs, milliseconds")
    print(f"  {'':28} {'minimal':>7} {'CPU':>7} {'elapsed':>7} {'first':>7}   KB  CPU limit {LIMIT:g}")
    wall = wallboards.add(app.app_db, "Benchmark")
    for name, path in list_pages(FIRST_CALL + calls - 1, wall).items():

        def request_page(path: str = path) -> int:
            response = client.get(path, headers={"Accept": "text/html"})
            assert response.status_code == 200, (path, response.status)
            return len(response.data)

        size, (_, first) = request_page(), _measure_time(request_page)
        rounds = [(_measure_time(render_minimal_page), _measure_time(request_page)) for _ in range(ROUNDS)]
        minimal = min(minimal_cpu for (minimal_cpu, _), _ in rounds)
        cpu, elapsed = (min(page[column] for _, page in rounds) for column in (0, 1))
        found[name] = cpu
        missed = "  MISSED" if cpu > LIMIT else ""
        print(f"  {name:28} {minimal:7.1f} {cpu:7.1f} {elapsed:7.1f} {first:7.1f} {size / 1000:5.0f}{missed}")
    return found


def _measure_time(work: Callable[[], Any]) -> tuple[float, float]:
    """Return CPU milliseconds of this thread, and elapsed milliseconds."""
    cpu, begun = time.thread_time(), time.perf_counter()
    work()
    return (time.thread_time() - cpu) * 1000, (time.perf_counter() - begun) * 1000


def _make_minimal_page(app: TestApp) -> Callable[[], object]:
    """Return a function that renders 50 calls by a minimal template."""
    site = Flask("minimal")

    def render() -> None:
        with site.app_context(), app.mirror_db.read() as connection:
            rows = connection.execute("SELECT * FROM _calls ORDER BY started_at DESC LIMIT 50").fetchall()
            render_template_string(TEMPLATE, rows=[tuple(row) for row in rows])

    return render
