"""Calls whose CDR has no readable `calldate`, and dates in other forms."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from integration.catalogue import get_resource
from integration.core import clock
from integration.core.timestamps import parse_seconds
from integration.mirror.derived.rebuild import rebuild_due
from integration.mirror.page_queries import alert_queries
from integration.mirror.sync_state import completeness
from integration.sync.reading import day_counts
from integration.workspace import callbacks
from integration.workspace.callback_following import update_from_mirror
from tests.support.application import TestApp, running_app
from tests.support.page_text import call_ids, text
from tests.support.payloads.call_facts import ANN, CallMirror, cdr

READABLE = {
    "2026-11-25T10:00:00Z": "2026-11-25 10:00:00",
    "2026-11-25 10:00:00.000000": "2026-11-25 10:00:00",
    "2026-11-25 10:00": "2026-11-25 10:00:00",
    "2026-11-25T10:00:00": "2026-11-25 10:00:00",
    "2026-11-25T11:00:00+01:00": "2026-11-25 10:00:00",
    "2026-11-25T05:00:00.999-0500": "2026-11-25 10:00:00",
    "2026-11-25": "2026-11-25 00:00:00",
    "2026-11-25T10:00:00.123456789Z": "2026-11-25 10:00:00",
    "20261125T100000Z": "2026-11-25 10:00:00",
    "20261125T110000+0100": "2026-11-25 10:00:00",
    "2026-11-25t10:00:00z": "2026-11-25 10:00:00",
    " 2026-11-25 10:00:00 ": "2026-11-25 10:00:00",
    "2026-11-25 10:00:00\n": "2026-11-25 10:00:00",
    "2026-11-25 10:00:00 Z": "2026-11-25 10:00:00",
    "2026-11-25 11:00:00 +01:00": "2026-11-25 10:00:00",
}
UNIX_SECONDS = {"1795600800": "2026-11-25 10:00:00", 1795600800: "2026-11-25 10:00:00"}
"""Read only in `calldate`: elsewhere ten digits are a telephone number."""
UNREADABLE = (
    None,
    "",
    "0000-00-00 00:00:00",
    "0000-00-00",
    "2026-02-30 10:00:00",
    "yesterday",
    "2/11/2026",
    "2026-11-25 24:00:00",
    "2026-W48-3 10:00:00",
    "20261125",
    "447700900101",
    "179560080",
    "2026-11-25  10:00:00",
    [1],
)


@pytest.mark.parametrize(("received", "expected"), READABLE.items())
def test_a_time_in_another_form_is_read(received: str, expected: str) -> None:
    assert parse_seconds(received) == parse_seconds(expected)
    assert clock.utc_text(clock.parse_utc(received)) == expected


@pytest.mark.parametrize("received", [*UNREADABLE, *UNIX_SECONDS])
def test_another_value_is_no_time(received: object) -> None:
    assert parse_seconds(received) is None
    assert clock.parse_utc(received) is None


def record(number: int, calldate: object, **fields: Any) -> dict[str, Any]:
    values = {"user_id": ANN, "dst_id": str(ANN), **fields}
    return cdr(number, number, 0, 60, values.pop("billsec", 40), **{**values, "calldate": calldate})


@pytest.mark.parametrize("defer_calls", [False, True])
@pytest.mark.parametrize("received", [*READABLE, *UNIX_SECONDS, *UNREADABLE])
def test_the_start_of_a_call_is_its_calldate_or_unknown(
    call_app: TestApp, mirror: CallMirror, received: Any, defer_calls: bool
) -> None:
    """Both ways of computation: with a sync, and later in the background."""
    outbound = {"type": "O", "destination": "out", "src": "1001", "dst": "447700900101", "dst_id": "0"}
    for number, more in ((1, {}), (2, {"billsec": 0}), (3, outbound)):
        mirror.put("cdrs", record(number, received, **more), defer_calls=defer_calls)
    rebuild_due(call_app.mirror_db, mirror.store.rules)
    # A group may ring another phone within 5 s of the arrival of the CDR.
    call_app.mirror_db.write(lambda tx: mirror.store.evaluate_due_calls(tx, clock.unix() + 10))
    started = (READABLE | UNIX_SECONDS).get(received) if isinstance(received, str | int) else None
    rows = mirror.calls("id", "state", "outcome", "started_at", "ended_at", "talk_seconds")
    ended = None if started is None else clock.utc_text((parse_seconds(started) or 0) + 60)
    assert rows == [
        (1, "ended", "answered", started, ended, 40),
        (2, "ended", "missed", started, ended, None),
        (3, "ended", "answered", started, ended, 40),
    ]
    if started is None:
        assert mirror.calls("answered_at", "state_since") == [(None, None)] * 3


def test_legs_without_a_time_are_no_call_of_others_at_their_group(mirror: CallMirror) -> None:
    """Rule 3 compares times. A root joins them also without one."""
    for number in (1, 2):
        mirror.put("cdrs", record(number, None, context="RG-80001", billsec=0))
    for number in (3, 4):
        mirror.put("cdrs", record(number, None, context="RG-80001", billsec=0, root_live_id=3))
    assert mirror.calls("id", "legs") == [(1, 1), (2, 1), (3, 2)]


def test_one_leg_with_a_time_gives_the_call_its_start(mirror: CallMirror) -> None:
    mirror.put("cdrs", record(3, "0000-00-00 00:00:00", billsec=0, root_live_id=3))
    mirror.put("cdrs", record(4, "2026-11-25T10:00:00Z", root_live_id=3))
    assert mirror.calls("id", "legs", "started_at", "ended_at", "answered_at", "wait_seconds") == [
        (3, 2, "2026-11-25 10:00:00", "2026-11-25 10:01:00", "2026-11-25 10:00:20", 20)
    ]


@pytest.fixture
def filled(tmp_path: Path) -> Any:
    """Three calls with a time, then 60 without, three of them missed."""
    with running_app(tmp_path / "data", retention__cdrs_days="30", retention__voicemail_days="30",
                     retention__recordings_days="30", retention__transcripts_days="30") as app:  # fmt: skip
        mirror = CallMirror(app)
        mirror.seed()
        update_from_mirror(app.app_db, app.mirror_db)
        today = clock.utc_text()[:10]
        app.put("cdrs", *(record(number, f"{today}T00:00:0{number}Z") for number in (1, 2, 3)))
        app.put(
            "cdrs",
            *(record(number, UNREADABLE[number % 3], billsec=40 * (number > 13)) for number in range(11, 71)),
        )
        for collection, name in (("monitors", "timestamp"), ("voicemessages", "origtime")):
            app.put(
                collection,
                *({"id": number, "live_id": number, name: UNREADABLE[number % 3]} for number in (11, 12, 13)),
            )
        yield app


def test_pages_exports_and_reports_of_calls_without_a_time(filled: TestApp) -> None:
    browser = filled.log_in()
    listed, path = [], "/calls?range=all"
    while path:
        page = browser.get(path)
        listed += call_ids(page)
        link = page.text.partition('rel="next" href="')[2].partition('"')[0]
        path = link.replace("&amp;", "&")
    assert listed == [3, 2, 1, *range(70, 10, -1)]
    assert "Time unknown" in text(page)
    newer = page.text.partition('rel="prev" href="')[2].partition('"')[0].replace("&amp;", "&")
    assert call_ids(browser.get(newer)) == [3, 2, 1, *range(70, 23, -1)]
    assert call_ids(browser.get("/calls?range=today")) == [3, 2, 1]
    for path in (
        "/calls/20", "/calls/20/beside", "/calls/12", "/live", "/missed", "/recordings", "/voicemail",
        "/reports", "/reports/missed", "/contacts/of/447700900101", "/account/cdrs", "/account/cdrs/12",
        "/calls?range=all&q=0770", "/calls?range=all&outcome=missed", "/notifications",
    ):  # fmt: skip
        page = browser.get(path)
        assert page.status_code == 200, path
        assert "1970" not in text(page), path
    assert "time unknown" in text(browser.get("/calls/20"))
    assert "Started Time unknown" in text(browser.get("/calls/20/beside"))
    rebuild_due(filled.mirror_db, filled.context.rules)
    with filled.mirror_db.read() as connection:
        assert connection.execute("SELECT count(*) FROM _report_days").fetchone()[0] == 0
        views = connection.execute(
            "SELECT count(*) FROM v_calls WHERE started_at IS NULL AND started_local IS NULL"
        )
        assert views.fetchone()[0] == 60
    rows = list(
        csv.DictReader(io.StringIO(browser.get("/exports/call-history.csv?columns=id,started_at").text))
    )
    assert sum(row["started_at"] == "" for row in rows) == 60
    lines = browser.get("/exports/call-history.jsonl?columns=id,started_at").text.splitlines()
    assert sum(json.loads(line)["started_at"] is None for line in lines) == 60


def test_a_missed_call_without_a_time_is_listed_by_its_arrival(filled: TestApp) -> None:
    update_from_mirror(filled.app_db, filled.mirror_db)
    with filled.app_db.read() as connection:
        (item,) = callbacks.list_items(connection)
    assert (item.party, item.attempts) == ("+447700900101", 3)
    assert item.opened_at[:10] == clock.utc_text()[:10]


def test_a_missed_call_of_the_history_without_a_time_opens_no_item(filled: TestApp) -> None:
    """Its CDR was read today, after one of three weeks ago. Other CDRs follow one of today."""
    mirror = CallMirror(filled)
    earlier, caller = clock.utc_text(clock.unix() - 20 * 86_400), "447700900199"
    filled.put(
        "cdrs",
        record(5, earlier),
        record(6, None, src=caller, billsec=0),
        record(9, clock.utc_text(), src="447700900198"),
    )
    filled.mirror_db.write(lambda tx: mirror.store.evaluate_due_calls(tx, clock.unix() + 10))
    assert (6, "missed", caller) in mirror.calls("id", "outcome", "party")
    update_from_mirror(filled.app_db, filled.mirror_db)
    with filled.app_db.read() as connection:
        assert [item.party for item in callbacks.list_items(connection)] == ["+447700900101"]


def test_retention_never_deletes_what_has_no_time(filled: TestApp) -> None:
    filled.put(
        "cdrs", record(80, "2/11/2026"), record(81, "2020-01-01T00:00:00Z"), record(82, "2020-01-01 00:00")
    )
    filled.product.retention_job.run()
    with filled.mirror_db.read() as connection:
        ids = [row[0] for row in connection.execute("SELECT id FROM cdrs ORDER BY id")]
    assert ids == [1, 2, 3, *range(11, 71), 80]


def test_an_alert_reports_an_unanswered_call_without_a_time(filled: TestApp) -> None:
    with filled.mirror_db.read() as connection:
        since = clock.utc_text(clock.unix() - 600)
        calls = alert_queries.list_unanswered_calls(connection, "voicemail", since, 10)
        assert sorted(call["id"] for call in calls) == [11, 12, 13]
        assert all(call["at"] >= since for call in calls)
        later = clock.utc_text(clock.unix() + 600)
        assert alert_queries.list_unanswered_calls(connection, "voicemail", later, 10) == []


def test_an_unreadable_date_is_not_the_first_day_of_the_comparison(filled: TestApp) -> None:
    filled.put("cdrs", record(80, "2/11/2026"), record(81, "1999-02-30 00:00:00"))
    with filled.mirror_db.read() as connection:
        oldest = completeness.find_oldest_date(connection, get_resource("cdrs"))
    assert oldest == f"{clock.utc_text()[:10]}T00:00:01Z"
    assert day_counts.list_days(oldest, clock.now()) == [clock.utc_text()[:10]]


def test_the_page_of_a_call_opens_whose_legs_are_centuries_apart(
    call_app: TestApp, mirror: CallMirror
) -> None:
    for number, calldate in ((1, "0001-01-01 00:00:00"), (2, "2026-11-25 10:00:00")):
        mirror.put("cdrs", record(number, calldate, root_live_id=1))
    page = call_app.log_in().get("/calls/1")
    assert page.status_code == 200
    assert len(page.text) < 100_000
