"""Missed: groups by day, lines, progress, assignment, reminders, several callers at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest

from integration.core import clock
from integration.workspace import callbacks
from integration.workspace.callback_following import update_from_mirror
from tests.support.applications.shared_app import SharedApp, running_shared_app
from tests.support.page_text import call_ids, text
from tests.support.people import BOB, CAROL, DAVE, ERIN

SCRIPT = {"Accept": "application/json"}


@pytest.fixture(scope="module")
def empty_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedApp]:
    with running_shared_app(tmp_path_factory.mktemp("missed")) as app:
        yield app


@pytest.fixture
def app(empty_app: SharedApp) -> SharedApp:
    """Missed callers 1 to 4 at noon: two today, one yesterday, one four days ago."""
    app = empty_app
    app.clear()
    app.clock.freeze("2026-11-20 12:00:00")
    for member in (BOB, CAROL, DAVE, ERIN):
        app.add(member)
    for number, (minutes, line) in enumerate(
        ((10, "442079460001"), (150, "442079460002"), (24 * 60, "442079460001"), (96 * 60, "442079460002")), 1
    ):
        started_at = clock.utc_text(clock.now() - timedelta(minutes=minutes))
        party = f"44770090010{number}"
        app.call(number, started_at, outcome="missed", party=party, party_e164=f"+{party}", our_number=line,
                 our_e164=f"+{line}", party_name=f"Caller {number}", change_no=number)  # fmt: skip
        app.mirror_db.write(lambda tx, number=number: tx.announce("call", number, {}))
    update_from_mirror(app.app_db, app.mirror_db)
    return app


def items(app: SharedApp, state: str = "open") -> dict[str, callbacks.CallbackItem]:
    with app.app_db.read() as connection:
        return {item.party_name: item for item in callbacks.list_items(connection, state)}


def test_a_long_list_has_pages_of_a_hundred_callers(app):
    started_at = clock.utc_text(clock.now() - timedelta(hours=1))
    for number in range(5, 104):
        party = f"442079460{number:03}"
        app.call(number, started_at, outcome="missed", party=party, party_e164=f"+{party}",
                 our_number="442079460001", party_name=f"Caller {number}", change_no=number)  # fmt: skip
        app.mirror_db.write(lambda tx, number=number: tx.announce("call", number, {}))
    update_from_mirror(app.app_db, app.mirror_db)
    client = app.log_in(ERIN)
    first, second = (client.get(f"/missed?order=oldest&page={page}") for page in (1, 2))
    assert (len(call_ids(first)), len(call_ids(second))) == (100, 3)
    assert set(call_ids(first)).isdisjoint(call_ids(second))
    assert set(call_ids(first) + call_ids(second)) == set(range(1, 104))
    assert "To call back 103" in text(first)
    assert "Today 101" in text(first)  # of all pages
    assert "/missed?order=oldest&amp;page=2" in first.text
    assert call_ids(client.get("/missed?order=oldest&page=99")) == call_ids(second)
    number = next(item.id for item in items(app).values() if item.last_call_id == call_ids(second)[0])
    done = client.post(f"/missed/{number}/close", order="oldest", page="2")
    assert "/missed?page=2&order=oldest" in done.url


def test_callers_are_grouped_by_day_with_the_age_as_a_word(app):
    page = app.log_in(ERIN).get("/missed")
    shown = text(page)
    assert call_ids(page) == [1, 2, 3, 4]
    places = [shown.index(words) for words in ("Today 2", "Caller 2", "Yesterday 1", "Caller 3", "Older 1")]
    assert places == sorted(places)
    assert re.findall(r"\b(new|over 30 min|over 2 h)\b ·", shown) == [
        "new",
        "over 2 h",
        "over 2 h",
        "over 2 h",
    ]
    assert "0 of 2 callers today done" in shown


def test_the_list_is_filtered_by_line_and_shows_the_oldest_first(app):
    client = app.log_in(ERIN)
    line = items(app)["Caller 1"].our_number
    assert call_ids(client.get("/missed", params={"line": line})) == [1, 3]
    assert call_ids(client.get("/missed?order=oldest")) == [4, 3, 2, 1]
    number = items(app)["Caller 1"].id
    location = client.post(
        f"/missed/{number}/note", follow=False, note="x", line=line, order="oldest"
    ).headers["Location"]
    assert "order=oldest" in location
    assert "line=" in location
    assert "No callers on this line" in text(client.get("/missed?line=1"))


def test_a_call_back_is_assigned_to_a_colleague_who_can_call_back(app):
    client, number = app.log_in(BOB), items(app)["Caller 1"].id
    answer = client.post(f"/missed/{number}/assign", headers=SCRIPT, owner=CAROL.email).json()
    assert answer["message"] == "Caller 1 assigned to Carol."
    assert items(app)["Caller 1"].owner == CAROL.email
    for owner in (DAVE.email, "nobody@example.com"):
        refused = client.post(f"/missed/{number}/assign", headers=SCRIPT, owner=owner).json()
        assert not refused["done"]
    assert items(app)["Caller 1"].owner == CAROL.email
    assert "Call-back assigned to you: Caller 1" in text(app.log_in(CAROL).get("/notifications"))


def test_a_reminder_appears_at_its_time_while_the_caller_waits(app):
    client, number = app.log_in(ERIN), items(app)["Caller 1"].id
    for wrong in ("", "tomorrow", "2026-11-20T11:59"):
        assert not client.post(f"/missed/{number}/remind", headers=SCRIPT, at=wrong).json()["done"]
    answer = client.post(f"/missed/{number}/remind", headers=SCRIPT, at="2026-11-20T15:30").json()
    assert answer["message"] == "Reminder for Caller 1 at 15:30. You have claimed them."
    assert call_ids(client.get("/missed?mine=1")) == [1]
    assert "Reminder" not in text(client.get("/notifications"))
    app.clock.advance(hours=3, minutes=31)
    assert "Reminder: call Caller 1 back" in text(client.get("/notifications"))
    assert "Reminder" not in text(app.log_in(BOB).get("/notifications"))
    client.post(f"/missed/{number}/close")
    assert "Reminder" not in text(client.get("/notifications"))


def test_a_reminder_offers_times_of_the_display_zone(app):
    client, number = app.log_in(ERIN), items(app)["Caller 1"].id
    callbacks.record_action(app.app_db, number, BOB.email, "assign", BOB.email)
    for label, expected in (
        ("In an hour", "at 13:00"),
        ("This afternoon", "at 15:00"),
        ("Tomorrow at nine", "at 21 Nov 09:00"),
    ):
        assert f'name="at" value="{label}"' in client.get("/missed").text
        answer = client.post(f"/missed/{number}/remind", headers=SCRIPT, at=label).json()
        assert answer["message"] == f"Reminder for Caller 1 {expected}."
    # The list of one's own work has the reminder, though a colleague has claimed the caller.
    assert call_ids(client.get("/missed?mine=1")) == [1]
    assert 'mine=1">Mine<span class="n">1</span>' in client.get("/missed?state=closed").text
    app.clock.advance(hours=3)
    assert 'value="This afternoon"' not in client.get("/missed").text


def test_done_callers_are_found_by_the_time_they_rang_with_who_reached_them(app):
    app.put("users", {"id": 100, "first_name": "Clara", "last_name": "Whitfield", "ext": "1001"})
    at = clock.utc_text(clock.now() - timedelta(minutes=82))
    app.call(9, at, direction="out", party="447700900102", party_e164="+447700900102", talk_seconds=60,
             user_id=100, user_name="Clara Whitfield", change_no=1000)  # fmt: skip
    app.mirror_db.write(lambda tx: tx.announce("call", 9, {}))
    update_from_mirror(app.app_db, app.mirror_db)
    client = app.log_in(ERIN)
    client.post(f"/missed/{items(app)['Caller 1'].id}/close")
    address = "/missed?state=closed&day=2026-11-20"
    assert call_ids(client.get(address)) == [1, 2]
    page = client.get(f"{address}&begin=09:00&end=10:00")
    assert call_ids(page) == [2]
    assert re.search(r"Reached by Clara Whitfield, 10:38 rang \d\d:\d\d", text(page))
    assert call_ids(client.get(f"{address}&begin=11:00")) == [1]
    assert call_ids(client.get("/missed?state=closed&begin=11:00")) == [1], "times without a day: today"
    assert "E Erin" in text(client.get(f"{address}&begin=11:00"))
    assert "No callers in this period" in text(client.get(f"{address}&begin=11:55"))
    assert call_ids(client.get("/missed?state=closed&day=tomorrow")) == [1, 2]


def test_several_callers_are_changed_at_once_and_undone(app):
    client, found = app.log_in(ERIN), items(app)
    numbers = [found[f"Caller {number}"].id for number in (1, 2, 3)]
    callbacks.record_action(app.app_db, numbers[2], BOB.email, "assign", BOB.email)

    def post(do: str, *chosen: int, **fields: str):
        query = "&".join(f"item={number}" for number in chosen)
        return client.post(f"/missed/several?{query}", headers=SCRIPT, do=do, **fields).json()

    # A caller whom a colleague has claimed is not taken from them.
    for do, owner, result in (("claim", ERIN, "claimed"), ("assign", CAROL, "assigned to Carol")):
        message = post(do, *numbers, owner=owner.email)["message"]
        assert message == f"2 callers {result}. Unchanged, claimed by a colleague: 1."
        owners = [items(app)[f"Caller {number}"].owner for number in (1, 2, 3)]
        assert owners == [owner.email, owner.email, BOB.email]
    assert post("assign", *numbers, owner=DAVE.email)["message"] == "Choose a user who can call back."
    answer = post("close", *numbers[:2])
    assert answer["message"] == "2 callers marked as done."
    assert set(items(app)) == {"Caller 3", "Caller 4"}
    assert "2 of 2 callers today done" in text(client.get("/missed"))
    undo = client.post(answer["undo"]["action"], headers=SCRIPT).json()
    assert undo["message"] == "2 callers back on the list."
    assert len(items(app)) == 4
    assert not post("close")["done"]
    assert not post("anything", *numbers)["done"]
