"""Wallboard: its address chooses figures, queue, line, theme and night; curve and lamps have words."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
import requests

from integration.core import clock
from integration.mirror.derived import due
from integration.mirror.sync_state import collection_state
from integration.workspace import wallboards
from integration.workspace.callback_following import update_from_mirror
from tests.support.applications.shared_app import SharedApp, module_app  # noqa: F401
from tests.support.page_text import text

NOON = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)
SUPPORT = {"group_kind": "queue", "group_id": 5, "group_name": "Support"}
BOOKINGS = {"group_kind": "queue", "group_id": 6, "group_name": "Bookings"}
LINE = "+442079460001"


@pytest.fixture
def board(module_app: SharedApp, monkeypatch):  # noqa: F811
    """`board("?hero=level")` returns the page. Two queues, one number, 20 November 2026 at 12:30."""
    app = module_app
    app.clear()
    monkeypatch.setattr(clock, "unix", NOON.timestamp)
    app.put("queues", {"id": 5, "name": "Support"})
    app.put("queues", {"id": 6, "name": "Bookings"})
    app.put("ddis", {"id": 1, "e164": LINE, "name": "Main"})
    app.mirror_db.write(lambda tx: collection_state.finish_full_sync(tx, "cdrs", 9, 9))
    url = f"{app.url}/wall/{wallboards.add(app.app_db, 'Front desk')}"

    def get(query: str = "") -> requests.Response:
        return requests.get(url + query, timeout=30, headers={"Accept": "text/html"})

    get.app = app
    return get


def figures(page: requests.Response) -> dict[str, str]:
    """Values by label, the large figure first."""
    return {
        label: " ".join(re.sub(r"<[^>]*>", "", value).split())
        for label, value in re.findall(r"<dt>([^<]*)</dt><dd>(.*?)</dd>", page.text)
    }


def points(page: requests.Response, number: int) -> str:
    return re.findall(r'points="([^"]*)"', page.text)[number].strip()


def test_the_address_chooses_the_figures_and_the_theme(board) -> None:
    usual = board()
    assert list(figures(usual)) == [
        "Waiting", "Longest wait", "Talking", "To call back", "Service level", "Calls today",
    ]  # fmt: skip
    assert 'data-theme="dark"' in usual.text
    # People paste the address with a final slash.
    page = board("/?hero=level&tile=missed&tile=level&tile=talking&theme=light")
    assert list(figures(page)) == ["Service level", "Missed today", "Talking"]
    assert 'data-theme="light"' in page.text
    assert re.findall(r'value="(\w+)" checked', page.text) == ["talking", "missed"]


def test_a_queue_or_line_limits_calls_of_now_and_of_today(board) -> None:
    app = board.app
    app.call(1, "2026-11-20 12:29:30", state="ringing", outcome=None, **SUPPORT)
    app.call(2, "2026-11-20 12:28:00", state="ringing", outcome=None, **BOOKINGS)
    app.call(3, "2026-11-20 12:20:00", state="talking", outcome=None, our_e164=LINE, **BOOKINGS)
    app.call(4, "2026-11-20 09:00:00", outcome="missed", **SUPPORT)
    app.call(5, "2026-11-20 09:10:00", outcome="answered", wait_seconds=5, **SUPPORT)
    app.call(6, "2026-11-13 12:30:30", outcome="answered", **SUPPORT)
    app.call(7, "2026-11-13 12:31:00", outcome="answered", **SUPPORT)
    app.call(8, "2026-11-20 10:00:00", direction="internal", outcome="internal")
    every = "&tile=wait&tile=talking&tile=level&tile=calls&tile=missed"
    assert figures(board(f"?hero=waiting{every}")) == {
        "Waiting": "2",
        "Longest wait": "2:00",
        "Talking": "1",
        "Service level": "50 %",
        "Calls today": "5",
        "Missed today": "1",
    }
    page = board(f"?queue=5{every}&tile=callbacks")
    assert figures(page) == {
        "Waiting": "1",
        "Longest wait": "0:30",
        "Talking": "0",
        "Service level": "50 %",
        "Calls today": "3",
        "Missed today": "1",
        "To call back": "0",
    }
    assert "Front desk · Support" in text(page)
    assert "1 a week ago" in text(page)
    assert re.findall(r"<strong>([^<]*)</strong>", page.text) == ["Support"]
    page = board(f"?line=%2B442079460001{every}")
    assert figures(page)["Talking"] == "1"
    assert figures(page)["Waiting"] == "0"
    assert "Front desk · 020 7946 0001" in text(page)


def test_a_queue_or_line_limits_call_backs(board) -> None:
    app = board.app
    for number, values in enumerate(
        (
            SUPPORT,
            {**BOOKINGS, "our_e164": LINE, "our_number": LINE[1:]},
            {**SUPPORT, "our_number": LINE},
            {**SUPPORT, "group_kind": "ringgroup"},
        ),
        1,
    ):
        party = f"44770090010{number}"
        app.call(number, "2026-11-20 09:00:00", outcome="missed", party=party, party_e164=f"+{party}",
                 change_no=number, **values)  # fmt: skip
        app.mirror_db.write(lambda tx, number=number: tx.announce("call", number, {}))
    update_from_mirror(app.app_db, app.mirror_db)
    shown = {
        query: figures(board(f"?hero=callbacks&tile=calls{query}"))["To call back"]
        for query in ("", "&queue=5", "&queue=6", "&line=%2B442079460001", "&queue=5&line=%2B442079460001")
    }
    assert list(shown.values()) == ["4", "2", "1", "2", "1"], shown


def test_available_people_are_those_logged_in_to_the_queue(board) -> None:
    app = board.app
    for user_id in (1, 2, 3, 4):
        app.put("users", {"id": user_id, "first_name": "Ann", "last_name": str(user_id)}, complete=False)
    users = [{"id": 1, "status": True}, {"id": 2, "status": True}, {"id": 3, "status": False}]
    app.put("queues", {"id": 5, "name": "Support", "users": users}, complete=False)
    app.call(1, "2026-11-20 12:20:00", state="talking", outcome=None, user_id=2, **SUPPORT)
    assert "4 people" in text(board())
    assert "3 available" in text(board())
    page = text(board("?queue=5"))
    assert "1 available" in page
    assert "of 2 people" in page
    # Its record does not list the users of this queue, and a number has none.
    for query in ("?queue=6", "?line=%2B442079460001", "?queue=5&line=%2B442079460001"):
        page = text(board(query))
        assert "available" not in page
        assert not re.search(r"of \d+ (people|person)", page)


def test_lamps_differ_by_word_and_shape_and_add_up_to_the_waiting_callers(board) -> None:
    waiting = {"state": "ringing", "outcome": None}
    board.app.call(1, "2026-11-20 12:29:30", **waiting, **SUPPORT)
    board.app.call(2, "2026-11-20 12:28:00", **waiting, **BOOKINGS)
    board.app.call(3, "2026-11-20 12:29:10", **waiting)
    board.app.call(4, "2026-11-20 12:29:40", **waiting, group_kind="ringgroup", group_id=5)
    board.app.call(5, "2026-11-20 12:29:40", **waiting, direction="out")
    board.app.put("queues", {"id": 7, "name": "Sales"})
    page = board()
    assert figures(page)["Waiting"] == "4"
    lamps = re.findall(r'<li class="(\w+)"><svg[^>]*><(\w+)[^>]*/></svg>(.*?)</li>', page.text)
    assert [
        (state, shape, " ".join(re.sub(r"<[^>]*>", " ", words).split())) for state, shape, words in lamps
    ] == [
        ("late", "path", "Bookings 1 waiting too long 2:00"),
        ("waiting", "path", "Support 1 waiting 0:30"),
        ("calm", "circle", "Sales no one waiting"),
        ("waiting", "path", "Direct numbers 2 waiting 0:50"),
    ]
    assert len(set(re.findall(r'<path d="([^"]+)"', page.text))) == 2
    assert "Direct numbers" not in text(board("?queue=5"))


def test_call_backs_have_no_target_by_default(board) -> None:
    app = board.app
    app.call(1, "2026-11-20 12:00:00", outcome="missed", talk_seconds=None, change_no=1)
    app.mirror_db.write(lambda tx: tx.announce("call", 1, {}))
    update_from_mirror(app.app_db, app.mirror_db)
    target = r"To call back</dt><dd>1</dd><dd class=\"aim\">([^<]*)<"
    assert re.search(target, board().text)[1] == ""
    token = wallboards.add(app.app_db, "Strict", callback_target=0)
    page = requests.get(f"{app.url}/wall/{token}", timeout=30, headers={"Accept": "text/html"})
    assert re.search(target, page.text)[1] == "! target 0"


def test_the_first_sync_has_no_number_of_call_backs_and_no_comparison(board) -> None:
    app = board.app
    app.call(1, "2026-11-20 12:00:00", outcome="missed", talk_seconds=None)
    app.call(2, "2026-11-13 09:00:00", outcome="missed", talk_seconds=None)
    assert "1 a week ago" in text(board())
    app.mirror_db.write(lambda tx: due.mark(tx, "legs", [(7, 7)]))
    shown = text(board())
    assert "To call back — history not read yet" in shown
    assert "Calls today 1" in shown
    assert "a week ago" not in shown


def test_the_curve_has_a_point_for_each_hour_and_words(board) -> None:
    for number, hour in enumerate((9, 9, 9, 9, 9, 10), 1):
        board.app.call(number, f"2026-11-20 {hour:02}:15:00")
    board.app.call(20, "2026-11-13 18:00:00")
    page = board()
    # From 08:00 to 18:00, with at most 5 calls: 10 % of the width for an hour, 20 % of the height for a call.
    assert points(page, 0).split() == [
        "0.0,100.0", "10.0,100.0", "20.0,100.0", "30.0,100.0", "40.0,100.0", "50.0,100.0",
        "60.0,100.0", "70.0,100.0", "80.0,100.0", "90.0,100.0", "100.0,80.0",
    ]  # fmt: skip
    assert points(page, 1).split() == ["0.0,100.0", "10.0,0.0", "20.0,80.0", "30.0,100.0"]
    assert points(page, 2).split() == ["30.0,100.0", "40.0,100.0"]
    assert (
        'aria-label="Calls of each hour today: 09:00 5, 10:00 1. The hour with most calls last Friday had 1."'
        in page.text
    )


def test_the_screen_is_dim_in_the_chosen_hours(board) -> None:
    for night, is_dim in (
        ("", False),
        ("?dim_from=12:30&dim_to=12:31", True),
        ("?dim_from=20:00&dim_to=07:00", False),
        ("?dim_from=20:00&dim_to=12:31", True),
        ("?dim_from=12:00&dim_to=12:30", False),
    ):
        assert ('class="board night"' in board(night).text) is is_dim, night


def test_an_invalid_choice_is_refused_with_the_way_out(board) -> None:
    for query, message in (
        ("tile=wait&tile=x", "There is no figure 'x'. Choose one of waiting, wait, talking"),
        ("queue=%2B5", "There is no queue '+5'."),
        ("line=%2B442079460999", "The account has no number '+442079460999'."),
        ("dim_from=25:00&dim_to=07:00", "Enter both times of the night as in 20:00, or neither."),
        ("dim_from=20:00", "Enter both times of the night as in 20:00, or neither."),
    ):
        page = board(f"?{query}")
        assert page.status_code == 400
        assert message in text(page)
