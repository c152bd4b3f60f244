"""Lists of recordings and voicemail: filters, paging, and the files of a month."""

from __future__ import annotations

import re

import pytest

from integration.core import clock
from integration.mirror.sync_state import scrub_log
from tests.support.page_text import link, text
from tests.support.people import BOB, CALLER, CAROL

OTHER = "447700900102"
LINE, OTHER_LINE = "442079460001", "442079460002"


def listed(response) -> list[int]:
    """Ids of the entries, in order of their rows."""
    assert response.status_code == 200, response.text[:500]
    return [int(number) for number in re.findall(r'<tr class="row" id="\w+-(\d+)"', response.text)]


def record(app, number: int, at: str, *, file: bool = True, call: int | None = None, **values) -> None:
    """Add the recording `900 + number` of call `number`, or of `call`, and its file."""
    if call is None:
        app.call(number, at, recordings=1, our_number=values.pop("line", LINE))
    app.leg(number, call_id=call or number)
    record_id = 900 + number
    app.insert("monitors", id=record_id, live_id=number, timestamp=at, caller=CALLER, **values)
    if file:
        app.archive("recording", record_id, b"audio")


def read_again(app, moment: str, *record_ids: int) -> None:
    """Have the scrub find these files intact at `moment`."""
    app.clock.set(moment)
    files = [scrub_log.ArchivedFile("recording", number, "", 5, "") for number in record_ids]
    app.mirror_db.write(lambda tx: scrub_log.mark_intact(tx, files))


@pytest.fixture
def july(app):
    """Recordings of July in London, and one before and one after it; now is November."""
    app.clock.set("2026-08-05 09:00:00")
    app.put("users", {"id": 11, "first_name": "Ann", "last_name": "Example", "ext": "1001"})
    record(app, 1, "2026-06-30 22:59:59")
    record(app, 2, "2026-06-30 23:00:00")
    record(app, 3, "2026-07-15 10:00:00", user_id=11)
    record(app, 4, "2026-07-31 22:59:59", user_id=12)
    record(app, 5, "2026-07-31 23:00:00")
    return app


def test_a_month_states_how_many_recorded_calls_have_their_file_and_when_files_were_read(july):
    app = july
    month = "/recordings?from=2026-07-01&to=2026-07-31"
    words = "July 2026 : 3 of 3 recorded calls have their file, {}."
    assert words.format("not checked since the download") in text(app.log_in().get(month))
    read_again(app, "2026-11-02 23:59:59", 902)
    assert words.format("1 of 3 files checked again on 2 November 2026") in text(app.log_in().get(month))
    read_again(app, "2026-11-03 01:00:00", 903, 904)
    assert words.format("all checked again on 2–3 November 2026") in text(app.log_in().get(month))
    read_again(app, "2026-11-03 02:00:00", 902)
    page = app.log_in().get(month)
    assert words.format("all checked again on 3 November 2026") in text(page)
    assert listed(page) == [904, 903, 902]
    assert "without a file" not in page.text
    # A second recording of call 3, which is not in the archive.
    record(app, 6, "2026-07-15 10:05:00", file=False, call=3)
    page = app.log_in().get(month)
    assert "July 2026 : 2 of 3 recorded calls have their file" in text(page)
    missing = app.log_in().get(f"{month}&state=missing")
    assert re.search(r'href="/recordings\?[^"]*state=missing[^"]*">1 without a file', page.text)
    assert listed(missing) == [906]
    assert "2 of 3 recorded calls" in text(missing)
    assert "deleted by retention or an erasure" not in text(page)
    app.insert("media", kind="recording", record_id=906, path="a.mp3", state="gone", last_error="erased",
               updated_at="2026-07-16 00:00:00")  # fmt: skip
    assert "1 without a file , deleted by retention or an erasure" in text(app.log_in().get(month))
    assert "June 2026 : 1 of 1 recorded call" in text(
        app.log_in().get("/recordings?from=2026-06-01&to=2026-06-30")
    )
    assert "May 2026 : no recorded calls." in text(
        app.log_in().get("/recordings?from=2026-05-01&to=2026-05-31")
    )
    app.clock.set("2026-08-20 09:00:00")
    assert "July 2026 :" in text(app.log_in().get("/recordings?range=last-month"))


def test_a_month_and_its_list_have_only_what_the_viewer_sees(own_calls_only):
    app = own_calls_only
    record(app, 3, "2026-07-15 10:00:00", user_id=11)
    record(app, 4, "2026-07-16 10:00:00", user_id=12, file=False)
    month = "/recordings?from=2026-07-01&to=2026-07-31"
    agent = app.log_in(CAROL.as_user(11))
    page = agent.get(month)
    assert listed(page) == [903]
    assert "1 of 1 recorded call has its file" in text(page)
    assert 'name="person"' not in page.text
    for path in (f"{month}&person=12", f"{month}&state=missing"):
        assert listed(agent.get(path)) == []
    assert "0 of 1" not in text(agent.get(f"{month}&person=12"))
    supervisor = app.log_in(BOB).get(month)
    assert listed(supervisor) == [904, 903]
    assert "1 of 2 recorded calls have their file" in text(supervisor)


def test_recordings_are_filtered_by_person_number_day_and_length(app, client):
    app.put("users", {"id": 11, "first_name": "Ann", "last_name": "Example", "ext": "1001"})
    app.clock.set("2026-08-05 09:00:00")
    record(app, 1, "2026-07-01 09:00:00", user_id=11, duration=30)
    record(app, 2, "2026-07-01 10:00:00", user_id=12, duration="90", line=OTHER_LINE)
    record(app, 3, "2026-07-02 09:00:00", user_id=11, duration=300, line=OTHER_LINE)
    for query, expected in (
        ("", [903, 902, 901]),
        ("person=11", [903, 901]),
        (f"line={OTHER_LINE}", [903, 902]),
        ("from=2026-07-01&to=2026-07-01", [902, 901]),
        ("min=60", [903, 902]),
        ("min=60&max=120", [902]),
        ("person=11&min=60", [903]),
        ("person=x&from=never&min=-1&range=none", [903, 902, 901]),
    ):
        assert listed(client.get(f"/recordings?{query}")) == expected, query
    page = client.get(f"/recordings?person=11&min=60&line={OTHER_LINE}")
    for words in ("Ann Example", "at least 60 s", "020 7946 0002"):
        assert re.search(rf'class="chip on"[^>]*>{words}', page.text), words
    assert "match this filter" in text(client.get("/recordings?max=1"))


def test_filters_without_an_index_apply_to_a_year_unless_a_period_is_chosen(app, client):
    record(app, 1, clock.utc_text(clock.unix() - 86400 * 500), duration=60)
    record(app, 2, clock.utc_text(clock.unix() - 86400 * 10), duration=60, file=False)
    for query, expected, chip in (
        ("", [902, 901], "All time"),
        (f"line={LINE}", [902], "365 days"),
        (f"line={LINE}&range=all", [902, 901], "All time"),
        ("min=60", [902], "365 days"),
        ("state=missing", [902, 901], "All time"),
        ("state=missing&range=year", [902], "365 days"),
    ):
        page = client.get(f"/recordings?{query}")
        assert listed(page) == expected, query
        assert re.search(rf'aria-current="true">{chip}<', page.text), query


def test_voicemail_is_the_same_kind_of_list(app, client):
    app.clock.set("2026-08-05 09:00:00")
    app.put("users", {"id": 5, "first_name": "Ann", "last_name": "Example", "ext": "1001"})
    values = {"caller": CALLER, "is_new": 1}
    app.insert("voicemessages", id=801, origtime="2026-07-01 09:00:00", dialled=LINE, extension_id=1001,
               duration=20, **values)  # fmt: skip
    app.insert("voicemessages", id=802, origtime="2026-07-02 09:00:00", dialled=OTHER_LINE, extension_id=7,
               duration=40, **values)  # fmt: skip
    app.archive("voicemail", 801, b"audio")
    for query, expected in (
        ("", [802, 801]),
        ("person=5", [801]),
        (f"line={OTHER_LINE}", [802]),
        ("max=30", [801]),
        ("from=2026-07-02", [802]),
        ("range=year&state=missing", [802]),
    ):
        assert listed(client.get(f"/voicemail?{query}")) == expected, query
    page = text(client.get("/voicemail?from=2026-07-01&to=2026-07-31"))
    assert "July 2026 : 1 of 2 voice messages have their file" in page
    assert "Ann Example" in page
    assert 'class="pill waiting">New<' in client.get("/voicemail").text


def test_a_list_has_100_rows_a_page_and_keeps_its_filter(app, client):
    for number in range(1, 103):
        app.insert("monitors", id=number, timestamp="2026-07-01 09:00:00", caller=OTHER, duration=number)
    newest = client.get("/recordings?min=2")
    assert listed(newest) == list(range(102, 2, -1))
    older = client.get(link(newest, "next"))
    assert listed(older) == [2]
    assert link(older, "next") is None
    missing = client.get("/recordings?from=2026-07-01&to=2026-07-31&state=missing")
    assert len(listed(missing)) == 102


def test_every_row_links_to_its_file_and_shows_the_words_around_a_match(app, client):
    words = f"{'One thing. ' * 40}We talked about the greenhouse and its door. {'Another thing. ' * 40}"
    record(app, 1, clock.utc_text(clock.unix() - 60), transcript=words, duration=61)
    page = client.get("/recordings?find=greenhouse")
    assert re.search(r'<a [^>]*href="/recordings/901\.mp3" data-play="61"', page.text)
    assert client.get("/recordings/901.mp3").content == b"audio"
    shown = re.search(r'<span class="clipped quiet">(.*?)</span>', page.text)[1]
    assert re.match(r"…\w+ ", shown)
    assert "about the <mark>greenhouse</mark> and its door." in shown
    assert len(shown) < 400
