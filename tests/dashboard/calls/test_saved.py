"""Saved views and columns, full-text search, badges, contact pages."""

from __future__ import annotations

import re

from integration.core import clock
from integration.mirror.derived import due
from integration.workspace.callback_following import update_from_mirror
from tests.support.clock import ago
from tests.support.page_text import text
from tests.support.people import BOB, CAROL, DAVE, ERIN


def test_a_view_is_saved_and_pinned_without_unknown_parameters(app, client):
    app.call(1, ago(60))
    client.post("/calls/views", name="  Monday  calls ", query="outcome=missed&evil=1", pinned="1")
    page = client.get("/calls").text
    assert '<a class="chip" href="/calls?outcome=missed"' in page
    assert "Monday calls" in page
    assert "evil" not in page


def test_a_view_is_private_unless_shared(app, client):
    client.post("/calls/views", name="Mine", query="q=abc")
    client.post("/calls/views", name="Ours", query="q=def", shared="1")
    removed = re.findall(r'action="(/calls/views/\d+/remove)"', client.get("/calls").text)
    other = app.log_in(DAVE)
    page = text(other.get("/calls"))
    assert "Ours" in page
    assert "Mine" not in page
    assert [other.post(path).status_code for path in removed] == [404, 404]
    other.post("/calls/views", name="Everybody look", query="q=x", shared="1")
    assert "Everybody look" not in text(client.get("/calls"))
    client.post(removed[0])
    assert "Mine" not in text(client.get("/calls"))


def test_hidden_columns_are_stored_per_user(app, client):
    app.call(1, ago(60), charge=1.25)
    assert "1.25" in text(client.get("/calls"))
    client.post("/calls/columns", column="line")
    page = client.get("/calls")
    assert "1.25" not in text(page)
    assert "Waited" not in page.text.split("<thead>")[1].split("</thead>")[0]
    assert "1.25" in text(app.log_in(DAVE).get("/calls"))
    client.post("/calls/views", name="With cost", query="q=", with_columns="1", column="cost")
    assert "1.25" in text(client.get("/calls")), "columns that were chosen beside the name of a view"
    client.post("/calls/views", name="Mine", query="q=")
    assert "1.25" in text(client.get("/calls")), "a form without columns changes none"


def test_the_destination_text_of_an_outbound_call_is_no_party_name(app, client):
    app.call(1, ago(60), direction="out", context="CLICK_TO_CALL", party_name="United Kingdom Mobile")
    page = client.get("/calls").text
    assert 'data-open>07700 900101</a> <span class="faint small">Mobile, UK</span>' in page
    app.put("contacts", {"id": 1, "first_name": "Nora", "last_name": "Lind", "tel": "447700900101"})
    assert "data-open>United Kingdom Mobile</a>" in client.get("/calls").text  # of a contact


def test_unread_messages_are_counted_per_user_until_marked_as_read(app, client):
    other = app.log_in(ERIN)
    sms = {"from": "447700900101", "to": "1", "message": "Hello?", "type": "I"}
    app.put("sms", {"id": 1, "created_at": clock.utc_text(clock.unix() + 5), **sms})
    count = 'data-count="messages">1<'
    assert count in client.get("/").text
    assert "Mark as read" in text(client.get("/messages?with=447700900101"))
    client.post("/messages/read", **{"with": "447700900101", "to": clock.utc_text(clock.unix() + 5)})
    assert count not in client.get("/").text
    assert count in other.get("/").text


def test_the_badge_of_missed_calls_counts_only_own_calls_of_limited_agents(own_calls_only):
    app = own_calls_only
    app.call(7, ago(600), outcome="missed", user_id=1, change_no=1)
    app.call(8, ago(600), outcome="missed", user_id=2, party="1", party_e164="+447700900102", change_no=2)
    app.mirror_db.write(lambda tx: tx.announce("call", 8, {}))
    update_from_mirror(app.app_db, app.mirror_db)
    badge = 'data-count="missed">{}<'
    # During the first sync callers are listed whose later calls are not read yet.
    assert badge.format("") in (page := app.log_in(BOB).get("/").text)
    assert re.search(r"To call back</dt><dd[^>]*><a href=./missed.>—<", page)
    notice = "Callers leave this list when a later call with them is read"
    assert notice in text(app.log_in(BOB).get("/missed"))
    app.insert("_walks", collection="cdrs", complete_at=ago(60))
    app.mirror_db.write(lambda tx: due.mark(tx, "legs", [(70, 70)]))
    assert badge.format("") in app.log_in(BOB).get("/").text
    app.mirror_db.write(lambda tx: due.remove(tx, "legs", [70]))
    assert notice not in text(app.log_in(BOB).get("/missed"))
    assert badge.format(1) in app.log_in(CAROL.as_user(1)).get("/").text
    assert badge.format(2) in app.log_in(BOB).get("/").text
