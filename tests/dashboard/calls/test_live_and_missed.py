"""Pages Live, Missed and Call: content and access."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from integration.access import audit, people
from integration.core import clock
from integration.dashboard.calls.live import render_change
from integration.mirror.sync_state import collection_state
from integration.sqlite.transaction import Change
from integration.workspace import callbacks
from integration.workspace.callback_following import update_from_mirror
from tests.support.applications.shared_app import module_app  # noqa: F401
from tests.support.clock import ago
from tests.support.page_text import call_ids, text
from tests.support.payloads.account_records import Filling
from tests.support.people import BOB, CALLER, CAROL, ERIN, Member


@pytest.fixture
def missed(app):
    """Item of the call-back list: one missed caller."""
    app.app_db.write(
        lambda tx: tx.execute(
            "INSERT INTO callback_start VALUES (0, ?)",
            (clock.utc_text(clock.now() - timedelta(days=1)),),
        )
    )
    app.call(7, ago(600), outcome="missed", party_name="Greta Lindqvist", talk_seconds=None, change_no=1)
    while update_from_mirror(app.app_db, app.mirror_db):
        pass
    with app.app_db.read() as connection:
        (item,) = callbacks.list_items(connection)
    return item


def render_events(app, topic: str, key: str, person):
    """Events that the live stream sends this dashboard user for a change."""
    with app.product.site.app_context():
        return render_change(Change(1, topic, key, {}), person)


def state_of(app, number: int) -> str:
    with app.app_db.read() as connection:
        return callbacks.find_item(connection, number).state


def test_the_user_who_places_a_call_is_not_shown_as_ringing(app, client):
    for number, direction in ((1, "in"), (2, "out")):
        app.call(number, ago(5), direction=direction, state="ringing", outcome=None, user_name="Ann Example")
        row = client.get("/").text.partition(f'id="call-{number}"')[2].partition("</tr>")[0]
        assert ("ringing at" in row) == (direction == "in")


def test_an_unconfirmed_call_is_listed_separately_and_not_counted_as_talking(app, client):
    app.call(1, ago(300), state="talking", outcome=None, unconfirmed=1)
    page = client.get("/").text
    assert 'data-figure="talking"><a href="#group-talking">0' in page
    assert "Unconfirmed" in text(client.get("/"))


def test_a_number_is_not_in_contacts_only_after_they_were_read(app, client):
    app.call(1, ago(300), party_name="")
    app.call(2, ago(20), state="talking", outcome=None, party_name="")
    for contacts_are_read in (False, True):
        if contacts_are_read:
            app.mirror_db.write(lambda tx: collection_state.finish_full_sync(tx, "contacts", 0, 0))
        for page in ("/", "/calls/1/beside"):
            shown = text(client.get(page))
            assert ("not in contacts" in shown) == contacts_are_read, page
            assert ("contacts not read yet" in shown) != contacts_are_read, page
    assert "No contacts read yet" in text(client.get("/contacts"))
    app.mirror_db.write(lambda tx: collection_state.finish_full_sync(tx, "cdrs", 0, 0))
    assert "No contacts yet" in text(client.get("/contacts"))


def test_missing_users_and_queues_are_not_shown(app, client):
    app.put("users", {"id": 1, "first_name": "Former", "last_name": "Colleague"})
    app.put("queues", {"id": 1, "name": "Former queue"})
    assert text(client.get("/live")).count("Former") == 2
    for collection in ("users", "queues"):
        Filling(app).mark_missing(collection, 1)
    page = text(client.get("/live"))
    assert "Former" not in page


def test_a_change_of_a_call_sends_its_row_and_that_of_an_old_or_joined_call_removes_it(app):
    app.event("call.ringing", 41, ago(5), state="RINGING")
    person = people.create(app.app_db, "a@example.com", "agent")
    ((name, data),) = render_events(app, "call", "41", person)
    assert name == "call"
    assert json.loads(json.dumps(data))["html"].startswith('<tr class="row" id="call-41"')
    assert data["say"] == "Call ringing from 07700 900101"
    assert data["counts"]["ringing"] == 1
    app.call(42, "2026-01-02 10:00:00")
    assert render_events(app, "call", "42", person) == [("call_gone", {"id": 42})]
    ((name, data),) = render_events(app, "call_gone", "43", person)
    assert (name, data["id"]) == ("call_gone", 43), "it was joined to another call"


def test_agents_limited_to_own_calls_see_nothing_of_other_calls(own_calls_only):
    app, live = own_calls_only, {"state": "talking", "outcome": None}
    app.put("users", {"id": 11, "first_name": "Ann"}, {"id": 12, "first_name": "Bea"})
    app.call(1, ago(60), user_id=11, **live)
    app.call(2, ago(70), user_id=12, party_name="Secret Caller", **live)
    app.call(3, ago(700), user_id=12, user_name="Cid Example")
    agent, boss = app.log_in(CAROL.as_user(11)), app.log_in(BOB)
    assert call_ids(agent.get("/calls")) == [1]
    assert call_ids(boss.get("/calls")) == [1, 2, 3]
    assert call_ids(app.log_in(ERIN).get("/calls")) == []
    for path, status in (("/calls/1", 200), ("/calls/2", 404), ("/calls/2/beside", 404)):
        assert agent.get(path).status_code == status, path
    for path in ("/", "/calls/1", "/calls/1/beside"):
        assert "Cid Example" not in agent.get(path).text, "an earlier call of the same party"
        assert "Cid Example" in boss.get(path).text
    page = agent.get("/")
    assert "Bea" in text(page)
    assert 'href="/calls/1"' in page.text
    assert 'href="/calls/2"' not in page.text
    assert 'href="/calls/2"' in boss.get("/").text
    person = people.create(app.app_db, "a@example.com", "agent", platform_user_id=11)
    assert "Secret" not in json.dumps(render_events(app, "call", "2", person))


def test_the_list_counts_users_whose_missed_calls_the_platform_does_not_record(app, client):
    assert "Some missed calls" not in text(client.get("/missed"))
    for number, is_recorded in ((1, False), (2, True)):
        user = {"id": number, "first_name": "Ann"}
        Filling(app)("users", user)
        Filling(app).item("users", {**user, "log_missed_calls": is_recorded})
    app.put("users", {"id": 3, "first_name": "Cid"})
    page = client.get("/missed")
    assert "Some missed calls to groups with 1 person may not be listed. Show who and fix" in text(page)
    assert "turn on “Log missed calls” in the phone system’s panel for Ann ." in text(page)
    assert 'href="/account/users/1"' in page.text
    assert "Log missed calls" in text(client.get("/account/users/1"))


def test_a_former_id_of_a_call_redirects_to_it(app, client):
    app.call(5, ago(60))
    app.insert("_merged_calls", id=6, into_id=5, change_no=0)
    answer = client.get("/calls/6")
    assert answer.url.endswith("/calls/5")
    assert client.get("/calls/77").status_code == 404


def test_a_call_page_shows_the_timeline(app, client):
    start = clock.parse_utc("2026-09-02 08:45:55")

    def at(seconds: int) -> str:
        return clock.utc_text(start + timedelta(seconds=seconds))

    for name, seconds, state in (
        ("call.initial", 0, "INITIAL"),
        ("call.ringing", 1, "RINGING"),
        ("call.connected", 7, "CONNECTED"),
        ("call.hold", 20, "ON_HOLD"),
        ("call.unhold", 50, "CONNECTED"),
        ("call.hangup", 67, "HANGUP"),
    ):
        app.event(
            name, 50, at(seconds), state=state, start_time=at(0), connected_at=at(7) if seconds > 6 else None,
            **({"terminated_by": "caller"} if name == "call.hangup" else {}),
        )  # fmt: skip
    page = client.get("/calls/50").text
    words = text(client.get("/calls/50"))
    for step in (
        "+0:01 Ringing",
        "+0:07 Connected",
        "+0:20 On hold",
        "+0:50 Resumed",
        "+1:07 Caller hung up",
        "Caller hung up 09:47:02",
        "Raw records 1 leg · sources: webhook",
    ):
        assert step in words
    assert page.count('<rect class="talk"') == 2
    assert "<title>On hold 0:30</title>" in page
    assert "09:46:02" in words


def test_costs_are_shown_in_the_currency_of_the_account(app, client):
    app.call(1, ago(60), charge=1.25)
    app.put("me", {"id": 1, "currency_iso": "EUR"})
    assert "Cost 1.25 EUR" in text(client.get("/calls/1"))
    assert "Cost, EUR 1.25" in text(client.get("/reports"))


def test_queue_music_is_not_shown_as_talk_time(app, client):
    app.call(50, "2026-09-02 08:45:55", outcome="missed", talk_seconds=None)
    moments = {
        "started": 1788338755,
        "started_at": "2026-09-02 08:45:55",
        "connected_at": "2026-09-02 08:45:55",
    }
    app.leg(50, group_kind="queue", group_id=7, dst_name="Service", ended_at="2026-09-02 08:46:55", **moments)
    page = client.get("/calls/50")
    assert "<title>In the queue 1:00</title>" in page.text
    assert '<rect class="talk"' not in page.text


def test_notes_and_labels_are_escaped_and_audited_and_a_note_is_removed_by_its_author(app, client):
    app.call(5, ago(60))
    client.post("/calls/5/notes", text="<b>urgent</b>")
    client.post("/calls/5/labels", label="  billing   question ")
    app.log_in(Member("frank@example.com", "admin")).post("/calls/5/notes/1/remove")
    page = client.get("/calls/5")
    assert "<b>urgent</b>" in text(page)
    assert "<b>urgent" not in page.text
    assert "billing question" in text(page)
    client.post("/calls/5/labels", remove="billing question")
    client.post("/calls/5/notes/1/remove")
    entries = [entry for entry in audit.list_newest(app.app_db) if entry.about == "call 5"]
    assert [entry.what for entry in entries] == [
        "note removed",
        "label removed",
        "note removed",
        "label",
        "note",
    ]
    assert {entry.address for entry in entries} == {"127.0.0.1"}
    for words in ("billing question", "urgent"):
        assert words not in text(client.get("/calls/5"))
    assert client.post("/calls/5/notes", text="  ").status_code == 400


def test_the_drawer_shows_call_back_messages_and_earlier_calls_of_the_caller(app, client, missed):
    app.call(8, ago(30), state="ringing", outcome=None)
    message = {"from": CALLER, "to": "1", "message": "Where are you?", "type": "I"}
    app.put("sms", {"id": 1, "created_at": ago(500), **message})
    page = text(client.get("/calls/8/beside"))
    assert "Missed 1 time since" in page
    assert "Where are you?" in page
    assert "Earlier calls Missed" in page
    assert "Earlier calls No earlier calls" in text(client.get("/calls/7/beside")), "call 8 came later"


def test_the_system_page_warns_of_calls_without_webhooks(app, client):
    app.call(1, ago(600), sources="cdr")
    assert "sent no webhook for it" in text(client.get("/system"))
    app.context.inbox.receive(b'{"id": "t.1", "event_name": "call.ringing"}').result(30)
    assert "sent no webhook for it" not in text(client.get("/system"))


def test_a_search_beyond_the_time_limit_gets_503_with_advice(app, client, monkeypatch):
    monkeypatch.setattr("integration.dashboard.calls.history.READ_SECONDS", -1.0)
    monkeypatch.setattr("integration.mirror.page_queries.history.MAX_COUNT", 10**9)
    app.mirror_db.write(
        lambda tx: tx.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
            " INSERT INTO _calls (id, direction, state, unconfirmed, provisional, outcome, started_at, party,"
            " party_name, hold_incomplete, legs, recordings, voicemails, cdrs, sources, change_no)"
            " SELECT i, 'in', 'ended', 0, 0, 'missed', '2026-01-01 00:00:00', '', '', 0, 1, 0, 0, 1, '', 0"
            " FROM n"
        )
    )
    answer = client.get("/calls?range=all&recorded=1")
    assert answer.status_code == 503
    assert "Narrow it to fewer days" in text(answer)
