"""Settings of e-mail: the mail server shown, and its test."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from integration.access import audit
from tests.support.application import Browser, TestApp, running_app
from tests.support.harness import wait_for
from tests.support.mail_server import running_mail_server
from tests.support.page_text import text

PASSWORD = "canary-password"


def smtp(port: int, **more: str) -> dict[str, Any]:
    settings = {"smtp__host": "127.0.0.1", "smtp__port": str(port), "smtp__from": "calls@example.com"}
    return {
        **settings,
        "smtp__starttls": "false",
        "smtp__user": "switchroom",
        "smtp__password": PASSWORD,
        **more,
    }


def result(client: Browser) -> str:
    """Result of the last test, or '' while it runs."""
    page = client.get("/settings").text
    found = re.search(r'<p class="notice (good|bad)" role="status"><span>[0-9:]+: (.*?)</span>', page)
    return f"{found[1]}: {found[2]}" if found else ""


def test_a_test_e_mail_is_sent_to_the_user_who_presses_the_button(tmp_path: Path) -> None:
    with running_mail_server() as server, running_app(tmp_path / "data", **smtp(server.port)) as app:
        client = app.log_in()
        page = text(client.get("/settings"))
        assert (
            f"127.0.0.1, port {server.port}, no encryption from calls@example.com with user switchroom"
            in page
        )
        answer = client.post("/settings/mail/test")
        assert (answer.url.rpartition("/")[2], answer.history[0].status_code) == ("settings#mail", 303)
        assert (
            wait_for(lambda: result(client), "the result") == "good: Test e-mail sent to alice@example.com."
        )
        (letter,) = server.letters
        assert (letter["To"], letter["Subject"]) == ("alice@example.com", "Test e-mail from Switchroom")
        assert PASSWORD not in client.get("/settings").text
        assert "test e-mail sent" in [entry.what for entry in audit.list_newest(app.app_db)]


def test_a_refused_test_e_mail_shows_the_reason_and_no_password(tmp_path: Path) -> None:
    wrong = "canary-wrong-password"
    with (
        running_mail_server() as server,
        running_app(tmp_path / "data", **smtp(server.port, smtp__password=wrong)) as app,
    ):
        client = app.log_in()
        client.post("/settings/mail/test")
        reason = wait_for(lambda: result(client), "the result")
        assert reason == "bad: 127.0.0.1 refuses smtp.user and smtp.password (535)"
        assert wrong not in client.get("/settings").text


@pytest.mark.parametrize("path", ["/settings", "/exports/schedules/new"])
def test_without_a_mail_server_pages_name_the_settings(shared_app: TestApp, path: str) -> None:
    page = text(shared_app.log_in().get(path))
    assert "E-mail isn’t set up" in page
    assert "smtp.host" in page
    assert "Send a test e-mail" not in page


def test_a_test_e_mail_without_a_mail_server_is_refused(shared_app: TestApp) -> None:
    answer = shared_app.log_in().post("/settings/mail/test")
    assert answer.status_code == 400
    assert "E-mail isn’t set up" in text(answer)
