"""Page Live: tiles, queues, last hour, Answer, outcomes of calls and their report."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import pytest

from integration.core import clock
from integration.workspace import notes
from tests.support.application import running_app
from tests.support.applications.shared_app import module_app  # noqa: F401
from tests.support.page_text import call_ids, text
from tests.support.people import ALICE, CAROL, DAVE, Member

NOW = datetime(2026, 11, 23, 14, 3, 30, tzinfo=UTC).timestamp()
ANN = Member("ann@example.com", "agent", platform_user_id=1)
SCRIPT = {"Accept": "application/json"}


@pytest.fixture
def app(app):
    """The application of the module, on a Monday at 14:03:30."""
    app.clock.freeze(NOW)
    return app


@pytest.fixture
def users(app):
    for number, name in ((1, "Ann Example"), (2, "Bea"), (3, "cid van Sample"), (4, "Dan Free")):
        first, _, last = name.partition(" ")
        values = {"first_name": first, "last_name": last, "ext": f"100{number}"}
        app.put("users", {"id": number, **values, "dnd": number == 3}, complete=False)


@pytest.fixture
def labels(app):
    """Call labels of the account."""
    app.put("calllabels", {"id": 1, "name": "Order"}, {"id": 2, "name": "Complaint"})


def ago(seconds: float) -> str:
    return clock.utc_text(NOW - seconds)


def json_in(response) -> dict:
    return json.loads(response.text)


def test_users_are_tiles_with_initials_in_the_order_of_their_states(app, users):
    app.call(9, ago(60), state="talking", outcome=None, user_id=4)
    app.call(8, ago(30), state="ringing", outcome=None, user_id=2)
    app.call(7, ago(10), state="dialling", outcome=None, user_id=1, direction="out")
    response = app.log_in(ALICE).get("/")
    page = response.text
    assert "Ringing 1 Talking 1 On hold 0" in text(response)
    assert re.findall(r'<tbody id="group-(\w+)" data-group="\w+">', page) == [
        "ringing",
        "dialling",
        "talking",
    ]
    assert re.findall(r'data-call="7" data-group="(\w+)"', page) == ["dialling"]
    assert "Ann Example 1001 Dialling 0:10" in text(response)
    tiles = page[page.index('class="people tiles"') :]
    found = re.findall(r'<span class="face (\w+)" aria-hidden="true">(.*?)</span>\s*<span[^>]*>(\w+)', tiles)
    assert found == [
        ("ringing", "B", "Bea"),
        ("dialling", "AE", "Ann"),
        ("talking", "DF", "Dan"),
        ("dnd", "CS", "cid"),
    ]


def test_a_queue_has_a_bar_as_long_as_its_waiting_callers(app):
    app.put("queues", {"id": 1, "name": "Sales"}, {"id": 2, "name": "Repairs"})
    waiting = {"state": "ringing", "outcome": None, "group_kind": "queue", "group_id": 1}
    for number in (1, 2):
        app.call(number, ago(10 * number), **waiting)
    page = app.log_in(ALICE).get("/")
    assert "Sales 2 · 0:20 Repairs none known" in text(page)
    assert re.findall(r'<rect class="ring" width="(\d+)%"', page.text) == ["40", "0"]


def test_the_last_hour_has_bars_of_five_minutes_that_open_their_calls(app):
    """At 14:03 the bars begin at 13:05. Two calls in the first bar, one in the last, three outside."""
    app.call(1, "2026-11-23 13:04:59")
    app.call(2, "2026-11-23 13:05:00", outcome="missed")
    app.call(3, "2026-11-23 13:09:59", direction="out")
    app.call(4, "2026-11-23 13:06:00", direction="internal", outcome="internal")
    app.call(5, "2026-11-23 14:03:00", outcome="voicemail")
    client = app.log_in(ALICE)
    page = client.get("/")
    assert "Since 13:05 3 calls · 1 missed · 1 voicemail" in text(page)
    bars = re.findall(r'<a href="([^"]+)" data-count-of="(\d+)" aria-label="([^"]+)"', page.text)
    assert [(label, count) for _, count, label in bars] == [
        ("13:05–13:10: 2 calls, 1 not answered", "2"),
        ("14:00–14:05: 1 call, 1 not answered", "1"),
    ]
    assert [call_ids(client.get(unescape(url))) for url, _, _ in bars] == [[3, 2], [5]]
    table = page.text[page.text.index("As a table") :]
    urls = [unescape(url) for url in re.findall(r'<a href="(/calls\?[^"]+)">', table)]
    assert [call_ids(client.get(url)) for url in urls] == [[3, 2], [2], [5], [5]]
    assert "Time Calls Missed Voicemail 13:05–13:10 2 1 0 14:00–14:05 1 0 1" in text(page)


def test_the_bars_of_the_last_hour_cross_midnight(app):
    app.clock.freeze(datetime(2026, 11, 23, 0, 12, tzinfo=UTC).timestamp())
    for number, moment in ((1, "22 23:57:00"), (2, "23 00:02:00")):
        app.call(number, f"2026-11-{moment}")
    client = app.log_in(ALICE)
    bars = re.findall(r'<a href="([^"]+)" data-count-of="(\d+)"', client.get("/").text)
    assert [call_ids(client.get(unescape(url))) for url, _ in bars] == [[1], [2]]


def test_both_users_of_an_internal_call_are_on_it_and_are_free_since_its_end(app, users):
    call = {"direction": "internal", "user_id": 4, "party": "1002", "party_e164": None, "outcome": None}
    app.call(9, ago(60), state="talking", **call)
    shown = text(app.log_in(ALICE).get("/"))
    assert "Bea 1002 Talking" in shown
    assert "Dan Free 1004 Talking" in shown
    assert "and 1 free" in shown
    app.mirror_db.write(
        lambda tx: tx.execute("UPDATE _calls SET state = 'ended', ended_at = ?", (ago(120),)) and None
    )
    shown = text(app.log_in(ALICE).get("/"))
    assert "Bea 1002 Free 2 min" in shown
    assert "Dan Free 1004 Free 2 min" in shown


def test_a_ringing_call_names_the_users_who_can_answer_it(app, users):
    app.event("call.ringing", 41, ago(5), state="RINGING", dst_id="1", root_call_id=41)
    app.event("call.ringing", 42, ago(5), state="RINGING", dst_id="2", root_call_id=41)
    app.event("call.ringing", 51, ago(5), state="RINGING", dst_id="2", src="447700900222", root_call_id=51)
    page = app.log_in(ANN).get("/").text
    answer = r'data-rings="([\d ]+)" hidden>\s*<form class="inline" method="post" action="/calls/(\d+)/answer'
    assert re.findall(answer, page) == [("1 2", "41"), ("2", "51")]
    assert 'data-phone="1"' in page
    # A viewer controls no call.
    assert "data-phone" not in app.log_in(DAVE.as_user(1)).get("/").text


def test_a_phone_of_the_own_pickup_group_is_answered_by_code(tmp_path: Path) -> None:
    with running_app(tmp_path / "data", calls__pickup_code="*8") as app:
        for number, group in ((1, 7), (2, 7), (3, 8), (4, None)):
            app.put("users", {"id": number, "first_name": "User", "last_name": str(number)}, complete=False)
            values = (json.dumps({"id": number, "pickup_group_id": group}), number)
            app.mirror_db.write(
                lambda tx, values=values: tx.execute("UPDATE users SET _item = ? WHERE id = ?", values)
            )
        app.event("call.ringing", 41, ago(5), state="RINGING", dst_id="2")
        shown = {
            number: "Pick up with *8" in text(app.log_in(DAVE.as_user(number)).get("/calls/41/beside"))
            for number in (1, 2, 3, 4)
        }
        assert shown == {1: True, 2: False, 3: False, 4: False}
        app.event("call.connected", 41, ago(2), state="CONNECTED", connected_at=ago(2), dst_id="2")
        assert "Pick up" not in text(app.log_in(DAVE.as_user(1)).get("/calls/41/beside"))


def test_one_click_gives_the_last_call_an_outcome(app, users, labels):
    client = app.log_in(ANN)
    app.call(5, ago(900), ended_at=ago(840), user_id=1, party_name="Greta Lindqvist")
    app.call(6, ago(300), ended_at=ago(200), user_id=2)
    app.call(7, ago(300), ended_at=ago(100), user_id=1, outcome="missed")
    question = "Outcome of your call with Greta Lindqvist , ended 13:49: Complaint Order"
    assert question in text(client.get("/"))
    for member in (DAVE.as_user(1), CAROL):
        assert "Outcome" not in text(app.log_in(member).get("/")), "a viewer, a colleague"
    done = json_in(client.post("/calls/5/labels", label="Order", headers=SCRIPT))
    assert done["done"]
    assert "Outcome" not in text(client.get("/"))
    undone = json_in(client.post(done["undo"]["action"], headers=SCRIPT))
    assert undone["message"] == "Label removed."
    assert question in text(client.get("/"))
    app.clock.advance(61)
    assert "Outcome" not in text(client.get("/")), "15 minutes after its end"


def test_without_call_labels_there_is_no_question_unless_outcomes_are_set(app, users, tmp_path):
    app.call(5, ago(900), ended_at=ago(60), user_id=1)
    assert "Outcome" not in text(app.log_in(ANN).get("/"))
    with running_app(tmp_path / "data", calls__outcomes="Solved,Call again") as other:
        other.put("users", {"id": 1, "first_name": "Ann", "last_name": "Example"})
        other.call(5, clock.utc_text(), user_id=1, party_name="Greta")
        client = other.log_in(ANN)
        assert re.search(
            r"Outcome of your call with Greta , ended \S+: Solved Call again", text(client.get("/"))
        )
        assert "Solved" in text(client.get("/calls/5/beside"))


def test_the_report_counts_calls_by_label_and_opens_them(app):
    """Labels of CDRs and local ones; a label on two legs, an internal call and another period."""
    app.app_db.write(lambda tx: [notes.add_label(tx, leg, "a@example.com", "Order") for leg in (1, 2, 4, 5)])
    app.app_db.write(lambda tx: notes.add_label(tx, 12, "a@example.com", "VIP & more"))
    app.call(1, "2026-11-20 10:00:00")
    app.call(2, "2026-11-20 11:00:00", direction="out")
    app.leg(12, call_id=2)
    app.call(3, "2026-11-20 12:00:00")
    app.insert("cdrs", id=73, live_id=13, labels='["Order", {"name": "Complaint"}]')
    app.insert("cdrs", id=74, live_id=3, labels='["Order"]')
    app.leg(13, call_id=3)
    app.call(4, "2026-11-20 13:00:00", direction="internal", outcome="internal")
    app.call(5, "2026-11-10 10:00:00")
    client = app.log_in(ALICE)
    page = client.get("/reports/labels?from=2026-11-20&to=2026-11-20")
    rows = re.findall(r'<tr><th scope="row" class="nowrap">(.*?)</th>(.*?)</tr>', page.text, re.DOTALL)
    found = {
        unescape(name): [
            (int(count), call_ids(client.get(unescape(url))))
            for url, count in re.findall(r'<a href="([^"]+)" data-count-of="(\d+)"', cells)
        ]
        for name, cells in rows
    }
    assert found == {
        # All, inbound, outbound. The period before has no calls.
        "Order": [(3, [3, 2, 1]), (2, [3, 1]), (1, [2])],
        "Complaint": [(1, [3]), (1, [3])],
        "VIP & more": [(1, [2]), (1, [2])],
    }
