"""Settings: access, secrets that are shown once, and the audit log."""

from __future__ import annotations

import re
from html import unescape

import requests
from werkzeug.test import Client

from integration.access import audit, keys, people, sessions, setup_links
from integration.core import clock
from integration.inbox.receive import Receiver
from integration.settings.data_dir_secrets import WebhookSecrets, load_webhook_secrets
from tests.support.page_text import text
from tests.support.people import ERIN


def shown_once(answer: requests.Response) -> str:
    found = re.search(r'<br><code class="mono">([^<]+)</code>', answer.text)
    assert found, text(answer)[:400]
    return unescape(found[1])


def audited(app) -> list[tuple[str, str]]:
    return [(entry.what, entry.about) for entry in audit.list_newest(app.app_db)]


def test_a_user_is_added_once_with_a_link_that_is_shown_once(app, client):
    answer = client.post("/settings/people", email="Bea@example.com", role="agent", platform_user_id="7")
    link = shown_once(answer)
    found = people.find(app.app_db, "bea@example.com")
    assert (found.role, found.platform_user_id, found.has_password) == ("agent", 7, False)
    assert setup_links.find(app.app_db, link.rsplit("/", 1)[1]).person == found
    token = link.rsplit("/", 1)[1]
    for path in ("/settings", "/privacy/audit"):
        assert token not in client.get(path).text
    assert ("user added", "bea@example.com, Agent") in audited(app)
    repeated = client.post("/settings/people", email="BEA@example.com", role="admin")
    assert repeated.status_code == 400
    assert "exists already" in text(repeated)
    assert people.find(app.app_db, "bea@example.com").role == "agent"


def test_role_rights_and_platform_user_are_changed_and_audited(app, client):
    bea = people.create(app.app_db, "bea@example.com", "viewer", password_hash="x")
    client.post(
        f"/settings/people/{bea.id}", role="agent", export="yes", recordings="no", platform_user_id="12"
    )
    changed = people.get(app.app_db, bea.id)
    assert (changed.role, changed.rights, changed.platform_user_id) == ("agent", {"export"}, 12)
    assert ("user changed", "bea@example.com, Agent, may: Export") in audited(app)


def read_version(client, path: str) -> str:
    return re.search(r'name="version" value="([^"]*)"', client.get(path).text)[1]


def test_of_two_administrators_who_change_a_user_the_later_keeps_the_changes_of_the_first(app, client):
    app.put("users", {"id": 12, "first_name": "Finn", "last_name": "Gallagher", "ext": "1006"})
    bea = people.create(app.app_db, "bea@example.com", "viewer", password_hash="x")
    path = f"/settings/people/{bea.id}"
    shown = {"role": "viewer", "export": "", "platform_user_id": "", "version": read_version(client, path)}
    client.post(path, **shown | {"role": "agent", "platform_user_id": "12"})
    client.post(path, **shown | {"export": "yes"})
    changed = people.get(app.app_db, bea.id)
    assert (changed.role, changed.platform_user_id) == ("agent", 12)
    assert "export" in changed.rights

    refused = client.post(path, **shown | {"role": "supervisor", "platform_user_id": "13", "export": "no"})
    assert refused.status_code == 409
    for stored in ("Agent", "Finn Gallagher", "yes"):
        assert f'<span class="error">Now saved: “{stored}”</span>' in refused.text
    assert re.findall(r"<option[^>]* selected>([^<]*)", refused.text)[:1] == ["Supervisor"]
    assert people.get(app.app_db, bea.id) == changed
    shown["version"] = re.search(r'name="version" value="([^"]*)"', refused.text)[1]
    client.post(path, **shown | {"role": "supervisor", "platform_user_id": "12", "export": "yes"})
    assert people.get(app.app_db, bea.id).role == "supervisor"


def test_a_refused_change_of_a_user_changes_nothing(app, client):
    bea = people.create(app.app_db, "bea@example.com", "viewer", password_hash="x")
    refused = client.post(
        f"/settings/people/{bea.id}", role="agent", export="yes", platform_user_id="1000000000000"
    )
    assert refused.status_code == 400
    assert "The linked phone user must be a number." in text(refused)
    assert '<option value="agent" selected>Agent' in refused.text
    assert people.get(app.app_db, bea.id) == bea
    assert audited(app) == []


def test_the_last_administrator_can_neither_be_removed_nor_demoted(app, client):
    (admin,) = people.list_all(app.app_db)
    for answer in (
        client.post(f"/settings/people/{admin.id}/remove"),
        client.post(f"/settings/people/{admin.id}", role="viewer"),
    ):
        assert answer.status_code == 400
        assert "is the last administrator" in text(answer)
    assert people.list_all(app.app_db) == [admin]


def test_removing_a_user_ends_their_sessions(app, client):
    other = app.log_in(ERIN)
    assert other.get("/").url.endswith("/")
    number = next(one.id for one in people.list_all(app.app_db) if one.role == "agent")
    client.post(f"/settings/people/{number}/remove")
    assert other.get("/").url.endswith("/login")


def test_a_reset_creates_a_link_and_keeps_the_password(app, client):
    bea = people.create(app.app_db, "bea@example.com", "viewer", password_hash="x")
    link = shown_once(client.post(f"/settings/people/{bea.id}/reset"))
    assert setup_links.find(app.app_db, link.rsplit("/", 1)[1]).person.id == bea.id
    assert people.get(app.app_db, bea.id).has_password


def test_an_administrator_ends_a_session_only_through_its_user(app, client):
    other = app.log_in(ERIN)
    agent = next(one.id for one in people.list_all(app.app_db) if one.role == "agent")
    admin = next(one.id for one in people.list_all(app.app_db) if one.role == "admin")
    (session,), (mine,) = (sessions.list_of_person(app.app_db, number) for number in (agent, admin))
    assert client.post(f"/settings/people/{agent}/log-out", session=str(mine.id)).status_code == 400
    assert sessions.list_of_person(app.app_db, admin)
    client.post(f"/settings/people/{agent}/log-out", session=str(session.id))
    assert other.get("/").url.endswith("/login")


def test_a_key_is_shown_once_and_works_until_revoked(app, client):
    user_id, secret = shown_once(
        client.post("/settings/keys", name="Reports", scope="read", collections="cdrs")
    ).split(":")
    key = keys.authenticate(app.app_db, user_id, secret)
    assert (key.name, key.scope, key.collections) == ("Reports", "read", ("cdrs",))
    page = client.get("/settings/keys").text
    assert secret not in page
    assert "Reports" in page
    client.post(f"/settings/keys/{user_id}/revoke")
    assert keys.authenticate(app.app_db, user_id, secret) is None
    assert [what for what, _ in audited(app)] == ["key revoked", "key added"]


def test_a_refused_key_form_keeps_the_entered_values(app, client):
    answer = client.post("/settings/keys", name="Sums", scope="write", collections="cdrs, nothing")
    assert answer.status_code == 400
    for kept in (
        'name="name" required maxlength="100" autocomplete="off" value="Sums"',
        ' value="cdrs, nothing"',
    ):
        assert kept in answer.text
    assert '<option value="write" selected>Read and write' in answer.text
    assert keys.list_all(app.app_db) == []


def test_both_webhook_secrets_work_until_the_old_one_is_removed(app, client, monkeypatch):
    monkeypatch.setattr("integration.settings.data_dir_secrets.CHECK_SECONDS", 0)
    (old,) = load_webhook_secrets(app.context.settings)
    receiver = Client(
        Receiver(app.context.inbox, app.context.settings.webhooks, WebhookSecrets(app.context.settings))
    )
    assert old in client.get("/settings/connection").text
    client.post("/settings/connection/webhook/rotate")
    new, kept = load_webhook_secrets(app.context.settings)
    assert kept == old != new
    refused = client.post("/settings/connection/webhook/rotate")
    assert refused.status_code == 400
    assert "delete the old secret first" in text(refused)
    assert load_webhook_secrets(app.context.settings) == [new, kept]
    assert [what for what, _ in audited(app)].count("webhook secret rotated") == 1
    assert [receiver.get(f"/webhooks/{one}").status_code for one in (new, old, "wrong")] == [200, 200, 404]
    page = client.get("/settings/connection").text
    assert new in page
    assert old not in page
    client.post("/settings/connection/webhook/forget")
    assert [receiver.get(f"/webhooks/{one}").status_code for one in (new, old)] == [200, 404]
    assert not any(new in about or old in about for _, about in audited(app))


def test_the_webhook_check_shows_that_no_url_is_set(client):
    assert "not set" in text(client.post("/settings/connection/webhook/check"))


# --- wallboard -------------------------------------------------------------------------------------------


def test_a_wallboard_needs_only_its_url_and_shows_no_party(app, client):
    for number, state in enumerate(("ringing", "talking"), 1):
        app.call(
            number, clock.utc_text(clock.unix() - 90), state=state, outcome=None, party_name="Greta Lindqvist"
        )
    url = shown_once(client.post("/settings/screens", name="Front desk", level="90", wait="60", missed="2"))
    path = url[url.index("/wall/") :]
    board = requests.get(app.url + path, timeout=30)
    shown = text(board)
    assert "Waiting 1" in shown
    assert "Talking 1" in shown
    assert "≥ 90 %" in shown
    assert re.search(r"Longest wait 1:[3-5]\d ! target 1:00", shown)
    for secret in ("Greta", "447700900101", "07700"):
        assert secret not in board.text
    assert board.headers["Cache-Control"] == "no-store"


def test_a_wallboard_url_opens_no_other_page_and_ends_when_revoked(app, client):
    url = shown_once(client.post("/settings/screens", name="Front desk"))
    path = url[url.index("/wall/") :]
    visitor = requests.Session()
    assert visitor.get(app.url + path, timeout=30).status_code == 200
    for closed in ("/", "/live/stream", "/calls", "/settings/people", "/system"):
        answer = visitor.get(app.url + closed, timeout=30, headers={"Accept": "text/html"})
        assert answer.url.split("?")[0].endswith("/login"), closed
    for wrong in ("/wall/", "/wall/x", path + "x", path[:-1]):
        assert visitor.get(app.url + wrong, timeout=30, allow_redirects=False).status_code in (302, 401, 404)
    assert path.removeprefix("/wall/") not in client.get("/settings/screens").text
    client.post("/settings/screens/1/revoke")
    ended = visitor.get(app.url + path, timeout=30, headers={"Accept": "text/html"})
    assert ended.status_code == 404
    assert "This wallboard was revoked, or its URL is incomplete." in text(ended)
