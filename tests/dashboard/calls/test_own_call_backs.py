"""Call-backs of agents and viewers who see only their own calls."""

from __future__ import annotations

import pytest

from integration.workspace import callbacks
from integration.workspace.callback_following import update_from_mirror
from tests.dashboard.calls.test_live_and_missed import state_of
from tests.support.clock import ago
from tests.support.page_text import text
from tests.support.people import BOB, CALLER, CAROL, DAVE, ERIN


@pytest.fixture
def other_users_item(own_calls_only):
    """Open item of a caller whom platform user 12 missed."""
    app = own_calls_only
    app.call(8, ago(600), outcome="missed", user_id=12, party_name="Secret Caller", change_no=1)
    app.mirror_db.write(lambda tx: tx.announce("call", 8, {}))
    update_from_mirror(app.app_db, app.mirror_db)
    with app.app_db.read() as connection:
        return callbacks.list_items(connection)[0].id


def test_agents_limited_to_own_calls_cannot_change_other_call_backs(own_calls_only, other_users_item):
    app, number = own_calls_only, other_users_item
    agent, owner, unassigned = (
        app.log_in(CAROL.as_user(11)),
        app.log_in(CAROL.as_user(12)),
        app.log_in(ERIN),
    )
    for client in (agent, unassigned):
        for action in ("close", "assign", "note", "reopen"):
            assert client.post(f"/missed/{number}/{action}", owner="me", note="x").status_code == 404
    with app.app_db.read() as connection:
        item = callbacks.find_item(connection, number)
    assert (item.state, item.owner, item.note) == ("open", None, None)
    assert owner.post(f"/missed/{number}/close", note="done").status_code == 200
    assert state_of(app, number) == "closed"
    assert agent.post(f"/missed/{number}/reopen").status_code == 404
    assert app.log_in(BOB).post(f"/missed/{number}/reopen").status_code == 200
    assert state_of(app, number) == "open"


def test_agents_limited_to_own_calls_read_no_other_call_backs(own_calls_only, other_users_item):
    app, number = own_calls_only, other_users_item
    # The caller tried user 11 too, but their last call was to user 12.
    app.call(1, ago(900), user_id=11)
    app.put("contacts", {"id": 3, "first_name": "Caller", "tel": CALLER, "user_id": None, "global": True})
    agent, viewer = app.log_in(CAROL.as_user(11)), app.log_in(DAVE.as_user(11))
    callbacks.record_action(app.app_db, number, "bob@example.com", "note", "Secret note")
    for path in ("/calls/1", "/calls/1/beside", "/contacts/3", f"/contacts/of/{CALLER}", "/missed"):
        assert "called back" in text(app.log_in(BOB).get(path)) or "Secret" in app.log_in(BOB).get(path).text
        for client in (agent, viewer):
            response = client.get(path)
            assert response.status_code == 200
            assert "Secret" not in response.text, path
            assert "called back" not in text(response), path
    app.log_in(BOB).post(f"/missed/{number}/close")
    for client in (agent, viewer):
        assert "Secret" not in client.get(f"/missed?done={number}").text
        assert "Secret" not in client.get("/missed?state=closed").text
    assert "Secret Caller marked as done" in text(app.log_in(BOB).get(f"/missed?done={number}"))


def test_call_backs_of_groups_belong_to_all_agents(own_calls_only):
    app = own_calls_only
    app.call(9, ago(600), outcome="missed", user_id=None, party_name="Group Caller", change_no=1)
    app.mirror_db.write(lambda tx: tx.announce("call", 9, {}))
    update_from_mirror(app.app_db, app.mirror_db)
    agent = app.log_in(CAROL.as_user(11))
    assert "Group Caller" in agent.get("/missed").text
    assert agent.post("/missed/1/close").status_code == 200


def test_a_joined_call_keeps_its_call_back_visible(own_calls_only, other_users_item):
    app = own_calls_only
    app.mirror_db.write(lambda tx: tx.execute("UPDATE _calls SET id = 6 WHERE id = 8"))
    app.insert("_merged_calls", id=8, into_id=6, change_no=0)
    app.insert("_walks", collection="cdrs", complete_at=ago(60))
    owner = app.log_in(CAROL.as_user(12))
    assert "Secret Caller" in owner.get("/missed").text
    assert 'data-count="missed">1<' in owner.get("/").text
    assert "Secret Caller" not in app.log_in(CAROL.as_user(11)).get("/missed").text
