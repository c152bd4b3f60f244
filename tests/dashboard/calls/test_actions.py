"""What people do, at a simulated platform: each deed reaches it, once, and says what became of it."""

from __future__ import annotations

import pytest

from integration.catalogue import get_resource
from integration.core import clock
from integration.mirror.records.upsert import upsert
from integration.workspace import notes
from tests.support.application import Browser, running_app
from tests.support.harness import Simulator
from tests.support.page_text import text
from tests.support.people import BOB, CAROL, DAVE, ERIN, Member


@pytest.fixture(scope="module")
def simulator():
    simulator = Simulator("--seed", "5", "--cdrs", "50", "--no-traffic")
    for _ in range(2):
        # How many its history has depends on the day of the week.
        simulator.control("POST", "calls", {"script": "voicemail", "instant": True})
    yield simulator
    simulator.stop()


@pytest.fixture
def acting(tmp_path, simulator):
    """A dashboard whose platform is the simulator, with its people, numbers and prepared messages."""
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
def someone(people):
    """Who has a phone that is online, and is not the account's administrator."""
    return next(person for person in people if person["online"] and not person["is_root"])


def asked(simulator, method: str, path: str) -> list[dict]:
    """Requests the platform got."""
    return [
        entry
        for entry in simulator.control("GET", "log")["data"]
        if entry["method"] == method and entry["path"].endswith(path)
    ]


def talk(simulator, app, someone, until: str = "connected") -> int:
    """A call from outside with somebody, live at the platform and in the mirror; its leg's id."""
    made = simulator.control(
        "POST",
        "calls",
        {
            "script": "plain_answered",
            "user": someone["ext"],
            "talk_seconds": 600,
            "until": until,
            "silent": True,
        },
    )
    leg = made["leg_ids"][0]
    values = {"dst_id": str(someone["id"]), "dst_name": someone["name"]}
    app.event("call.ringing", leg, clock.utc_text(), state="RINGING", **values)
    if until == "connected":
        now = clock.utc_text()
        app.event("call.connected", leg, now, state="CONNECTED", connected_at=now, **values)
    return leg


def live_at(app, leg: int) -> dict:
    return app.context.platform.item(f"/calls/{leg}").values


# --- steering a call -----------------------------------------------------------------------------------


def test_hanging_up_ends_the_call_at_the_platform_and_is_journaled(acting, simulator, someone):
    leg = talk(simulator, acting, someone)
    client = acting.log_in(BOB)
    page = client.get(f"/calls/{leg}")
    assert "End the call with 07700 900101 , talking for 0:0" in text(page)
    assert client.post(f"/calls/{leg}/hangup", follow=False).status_code == 303
    assert acting.context.platform.get(f"/calls/{leg}", check=False).status == 404
    with acting.app_db.read() as connection:
        row = connection.execute("SELECT * FROM journal ORDER BY id DESC").fetchone()
    assert (row["method"], row["path"], row["status"], row["result"]) == (
        "DELETE",
        f"/calls/{leg}",
        204,
        "done",
    )
    assert row["who"] == BOB.email


def test_a_call_is_passed_on_to_somebody_of_the_list_or_to_a_number(acting, simulator, someone, people):
    client = acting.log_in(BOB)
    other = next(person for person in people if person["id"] != someone["id"] and person["online"])
    leg = talk(simulator, acting, someone)
    assert f'<option value="{other["ext"]}">' in client.get(f"/calls/{leg}/beside").text
    assert client.post(f"/calls/{leg}/transfer", to=other["ext"], follow=False).status_code == 303
    leg = talk(simulator, acting, someone)
    answer = client.post(f"/calls/{leg}/transfer", number="07700 900555", follow=False)
    assert answer.status_code == 303, answer.text
    assert asked(simulator, "PATCH", f"/calls/{leg}")


def test_a_transfer_to_nobody_is_refused_before_the_platform_is_asked(acting, simulator, someone):
    leg = talk(simulator, acting, someone)
    answer = acting.log_in(BOB).post(f"/calls/{leg}/transfer", to="", number="")
    assert answer.status_code == 400
    assert "Choose a person or write a number" in text(answer)
    assert not asked(simulator, "PATCH", f"/calls/{leg}")


def test_a_ringing_call_is_answered_by_whom_it_rings(acting, simulator, someone):
    leg = talk(simulator, acting, someone, until="ringing")
    client = acting.log_in(CAROL.as_user(someone["id"]))
    assert f'action="/calls/{leg}/answer"' in client.get(f"/calls/{leg}/beside").text
    assert client.post(f"/calls/{leg}/answer", follow=False).status_code == 303
    assert live_at(acting, leg)["state"] == "CONNECTED"


def test_recording_is_begun_and_paused(acting, simulator, someone):
    leg = talk(simulator, acting, someone)
    client = acting.log_in(BOB)
    assert "Pause recording" not in text(client.get(f"/calls/{leg}/beside"))
    for word, letter in (("start", "A"), ("pause", "P"), ("resume", "A")):
        assert client.post(f"/calls/{leg}/record", state=word, follow=False).status_code == 303
        assert live_at(acting, leg)["monitor_state"] == letter
    assert "Pause recording" in text(client.get(f"/calls/{leg}/beside"))
    assert client.post(f"/calls/{leg}/record", state="other").status_code == 400


def test_a_label_of_a_live_call_is_kept_here_and_told_to_the_platform(acting, simulator, someone):
    leg = talk(simulator, acting, someone)
    assert acting.log_in(ERIN).post(f"/calls/{leg}/labels", label="Order").status_code == 200
    with acting.app_db.read() as connection:
        assert notes.list_labels(connection, [leg]) == ["Order"]
    assert asked(simulator, "PATCH", f"/calls/{leg}")


@pytest.mark.parametrize("action", ["hangup", "transfer", "record", "answer"])
def test_agents_steer_their_own_calls_only_and_viewers_none(acting, simulator, someone, people, action):
    leg = talk(simulator, acting, someone)
    stranger = next(person for person in people if person["id"] != someone["id"])
    for role, user in (("viewer", someone["id"]), ("agent", stranger["id"]), ("agent", None)):
        client = acting.log_in(Member("ann@example.com", role, user))
        assert client.post(f"/calls/{leg}/{action}", state="start", to="1").status_code == 403
        assert f'action="/calls/{leg}/{action}"' not in client.get(f"/calls/{leg}/beside").text
    assert live_at(acting, leg)["state"] == "CONNECTED"


def test_no_deed_goes_without_the_proof_against_forged_requests(acting, simulator, someone):
    leg = talk(simulator, acting, someone)
    client = acting.log_in()
    for path in (f"/calls/{leg}/hangup", f"/calls/{leg}/transfer", "/dial", "/messages", "/contacts"):
        assert client.post(path, csrf=False, to="1001", message="x").status_code == 403
    assert live_at(acting, leg)["state"] == "CONNECTED"


def test_a_call_that_is_over_can_not_be_steered(acting, simulator, someone):
    leg = talk(simulator, acting, someone)
    acting.event("call.hangup", leg, clock.utc_text(), state="HANGUP")
    client = acting.log_in(BOB)
    answer = client.post(f"/calls/{leg}/hangup")
    assert answer.status_code == 409
    assert "This call has ended" in text(answer)
    assert "hangup" not in client.get(f"/calls/{leg}/beside").text


# --- placing a call ------------------------------------------------------------------------------------


def test_a_call_is_placed_from_ones_own_phone_and_only_once(acting, simulator, someone):
    client = acting.log_in(CAROL.as_user(someone["id"]))
    before = len(asked(simulator, "POST", "/calls"))
    for _ in range(2):
        answer = client.post("/dial", to="07700 900123", once="the same form", follow=False)
        assert answer.status_code == 303, answer.text
    assert len(asked(simulator, "POST", "/calls")) == before + 1
    with acting.app_db.read() as connection:
        body = connection.execute("SELECT body FROM journal ORDER BY id DESC").fetchone()["body"]
    assert body == f'{{"to":"447700900123","from":"{someone["id"]}"}}'


def test_a_persons_phone_is_known_by_their_address(acting, simulator, someone):
    token = acting.make_token(Member(someone["email"], "agent"))
    client = Browser(acting.url, token)
    assert client.post("/dial", to="07700 900124", follow=False).status_code == 303


def test_what_the_platform_refuses_is_said_in_its_words_and_may_be_repeated(acting, simulator, people):
    offline = next(person for person in people if not person["online"])
    client = acting.log_in(CAROL.as_user(offline["id"]))
    for _ in range(2):
        answer = client.post("/dial", to="07700 900125", once="again")
        assert answer.status_code == 412
        assert "Unable to make a call with no VoIP clients registered" in text(answer)
        assert 'value="07700 900125"' in answer.text


def test_who_has_no_phone_is_asked_or_told(acting, someone):
    agent = acting.log_in(ERIN)
    assert "No phone of yours is known" in text(agent.post("/dial", to="07700 900126"))
    boss = acting.log_in(BOB)
    asked_first = boss.post("/dial", to="07700 900126", follow=False)
    assert asked_first.headers["Location"] == "/dial?to=447700900126"
    chosen = boss.post("/dial", to="07700 900126", phone=str(someone["id"]), follow=False)
    assert chosen.status_code == 303
    assert f'value="{someone["id"]}" selected' in boss.get("/dial").text


def test_agents_do_not_choose_another_phone(acting, simulator, someone, people):
    other = next(person for person in people if person["online"] and person["id"] != someone["id"])
    client = acting.log_in(CAROL.as_user(someone["id"]))
    client.post("/dial", to="07700 900127", phone=str(other["id"]))
    with acting.app_db.read() as connection:
        body = connection.execute("SELECT body FROM journal ORDER BY id DESC").fetchone()["body"]
    assert f'"from":"{someone["id"]}"' in body


# --- messages and contacts -----------------------------------------------------------------------------


def test_a_message_is_sent_and_stands_in_its_thread(acting, simulator):
    client = acting.log_in(ERIN)
    with acting.mirror_db.read() as connection:
        line = connection.execute("SELECT e164 FROM ddis WHERE sms_enabled = 1").fetchone()["e164"]
    form = client.get("/messages?with=447700900123").text
    assert f'value="{line}"' in form
    answer = client.post("/messages", to="447700900123", message="Ready at six.", **{"from": str(line)})
    assert "Ready at six." in text(answer)
    assert "· OK" in text(answer)
    assert any(
        row.values["message"] == "Ready at six." for row in acting.context.platform.page("sms").records
    )


def test_a_prepared_message_is_sent_where_nothing_was_written(acting):
    client = acting.log_in(ERIN)
    with acting.mirror_db.read() as connection:
        row = connection.execute("SELECT id, _doc ->> '$.text' AS text FROM sms_cannedresponses").fetchone()
        line = connection.execute("SELECT e164 FROM ddis WHERE sms_enabled = 1").fetchone()["e164"]
    answer = client.post("/messages", to="447700900124", canned=str(row["id"]), **{"from": str(line)})
    assert row["text"] in text(answer)


def test_a_message_that_can_not_be_sent_is_kept_in_the_form(acting):
    client = acting.log_in(ERIN)
    empty = client.post("/messages", to="447700900123", message=" ")
    assert empty.status_code == 400
    assert "Write a message" in text(empty)
    foreign = client.post("/messages", to="447700900123", message="Keep me", **{"from": "447700900999"})
    assert foreign.status_code == 400
    assert "The platform says" in text(foreign)
    assert ">Keep me</textarea>" in foreign.text
    assert acting.log_in(DAVE).post("/messages", to="1", message="x").status_code == 403


def test_a_contact_is_changed_at_the_platform_and_here(acting):
    client = acting.log_in(ERIN)
    with acting.mirror_db.read() as connection:
        row = connection.execute("SELECT id, first_name FROM contacts ORDER BY id").fetchone()
    after = client.post(f"/contacts/{row['id']}", first_name="Renamed", email="new@example.org")
    assert "Renamed" in text(after)
    assert acting.context.platform.item(f"/contacts/{row['id']}").values["first_name"] == "Renamed"
    with acting.app_db.read() as connection:
        body = connection.execute("SELECT body FROM journal ORDER BY id DESC").fetchone()["body"]
    assert body == '{"first_name":"Renamed","email":"new@example.org"}'  # nothing that was not changed


def test_a_contacts_mistake_is_shown_at_its_field(acting):
    client = acting.log_in(ERIN)
    answer = client.post("/contacts", mobile="07700 900778")
    assert answer.status_code == 400
    assert 'name="mobile" value="07700 900778"' in answer.text
    assert '<span class="error">' in answer.text


def test_a_contact_is_made_of_a_number(acting):
    client = acting.log_in(ERIN)
    page = client.get("/contacts/of/447700900777")
    assert 'name="tel" value="+447700900777"' in page.text
    made = client.post("/contacts", first_name="Nora", tel="07700 900777")
    assert "Nora" in text(made)
    assert "Nora" in text(client.get("/contacts/of/447700900777"))


def test_the_platforms_labels_are_proposed(acting, simulator, someone):
    found = acting.context.platform.page("calllabels").records
    acting.mirror_db.write(
        lambda tx: upsert(tx, get_resource("calllabels"), found, source="sync", requested_at=clock.utc_text())
    )
    leg = talk(simulator, acting, someone)
    page = acting.log_in(ERIN).get(f"/calls/{leg}/beside").text
    assert f'<option value="{found[0].values["name"]}">' in page


def test_a_contact_is_deleted_after_being_named(acting):
    client = acting.log_in(ERIN)
    with acting.mirror_db.read() as connection:
        number = connection.execute("SELECT max(id) FROM contacts").fetchone()[0]
    assert "on the platform, for everybody?" in text(client.get(f"/contacts/{number}"))
    assert client.post(f"/contacts/{number}/delete").url.endswith("/contacts")
    assert acting.context.platform.get(f"/contacts/{number}", check=False).status == 404
    assert client.get(f"/contacts/{number}").status_code == 404


def test_a_voice_message_is_heard_here_and_on_the_platform(acting):
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


def test_a_message_is_heard_here_where_the_platform_does_not_tell_how(app):
    app.insert("voicemessages", id=3, caller="447700900101", origtime=clock.utc_text(), duration=9, is_new=1)
    client = app.log_in(ERIN)
    client.post("/voicemail/3/heard")
    assert "Nothing in this view" in client.get("/voicemail?new=1").text
    with app.app_db.read() as connection:
        assert connection.execute("SELECT count(*) FROM journal").fetchone()[0] == 0
