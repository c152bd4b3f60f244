"""Password reset and notices by e-mail."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from integration.access import people
from integration.access.login import mailer
from tests.support.application import TestApp
from tests.support.applications.login_site import PASSWORD, Visitor, add_with_password
from tests.support.applications.second_factor import count_rows, read_csrf, set_up_second_factor
from tests.support.clock import Clock
from tests.support.mail_server import MailServer, running_mail_server
from tests.support.people import ALICE, ERIN

NEW_PASSWORD = "meridian otter violin"


@pytest.fixture(scope="module")
def running_mailbox() -> Iterator[MailServer]:
    with running_mail_server() as server:
        yield server


@pytest.fixture
def mailbox(running_mailbox: MailServer) -> MailServer:
    running_mailbox.letters.clear()
    running_mailbox.refuse = ""
    return running_mailbox


@pytest.fixture
def settings(mailbox: MailServer) -> dict[str, str]:
    return {
        "smtp__host": "127.0.0.1",
        "smtp__port": str(mailbox.port),
        "smtp__from": "calls@example.com",
        "smtp__starttls": "false",
        "server__public_url": "https://switchroom.example.com",
    }


@pytest.fixture
def office(frozen_clock: Clock, app: TestApp) -> TestApp:
    """Erin and Alice, and a frozen clock."""
    add_with_password(app, ERIN)
    add_with_password(app, ALICE)
    return app


def request_reset(app: TestApp, email: str, visitor: Visitor | None = None) -> tuple[int, str]:
    visitor = visitor or Visitor(app.url)
    token = read_csrf(visitor.get("/login/reset").text)
    answer = visitor.post("/login/reset", {"csrf_token": token, "email": email})
    if answer.status_code == 303:
        answer = visitor.get(answer.headers["Location"])
    return answer.status_code, answer.text


def find_path(text: str) -> str:
    found = re.search(r"https://switchroom\.example\.com(/setup/\S+)", text)
    assert found is not None, text
    return found[1]


def choose(visitor: Visitor, path: str, password: str = NEW_PASSWORD) -> int:
    page = visitor.get(path)
    form = {"csrf_token": read_csrf(page.text), "password": password, "repeat": password}
    return visitor.post(path, form).status_code


def subjects(mailbox: MailServer) -> list[str]:
    return [str(letter["Subject"]) for letter in mailbox.letters]


def test_a_reset_link_sets_a_password_once_and_ends_sessions(office: TestApp, mailbox: MailServer) -> None:
    open_browser = Visitor(office.url)
    open_browser.log_in()
    mailer.send_due(office.context)
    mailbox.letters.clear()
    assert "Forgot your password?" in Visitor(office.url).get("/login").text
    assert request_reset(office, " ERIN@Example.com ")[0] == 200
    mailer.send_due(office.context)
    (letter,) = mailbox.letters
    assert (letter["To"], letter["From"]) == (ERIN.email, "calls@example.com")
    path = find_path(letter.get_content())
    stored = b"".join(file.read_bytes() for file in office.app_db.path.parent.glob("house.db*"))
    assert path.rpartition("/")[2].encode() not in stored
    assert open_browser.get("/").status_code == 200, "a request alone changes nothing"
    visitor = Visitor(office.url)
    assert choose(visitor, path, "password123") == 400
    assert choose(visitor, path) == 303
    assert open_browser.get("/").status_code == 302
    assert Visitor(office.url).get(path).status_code == 404
    assert Visitor(office.url).log_in(password=NEW_PASSWORD).status_code == 303


def test_unknown_and_known_addresses_get_the_same_response_and_work(
    office: TestApp, mailbox: MailServer
) -> None:
    responses, queued = set(), []
    for email in (ERIN.email, "nobody@example.com", "my password", ""):
        before = count_rows(office, "SELECT count(*) FROM login_mails")
        status, text = request_reset(office, email)
        responses.add((status, re.sub("[0-9a-f]{64}", "", text)))
        queued.append(count_rows(office, "SELECT count(*) FROM login_mails") - before)
    assert len(responses) == 1
    assert queued == [1, 1, 1, 1]
    assert count_rows(office, "SELECT count(*) FROM setup_links") == 0, "the link is made by the job"
    stored = b"".join(file.read_bytes() for file in office.app_db.path.parent.glob("house.db*"))
    assert b"my password" not in stored
    mailer.send_due(office.context)
    assert [letter["To"] for letter in mailbox.letters] == [ERIN.email]
    assert count_rows(office, "SELECT count(*) FROM login_mails") == 0


def test_a_reset_link_is_valid_for_half_an_hour(
    office: TestApp, mailbox: MailServer, frozen_clock: Clock
) -> None:
    request_reset(office, ERIN.email)
    mailer.send_due(office.context)
    path = find_path(mailbox.letters[0].get_content())
    frozen_clock.advance(1799)
    assert Visitor(office.url).get(path).status_code == 200
    frozen_clock.advance(2)
    assert Visitor(office.url).get(path).status_code == 404


def test_resets_are_limited(office: TestApp, frozen_clock: Clock) -> None:
    assert [request_reset(office, f"p{n}@example.com")[0] for n in range(11)] == [200] * 10 + [429]
    frozen_clock.advance(901)
    assert request_reset(office, ERIN.email)[0] == 200


def test_a_new_device_is_reported_once(office: TestApp, mailbox: MailServer) -> None:
    visitor = Visitor(office.url)
    visitor.http.headers["User-Agent"] = "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0"
    for _ in range(2):
        visitor.log_in()
        visitor.post("/logout", {"csrf_token": visitor.csrf_token})
    mailer.send_due(office.context)
    (letter,) = mailbox.letters
    assert (letter["To"], letter["Subject"]) == (ERIN.email, "New login to Switchroom")
    assert "Browser: Firefox on Linux. Address: 127.0.0.1." in letter.get_content()
    Visitor(office.url).log_in()
    mailer.send_due(office.context)
    assert subjects(mailbox) == ["New login to Switchroom"] * 2


def test_a_changed_password_is_reported(office: TestApp, mailbox: MailServer) -> None:
    visitor = Visitor(office.url)
    visitor.log_in()
    form = {"current": PASSWORD, "password": NEW_PASSWORD, "repeat": NEW_PASSWORD}
    visitor.post("/profile/password", {"csrf_token": visitor.csrf_token, **form})
    mailer.send_due(office.context)
    assert subjects(mailbox) == ["New login to Switchroom", "Your Switchroom password was changed"]
    assert {letter["To"] for letter in mailbox.letters} == {ERIN.email}


def test_changes_of_the_second_factor_are_reported(
    office: TestApp, mailbox: MailServer, frozen_clock: Clock
) -> None:
    visitor = Visitor(office.url)
    visitor.log_in()
    _, codes = set_up_second_factor(visitor, frozen_clock)
    other = Visitor(office.url)
    other.log_in()
    token = read_csrf(other.get("/login/code").text)
    other.post("/login/code", {"csrf_token": token, "code": codes[0]})
    people.remove_second_factor(office.app_db, ERIN.email)
    mailer.send_due(office.context)
    assert subjects(mailbox) == [
        "New login to Switchroom",
        "Second factor added to your Switchroom login",
        "A recovery code of your Switchroom login was used",
        "New login to Switchroom",
        "Second factor removed from your Switchroom login",
    ]


def test_a_refused_e_mail_is_sent_later(office: TestApp, mailbox: MailServer, frozen_clock: Clock) -> None:
    mailbox.refuse = "erin"
    request_reset(office, ERIN.email)
    with pytest.raises(mailer.MailsWaiting, match="refuses every recipient"):
        mailer.send_due(office.context)
    mailbox.refuse = ""
    frozen_clock.advance(61)
    mailer.send_due(office.context)
    assert subjects(mailbox) == ["Reset your Switchroom password"]


def test_without_a_mail_server_there_is_no_reset(shared_app: TestApp) -> None:
    visitor = Visitor(shared_app.url)
    assert "Forgot your password?" not in visitor.get("/login").text
    assert "E-mail isn’t set up" in visitor.get("/login/reset").text.replace("&#39;", "'")
    token = read_csrf(visitor.get("/login").text)
    assert visitor.post("/login/reset", {"csrf_token": token, "email": ERIN.email}).status_code == 404
