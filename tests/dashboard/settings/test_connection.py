"""Settings › Connection: a mail server of the configuration, or one that an administrator enters."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest
import requests

from integration.access import audit
from integration.access.login import mail_queue, mailer
from integration.access.passwords import hash_password
from integration.alerts import rules as alert_rules
from integration.outbound import mail_server
from tests.support.application import TestApp, running_app
from tests.support.mail_server import running_mail_server
from tests.support.page_text import text
from tests.support.people import ALICE

PASSWORD = "canary-password"
PAGES = ("people", "connection", "keys", "screens", "hours")


def smtp(port: int, **more: str) -> dict[str, Any]:
    settings = {"smtp__host": "127.0.0.1", "smtp__port": str(port), "smtp__from": "calls@example.com"}
    return {
        **settings,
        "smtp__starttls": "false",
        "smtp__user": "switchroom",
        "smtp__password": PASSWORD,
        **more,
    }


def form(number: int, **more: str) -> dict[str, str]:
    fields = {"host": "127.0.0.1", "port": str(number), "encryption": "none", "sender": "calls@example.com"}
    return {**fields, "user": "switchroom", "password": PASSWORD, **more}


def audited(app: TestApp) -> list[str]:
    return [f"{entry.what}: {entry.about}" for entry in audit.list_newest(app.app_db)]


def stored(app: TestApp) -> mail_server.MailServer | None:
    return mail_server.load(app.context.settings, app.app_db)


def test_the_mail_server_of_the_configuration_is_tested_and_not_replaced(tmp_path: Path) -> None:
    with running_mail_server() as server, running_app(tmp_path / "data") as app:
        client = app.log_in()
        client.post("/settings/connection/mail", **form(25, host="mail.example.com", encryption="yes"))
        app.restart(**smtp(server.port))
        page = text(client.get("/settings/connection"))
        assert (
            f"127.0.0.1, port {server.port}, no encryption from calls@example.com with user switchroom"
            in page
        )
        assert "mail.example.com, which was entered here, is not used." in page
        tested = client.post("/settings/connection/mail/test")
        assert "Test e-mail sent to alice@example.com." in text(tested)
        (letter,) = server.letters
        assert (letter["To"], letter["Subject"]) == ("alice@example.com", "Test e-mail from Switchroom")
        assert PASSWORD not in tested.text
        refused = client.post("/settings/connection/mail", **form(server.port))
        assert refused.status_code == 400
        assert "set in the configuration" in text(refused)
        client.post("/settings/connection/mail/remove")
        assert "which was entered here" not in text(client.get("/settings/connection"))
        app.restart(smtp__host="", smtp__port="", smtp__from="", smtp__starttls="", smtp__user="",
                    smtp__password="")  # fmt: skip
        assert stored(app) is None


def test_an_entered_mail_server_is_tested_saved_and_used_by_all_e_mails(tmp_path: Path) -> None:
    with running_mail_server() as server, running_app(tmp_path / "data") as app:
        client = app.log_in()
        assert "E-mail isn’t set up" in text(client.get("/settings/connection"))
        assert "Forgot your password?" not in requests.get(app.url + "/login", timeout=30).text
        saved = client.post("/settings/connection/mail", **form(server.port, test="1"))
        assert "Test e-mail sent to alice@example.com." in text(saved)
        alert = {"name": "Waits", "condition": "waiting", "day": "0", "emails": "ann@example.com"}
        client.post("/system/alerts", **alert)
        with app.app_db.read() as connection:
            (rule,) = alert_rules.list_all(connection)
        assert "sent Test to ann@example.com" in text(client.post(f"/system/alerts/{rule.id}/test"))
        assert "Forgot your password?" in requests.get(app.url + "/login", timeout=30).text
        mail_queue.request_reset(app.app_db, "alice@example.com")
        mailer.send_due(app.context)
        assert [letter["To"] for letter in server.letters] == [
            "alice@example.com", "ann@example.com", "alice@example.com"
        ]  # fmt: skip
        assert "Reset" in server.letters[-1]["Subject"]
        assert str(server.port) in client.get("/exports/schedules/new").text


def test_a_test_that_fails_saves_nothing_and_keeps_the_entries(tmp_path: Path, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = "canary-wrong-password"
    with running_mail_server() as server, running_app(tmp_path / "data") as app:
        client = app.log_in()
        refused = client.post(
            "/settings/connection/mail", **form(server.port, password=wrong, test="1", user="someone")
        )
        assert refused.status_code == 400
        assert "The test e-mail was not sent: 127.0.0.1 refuses the user name or the password (535)" in text(
            refused
        )
        assert 'value="someone"' in refused.text
        assert stored(app) is None
        assert wrong not in refused.text + caplog.text + "".join(audited(app))


def test_the_password_is_never_shown_and_never_sent_to_another_server(tmp_path: Path, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    with running_app(tmp_path / "data") as app:
        client = app.log_in()
        client.post("/settings/connection/mail", **form(25))
        pages = [client.get(f"/settings/{page}").text for page in PAGES]
        pages += [client.get(path).text for path in ("/system", "/privacy/audit", "/exports/schedules/new")]
        assert PASSWORD not in "".join([*pages, *audited(app), caplog.text])
        assert PASSWORD not in repr(stored(app))
        assert 'placeholder="unchanged"' in pages[1]
        client.post("/settings/connection/mail", **form(25, password="", sender="office@example.com"))
        assert (stored(app).sender, stored(app).password) == ("office@example.com", PASSWORD)
        for changed in ({"host": "localhost"}, {"port": "26"}):
            refused = client.post("/settings/connection/mail", **form(25, password="", **changed))
            assert refused.status_code == 400
            assert "The mail server has changed. Enter the password again." in text(refused)
        client.post("/settings/connection/mail", **form(25, password="", user=""))
        assert (stored(app).user, stored(app).password) == (None, None)
        assert audited(app)[0] == (
            "mail server changed: 127.0.0.1, port 25, no encryption, from calls@example.com"
        )


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/settings/connection/mail", form(25)),
        (
            "/system/alerts",
            {"condition": "sms", "day": "0", "url": "http://127.0.0.1:9/", "secret": PASSWORD},
        ),
    ],
)
def test_a_confirmation_does_not_show_the_secret_of_its_form(
    tmp_path: Path, path: str, fields: dict[str, str]
) -> None:
    with running_app(tmp_path / "data") as app:
        client = app.log_in(ALICE)
        own = "four random words"
        hashed = hash_password(own)
        app.app_db.write(lambda tx: tx.execute("UPDATE people SET password = ?", (hashed,)))
        app.clock.advance(601)
        page = client.post(path, **fields)
        assert page.status_code == 403
        assert "Confirm that it’s you" in page.text
        assert PASSWORD not in page.text
        hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.text))
        wrong = client.post(path, **{**hidden, "confirmation": "wrong"})
        assert wrong.status_code == 403
        assert PASSWORD not in wrong.text
        done = client.post(path, **{**hidden, "confirmation": own})
        assert done.status_code == 200
        with app.app_db.read() as connection:
            secrets = [rule.secret for rule in alert_rules.list_all(connection)]
        server = stored(app)
        assert [*secrets, *([server.password] if server else [])] == [PASSWORD]
        late = client.post(path, **{**hidden, "confirmation": own})
        assert late.status_code == 400
        assert "enter the secret again" in text(late)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"host": ""}, "Enter the mail server, such as smtp.example.com."),
        ({"host": "smtp://mail"}, "The mail server 'smtp://mail' is not a host"),
        ({"host": "10.1.2.3", "encryption": ""}, "add the host to the setting outgoing.allow_hosts"),
        ({"port": "70000"}, "The port '70000' is not a number from 1 to 65535."),
        ({"sender": "calls"}, "The sender must be an e-mail address."),
        ({"sender": ""}, "Enter the e-mail address of the sender."),
        ({"user": ""}, "Enter both user name and password, or leave both empty."),
        ({"password": ""}, "Enter both user name and password, or leave both empty."),
        ({"host": "192.0.2.1"}, "The password would be sent unencrypted."),
    ],
)
def test_an_invalid_mail_server_is_refused(shared_app: TestApp, changed: dict[str, str], why: str) -> None:
    answer = shared_app.log_in().post("/settings/connection/mail", **form(25, **changed))
    assert answer.status_code == 400
    assert why in text(answer)
    assert stored(shared_app) is None


def test_without_a_mail_server_pages_lead_to_its_settings(shared_app: TestApp) -> None:
    client = shared_app.log_in()
    for path in ("/exports/schedules/new", "/system/alerts"):
        assert '<a class="link" href="/settings/connection#mail">' in client.get(path).text, path
    answer = client.post("/settings/connection/mail/test")
    assert answer.status_code == 400
    assert "E-mail isn’t set up" in text(answer)


def test_the_platform_is_checked(shared_app: TestApp) -> None:
    page = text(shared_app.log_in().post("/settings/connection/platform/check"))
    assert "http://platform.invalid" in page
    assert "fail Platform:" in page
