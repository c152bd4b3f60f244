"""Privacy: what retention deletes, and the audit log with filter and export."""

from __future__ import annotations

import csv
import io
import re
from html import unescape

import pytest

from integration.access import audit
from integration.core import clock
from integration.privacy.retention import RetentionJob
from integration.workspace import callbacks
from integration.workspace.callback_following import update_from_mirror
from tests.support.application import running_app
from tests.support.applications.filled_data_dir import THEIRS, FilledDataDir


def row(page, label: str) -> str:
    """Text of the row of a kind of data."""
    found = re.search(rf'<tr><th scope="row"><span class="strong">{label}</span></th>(.*?)</tr>', page.text)
    assert found, label
    return " ".join(unescape(re.sub("<[^>]*>", " ", found[1])).split())


def test_the_page_shows_what_the_next_run_deletes(place: FilledDataDir):
    with running_app(place.data_dir, retention__cdrs_days="30", retention__sms_days="60") as app:
        page = app.log_in().get("/privacy/retention")
        # The records are 40 days old.
        assert row(page, "Call records") == "30 days 2 calls, 3 CDRs"
        assert row(page, "SMS") == "60 days —"
        assert row(page, "Faxes") == "no limit —"
        job: RetentionJob = app.product.retention_job
        job.run()
        removed = {
            entry.about: entry.result
            for entry in audit.list_newest(app.app_db)
            if entry.what == "removed by retention"
        }
        assert [count for label, count in removed.items() if label.startswith("calls ")] == ["2"]
        assert row(app.log_in().get("/privacy/retention"), "Call records") == "30 days —"


def test_another_limit_is_tried_without_a_deletion(place: FilledDataDir):
    place.hold(f"+{THEIRS}", "--reason", "claim 17")
    with running_app(place.data_dir) as app:
        client = app.log_in()
        for kind, label, counts in (
            ("cdrs", "Call records", "1 calls, 1 CDRs"),
            ("recordings", "Recordings", "1 recording files"),
            ("transcripts", "Transcripts and summaries", "1 texts of recordings, 1 texts of voicemail"),
            ("sms", "SMS", "1 SMS"),
            ("inbox", "Webhooks as received", "3 webhooks"),
        ):
            page = client.get(f"/privacy/retention?kind={kind}&days=30")
            assert row(page, label).startswith(f"no limit {counts}"), label
        assert row(client.get("/privacy/retention?kind=cdrs&days=50"), "Call records") == "no limit —"
        assert client.get("/privacy/retention?kind=nothing&days=-1").status_code == 200


@pytest.fixture
def log(shared_app):
    """An application with five entries of the audit log."""
    shared_app.clear()
    for who, action, about, result in (
        ("bob@x.example", "login", "", "done"),
        ("bob@x.example", "export", "cdrs.csv", "12 rows"),
        ("carol@x.example", "login", "", "refused"),
        ("carol@x.example", "played recording", "recording 7", "done"),
        ("key crm", "export", "=cmd|' /C calc'!A0", "5 rows"),
    ):
        audit.record(shared_app.app_db, who, action, about, result)
    return shared_app


def rows(page) -> list[tuple[str, str]]:
    """(address or key, action) of each entry on the page. The name of a user has the address as title."""
    pattern = r'class="name-cell"><span[^>]* title="([^"]*)">.*?</th><td class="secondary-cell">([^<]*)</td>'
    return re.findall(pattern, page.text)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [("key crm", "export"), ("carol@x.example", "played recording"), ("carol@x.example", "login"),
              ("bob@x.example", "export"), ("bob@x.example", "login")]),
        ("who=carol@x.example", [("carol@x.example", "played recording"), ("carol@x.example", "login")]),
        ("action=export", [("key crm", "export"), ("bob@x.example", "export")]),
        ("action=export&who=bob@x.example", [("bob@x.example", "export")]),
        ("q=RECORDING 7", [("carol@x.example", "played recording")]),
        ("q=100%25", []),
        ("from=2999-01-01", []),
        ("to=2000-01-01", []),
    ],
)  # fmt: skip
def test_the_audit_log_is_filtered(log, query, expected):
    assert rows(log.log_in().get(f"/privacy/audit?{query}")) == expected


def test_only_a_result_other_than_success_is_marked(log):
    page = log.log_in().get("/privacy/audit").text
    assert re.findall(r'<td class="time( warning)?">([^<]*)</td>', page) == [
        ("", "5 rows"), ("", "done"), (" warning", "refused"), ("", "12 rows"), ("", "done"),
    ]  # fmt: skip


def test_each_part_of_the_audit_filter_can_be_removed(log):
    page = log.log_in().get("/privacy/audit?who=bob@x.example&action=export&from=2020-01-01")
    chips = re.findall(r'<a class="chip on" href="([^"]*)"[^>]*>(.*?) <svg', page.text)
    assert [(words, unescape(url)) for url, words in chips] == [
        ("bob@x.example", "/privacy/audit?action=export&from=2020-01-01"),
        ("export", "/privacy/audit?who=bob%40x.example&from=2020-01-01"),
        ("from 2020-01-01", "/privacy/audit?who=bob%40x.example&action=export"),
    ]
    assert "Filter · 3" in page.text


def test_a_day_of_the_filter_is_a_day_of_the_display_zone(log):
    log.app_db.write(
        lambda tx: tx.execute("UPDATE audit SET at = '2026-07-01 23:30:00' WHERE about = 'recording 7'")
    )
    client = log.log_in()
    # 00:30 on 2 July in London.
    assert len(rows(client.get("/privacy/audit?from=2026-07-02&to=2026-07-02"))) == 1
    assert rows(client.get("/privacy/audit?from=2026-07-01&to=2026-07-01")) == []


def test_the_export_has_the_filtered_rows_and_is_recorded(log):
    client = log.log_in()
    page = client.get("/privacy/audit?action=export")
    link = unescape(re.search(r'href="(/privacy/audit\.csv\?[^"]*)"', page.text)[1])
    answer = client.get(link)
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    lines = list(csv.reader(io.StringIO(answer.content.decode("utf-8-sig"))))
    assert lines[0] == ["Id", "Time (UTC)", "Who", "Action", "Object", "Result", "Address",
                        "Call (UTC)", "Party", "Person"]  # fmt: skip
    # The export itself is the newest entry. A formula is no formula in a spreadsheet.
    assert [line[2:6] for line in lines[1:]] == [
        ["alice@example.com", "export", "audit log.csv", "done"],
        ["key crm", "export", "'=cmd|' /C calc'!A0", "5 rows"],
        ["bob@x.example", "export", "cdrs.csv", "12 rows"],
    ]


def test_the_audit_log_pages_back_to_its_first_entry(log):
    for number in range(150):
        audit.record(log.app_db, "ann@example.com", "many", f"entry {number:03} <b>")
    client = log.log_in()
    first = client.get("/privacy/audit?action=many")
    assert ("entry 149" in first.text, "entry 050" in first.text, "entry 049" in first.text) == (
        True, True, False,
    )  # fmt: skip
    assert "<b>" not in first.text
    older = client.get(unescape(re.search(r'href="(/privacy/audit\?[^"]*before=\d+)"', first.text)[1]))
    assert "entry 049" in older.text
    assert "entry 000" in older.text


def test_an_entry_about_audio_or_a_call_names_the_call(log):
    log.call(
        77, "2026-11-03 10:38:00", party="+442079460001", party_e164="+442079460001", user_name="Grace Osei"
    )
    log.leg(77)
    log.insert("monitors", id=1052001501, live_id=77, timestamp="2026-11-03 10:38:00")
    audit.record(log.app_db, "bob@x.example", "listened to recording", "1052001501")
    audit.record(log.app_db, "bob@x.example", "label", "call 77")
    log.call(78, clock.utc_text(), outcome="missed", party="447700900101", party_name="Greta Lindqvist")
    while update_from_mirror(log.app_db, log.mirror_db):
        pass
    audit.record(log.app_db, "bob@x.example", "listened to recording", "999")
    client = log.log_in()
    with log.app_db.read() as connection:
        (item,) = callbacks.list_items(connection)
    client.post(f"/missed/{item.id}/assign", owner="me")
    page = client.get("/privacy/audit").text
    assert '<a href="/system/journal">Change log</a>' in page
    objects = re.findall(r'<td class="break">(.*?)</td>', page)[:4]
    assert re.search(
        rf'href="/calls/78">Greta Lindqvist, .*item {item.id} to alice@example.com', objects.pop(0)
    )
    assert objects[0] == "999"
    for shown in objects[1:]:
        assert 'href="/calls/77"' in shown
        assert "020 7946 0001" in shown
        assert "Grace Osei" in shown
    lines = list(csv.reader(io.StringIO(client.get("/privacy/audit.csv").content.decode("utf-8-sig"))))
    about_calls = {
        (line[4], *line[7:]) for line in lines[1:] if line[3] in ("label", "listened to recording")
    }
    call = ("2026-11-03 10:38:00", "+442079460001", "Grace Osei")
    assert about_calls == {("999", "", "", ""), ("1052001501", *call), ("call 77", *call)}
