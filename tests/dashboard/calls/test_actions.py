"""Actions on calls, messages and contacts, sent to a simulated platform."""

from __future__ import annotations

import re

import pytest

from integration.catalogue import get_resource
from integration.core import clock
from integration.mirror.records.upsert import upsert
from tests.support.application import Browser, running_app
from tests.support.harness import Simulator
from tests.support.page_text import text
from tests.support.people import BOB, CAROL, ERIN, Member
from tests.support.records import list_writes


@pytest.fixture(scope="module")
def simulator():
    simulator = Simulator("--seed", "5", "--cdrs", "50", "--no-traffic")
    for _ in range(2):
        # The number of voicemail messages in its history depends on the day of the week.
        simulator.control("POST", "calls", {"script": "voicemail", "instant": True})
    yield simulator
    simulator.stop()


@pytest.fixture
def acting(tmp_path, simulator):
    """A dashboard in front of the simulator, with mirrored users and contacts."""
    with running_app(
        tmp_path / "data",
        platform__base_url=simulator.url,
        platform__user_id=simulator.user_id,
        platform__api_key=simulator.api_key,
    ) as app:
        for name in ("users", "ddis", "contacts", "queues", "sms/cannedresponses", "voicemessages"):
            found = app.context.platform.page(name)
            app.mirror_db.write(
                lambda tx, name=name, found=found: upsert(
                    tx, get_resource(name), found.records, source="sync", requested_at=clock.utc_text()
                )
            )
        yield app
        app.context.platform.close()


@pytest.fixture
def people(simulator):
    return simulator.control("GET", "account")["people"]


@pytest.fixture
def phone_user(people):
    """A platform user with an online phone and without administrator rights."""
    return next(person for person in people if person["online"] and not person["is_root"])


def logged_requests(simulator, method: str, path: str) -> list[dict]:
    """Requests that the platform received, with paths that end in `path`."""
    return [
        entry
        for entry in simulator.control("GET", "log")["data"]
        if entry["method"] == method and entry["path"].endswith(path)
    ]


def talk(simulator, app, phone_user, until: str = "connected") -> int:
    """Start an inbound call of the user, on platform and in mirror.

    Returns the id of its leg.
    """
    made = simulator.control(
        "POST",
        "calls",
        {
            "script": "plain_answered",
            "user": phone_user["ext"],
            "talk_seconds": 600,
            "until": until,
            "silent": True,
        },
    )
    leg = made["leg_ids"][0]
    values = {"dst_id": str(phone_user["id"]), "dst_name": phone_user["name"]}
    app.event("call.ringing", leg, clock.utc_text(), state="RINGING", **values)
    if until == "connected":
        now = clock.utc_text()
        app.event("call.connected", leg, now, state="CONNECTED", connected_at=now, **values)
    return leg


def live_at(app, leg: int) -> dict:
    return app.context.platform.item(f"/calls/{leg}").values


# --- call control --------------------------------------------------------------------------------------


def test_hanging_up_ends_the_call_on_the_platform_and_is_in_the_write_log(acting, simulator, phone_user):
    leg = talk(simulator, acting, phone_user)
    client = acting.log_in(BOB)
    page = client.get(f"/calls/{leg}")
    assert "End the call with 07700 900101 , talking for 0:0" in text(page)
    assert client.post(f"/calls/{leg}/hangup", follow=False).status_code == 303
    assert acting.context.platform.get(f"/calls/{leg}", check=False).status == 404
    row = list_writes(acting.app_db)[-1]
    assert (row["method"], row["path"], row["status"], row["result"], row["who"]) == (
        "DELETE", f"/calls/{leg}", 204, "done", BOB.email,
    )  # fmt: skip


def test_a_call_is_transferred_to_a_listed_user_or_to_a_number(acting, simulator, phone_user, people):
    client = acting.log_in(BOB)
    other = next(person for person in people if person["id"] != phone_user["id"] and person["online"])
    leg = talk(simulator, acting, phone_user)
    page = client.get(f"/calls/{leg}/beside").text
    assert f'<option value="{other["ext"]}">' in page
    assert f'<option value="{phone_user["ext"]}">' not in page
    refused = client.post(f"/calls/{leg}/transfer", to="", number="")
    assert (refused.status_code, "Choose a person or enter a number." in text(refused)) == (400, True)
    assert not logged_requests(simulator, "PATCH", f"/calls/{leg}")
    assert client.post(f"/calls/{leg}/transfer", to=other["ext"], follow=False).status_code == 303
    leg = talk(simulator, acting, phone_user)
    assert client.post(f"/calls/{leg}/transfer", number="07700 900555", follow=False).status_code == 303
    assert logged_requests(simulator, "PATCH", f"/calls/{leg}")


def test_a_ringing_call_is_answered_by_the_user_whose_phone_rings(acting, simulator, phone_user):
    leg = talk(simulator, acting, phone_user, until="ringing")
    client = acting.log_in(CAROL.as_user(phone_user["id"]))
    assert f'action="/calls/{leg}/answer"' in client.get(f"/calls/{leg}/beside").text
    assert client.post(f"/calls/{leg}/answer", follow=False).status_code == 303
    assert live_at(acting, leg)["state"] == "CONNECTED"


def test_recording_is_started_paused_and_resumed(acting, simulator, phone_user):
    leg = talk(simulator, acting, phone_user)
    client = acting.log_in(BOB)
    assert "Pause recording" not in text(client.get(f"/calls/{leg}/beside"))
    for word, letter in (("start", "A"), ("pause", "P"), ("resume", "A")):
        assert client.post(f"/calls/{leg}/record", state=word, follow=False).status_code == 303
        assert live_at(acting, leg)["monitor_state"] == letter
    assert "Pause recording" in text(client.get(f"/calls/{leg}/beside"))
    assert client.post(f"/calls/{leg}/record", state="other").status_code == 400


def test_agents_control_only_their_own_calls_and_viewers_none(acting, simulator, phone_user, people):
    leg = talk(simulator, acting, phone_user)
    stranger = next(person for person in people if person["id"] != phone_user["id"])
    for role, user in (("viewer", phone_user["id"]), ("agent", stranger["id"]), ("agent", None)):
        client = acting.log_in(Member(f"{role}.{user}@example.com", role, user))
        page = client.get(f"/calls/{leg}/beside").text
        for action in ("hangup", "transfer", "record", "answer"):
            assert client.post(f"/calls/{leg}/{action}", state="start", to="1").status_code == 403
            assert f'action="/calls/{leg}/{action}"' not in page
    assert live_at(acting, leg)["state"] == "CONNECTED"


def test_an_ended_call_cannot_be_controlled(acting, simulator, phone_user):
    leg = talk(simulator, acting, phone_user)
    acting.event("call.hangup", leg, clock.utc_text(), state="HANGUP")
    client = acting.log_in(BOB)
    answer = client.post(f"/calls/{leg}/hangup")
    assert answer.status_code == 409
    assert "This call has ended" in text(answer)
    assert "hangup" not in client.get(f"/calls/{leg}/beside").text


# --- placing a call ------------------------------------------------------------------------------------


def test_a_call_is_placed_from_the_users_own_phone_and_once_per_form(acting, simulator, phone_user):
    client = acting.log_in(CAROL.as_user(phone_user["id"]))
    before = len(logged_requests(simulator, "POST", "/calls"))
    for _ in range(2):
        answer = client.post("/dial", to="07700 900123", once="the same form", follow=False)
        assert answer.status_code == 303, answer.text
    assert len(logged_requests(simulator, "POST", "/calls")) == before + 1
    body = list_writes(acting.app_db)[-1]["body"]
    assert body == f'{{"to":"447700900123","from":"{phone_user["id"]}"}}'


def test_a_dashboard_user_has_the_phone_of_the_platform_user_with_their_email(acting, simulator, phone_user):
    token = acting.make_token(Member(phone_user["email"], "agent"))
    client = Browser(acting.url, token)
    assert client.post("/dial", to="07700 900124", follow=False).status_code == 303


def test_a_refused_call_shows_the_platforms_message_and_can_be_repeated(acting, simulator, people):
    offline = next(person for person in people if not person["online"])
    client = acting.log_in(CAROL.as_user(offline["id"]))
    for _ in range(2):
        answer = client.post("/dial", to="07700 900125", once="the same form")
        assert answer.status_code == 412
        assert "Unable to make a call with no VoIP clients registered" in text(answer)
        assert 'value="07700 900125"' in answer.text


def test_a_phone_link_of_another_page_opens_the_form_with_its_number(acting):
    acting.put("contacts", {"id": 5, "first_name": "Zoe", "last_name": "Quill", "mobile": "447700900101"})
    client = acting.log_in(CAROL)
    for link, shown in (
        ("tel:+44(7700)900101;ext=12", "07700 900101"),
        ("TEL:%2B44%207700%20900101", "07700 900101"),
        ("callto://07700900101", "07700 900101"),
        ("callto:1001", "1001"),
        ("javascript:alert(1)", "javascript:alert(1)"),
    ):
        page = client.get("/dial", params={"to": link}).text
        assert f'value="{shown}"' in page, link
        assert ("Zoe Quill" in page) == (shown == "07700 900101"), link


def test_a_user_without_phone_gets_a_message_or_chooses_one(acting, phone_user):
    agent, boss = acting.log_in(ERIN), acting.log_in(BOB)
    assert "Your account isn’t linked to a phone. Ask an administrator." in text(
        agent.post("/dial", to="07700 900126")
    )
    choice = boss.post("/dial", to="+447700900126", item="3")
    assert choice.url.endswith("/dial?to=447700900126&item=3")
    assert 'required value="07700 900126"' in choice.text
    assert '<input type="hidden" name="item" value="3">' in choice.text
    fields = {"to": "07700 900126", "item": "3", "phone": str(phone_user["id"])}
    assert boss.post("/dial", follow=False, **fields).headers["Location"] == "/missed#item-3"
    assert f'value="{phone_user["id"]}" selected' in boss.get("/dial").text


def test_agents_cannot_choose_another_phone(acting, simulator, phone_user, people):
    other = next(person for person in people if person["online"] and person["id"] != phone_user["id"])
    client = acting.log_in(CAROL.as_user(phone_user["id"]))
    client.post("/dial", to="07700 900127", phone=str(other["id"]))
    body = list_writes(acting.app_db)[-1]["body"]
    assert f'"from":"{phone_user["id"]}"' in body


# --- messages and contacts -----------------------------------------------------------------------------


def test_a_message_is_sent_and_shown_in_its_thread(acting, simulator):
    client = acting.log_in(ERIN)
    with acting.mirror_db.read() as connection:
        line = connection.execute("SELECT e164 FROM ddis WHERE sms_enabled = 1").fetchone()["e164"]
    form = client.get("/messages?with=447700900123").text
    assert f'value="{line}"' in form
    answer = client.post("/messages", to="447700900123", message="Ready at six.", **{"from": str(line)})
    assert "Ready at six." in text(answer)
    assert re.search(r"Ready at six\. Sent \d\d:\d\d · by Erin · 020 7946 ", text(answer))
    assert any(
        row.values["message"] == "Ready at six." for row in acting.context.platform.page("sms").records
    )


def test_a_template_is_sent_and_a_message_that_cannot_be_sent_stays_in_the_form(acting):
    client = acting.log_in(ERIN)
    with acting.mirror_db.read() as connection:
        row = connection.execute("SELECT id, _doc ->> '$.text' AS text FROM sms_cannedresponses").fetchone()
        line = connection.execute("SELECT e164 FROM ddis WHERE sms_enabled = 1").fetchone()["e164"]
    answer = client.post("/messages", to="447700900124", canned=str(row["id"]), **{"from": str(line)})
    assert row["text"] in text(answer)
    empty = client.post("/messages", to="447700900123", message=" ")
    assert empty.status_code == 400
    assert "Enter a message or choose a template." in text(empty)
    foreign = client.post("/messages", to="447700900123", message="Keep me", **{"from": "447700900999"})
    assert foreign.status_code == 400
    assert "Phone system: " in text(foreign)
    assert ">Keep me</textarea>" in foreign.text


def test_a_contact_is_deleted_after_a_confirmation(acting):
    client = acting.log_in(ERIN)
    with acting.mirror_db.read() as connection:
        number = connection.execute("SELECT max(id) FROM contacts").fetchone()[0]
    assert "on the phone system, for everyone?" in text(client.get(f"/contacts/{number}"))
    record = acting.context.platform.item(f"/contacts/{number}").values
    name = " ".join(part for part in (record["first_name"], record["last_name"]) if part)
    refused = client.post(f"/contacts/{number}/delete", confirm="Cora")
    assert refused.status_code == 400
    assert f"Not deleted: type “{name}” to confirm." in text(refused)
    answer = client.post(f"/contacts/{number}/delete", confirm=f" {name.lower()} ")
    assert answer.url.endswith("/contacts")
    assert acting.context.platform.get(f"/contacts/{number}", check=False).status == 404
    assert client.get(f"/contacts/{number}").status_code == 404


def test_a_voicemail_message_is_marked_as_played_here_and_on_the_platform(acting):
    client = acting.log_in(ERIN)
    sql = "UPDATE voicemessages SET is_new = 0, folder = 2 WHERE id = (SELECT max(id) FROM voicemessages)"
    acting.mirror_db.write(lambda tx: tx.execute(sql))
    with acting.mirror_db.read() as connection:
        number = connection.execute("SELECT min(id) FROM voicemessages WHERE is_new = 1").fetchone()[0]
    assert f'id="voicemail-{number}"' in client.get("/voicemail?new=1").text
    client.post(f"/voicemail/{number}/heard")
    assert f'id="voicemail-{number}"' not in client.get("/voicemail?new=1").text
    assert acting.context.platform.item(f"/voicemessages/{number}").values["is_new"] is False
    with acting.mirror_db.read() as connection:
        row = connection.execute("SELECT is_new FROM voicemessages WHERE id = ?", (number,)).fetchone()
    assert not row["is_new"]
