"""Notifications by e-mail and URL: content, failures and retries."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import pytest

from integration.alerts import notification_log
from integration.alerts import rules as alert_rules
from integration.alerts.evaluate import RuleEvaluator, schedule_jobs
from integration.alerts.messages import make_notifications
from integration.alerts.rules import Finding, Rule
from integration.alerts.send import SendingFailed, send_due
from integration.core import clock, retry_delays
from tests.support.application import running_app
from tests.support.applications.shared_app import running_shared_app
from tests.support.harness import wait_for
from tests.support.mail_server import running_mail_server
from tests.support.scripted_server import Server

FOUND = Finding(1, "a", "Ann Example (020 7946 0001) has been waiting", "/calls/7", "2026-03-04 11:00:00")


@pytest.fixture(scope="module")
def mail_server():
    with running_mail_server() as server:
        yield server


@pytest.fixture
def mailbox(mail_server):
    mail_server.letters.clear()
    mail_server.refuse = ""
    return mail_server


class Receiver(Server):
    """Receiver of notifications, with the status of its responses."""

    def __init__(self, status: int = 200) -> None:
        super().__init__()
        self.respond("*", {}, status)
        self.hook = f"{self.url}/hook?token=secret"


@pytest.fixture
def receiver():
    with closing(Receiver()) as server:
        yield server


@pytest.fixture(scope="module")
def module_app(tmp_path_factory, mail_server):
    with running_shared_app(
        tmp_path_factory.mktemp("data"),
        smtp__host="127.0.0.1",
        smtp__port=str(mail_server.port),
        smtp__from="calls@example.com",
        smtp__starttls="false",
        server__public_url="https://calls.example.com",
    ) as app:
        yield app


@pytest.fixture
def app(shared_app, mailbox):
    return shared_app


def add_notification(app, kind: str = "alert", **values) -> Rule:
    """Add a pending notification of a rule."""
    with app.app_db.read() as connection:
        rules = alert_rules.list_all(connection)
    if values:
        number = alert_rules.save(app.app_db, Rule(0, "Long waits", "waiting", 60, **values))
        with app.app_db.read() as connection:
            rule = alert_rules.find(connection, number)
    else:
        (rule,) = rules
    made = list(make_notifications(app.context.settings, rule, kind, [FOUND], clock.now()))
    app.app_db.write(lambda tx: notification_log.add(tx, made))
    return rule


def log(app) -> list[notification_log.Notification]:
    with app.app_db.read() as connection:
        return notification_log.list_newest(connection, 20)


def test_email_has_the_alert_its_time_and_its_link(app, mailbox):
    add_notification(app, emails="ann@example.com bob@example.org")
    send_due(app.context, "email")
    (mail,) = mailbox.letters
    assert (mail["From"], mail["To"]) == ("calls@example.com", "ann@example.com, bob@example.org")
    assert mail["Subject"] == "Long waits: Ann Example (020 7946 0001) has been waiting"
    assert "- Ann Example (020 7946 0001) has been waiting, since 04 Mar 11:00" in mail.get_content()
    assert "https://calls.example.com/calls/7" in mail.get_content()
    assert [line.state for line in log(app)] == ["sent"]
    send_due(app.context, "email")
    assert len(mailbox.letters) == 1


def test_url_receives_json_with_a_text_for_chats(app, receiver):
    add_notification(app, "recovered", url=receiver.hook, secret="Bearer abc")
    send_due(app.context, "post")
    (request,) = receiver.requests
    assert (request.query, request.headers["Authorization"]) == ({"token": ["secret"]}, "Bearer abc")
    body = json.loads(request.body)
    assert (body["event"], body["rule"], body["condition"]) == ("recovered", "Long waits", "waiting")
    assert body["text"].startswith("resolved: Long waits: Ann Example")
    assert body["findings"][0]["url"] == "https://calls.example.com/calls/7"
    (line,) = log(app)
    assert "token" not in line.target


def test_failed_notification_is_retried_and_delays_no_other_target(app, receiver, frozen_clock):
    with closing(Receiver(500)) as failed_receiver:
        add_notification(app, url=failed_receiver.hook)
        add_notification(app, url=receiver.hook)
        gaps = []
        for attempt, gap in enumerate((*retry_delays.NOTIFICATIONS[1:], 3600), 1):
            with pytest.raises(SendingFailed, match="returned 500"):
                send_due(app.context, "post")
            assert (len(failed_receiver.requests), len(receiver.requests)) == (attempt, 1)
            frozen_clock.advance(seconds=gap - 1)
            with pytest.raises(SendingFailed, match="returned 500"):
                send_due(app.context, "post")
            gaps.append(gap)
            frozen_clock.advance(seconds=2)
        states = [(line.state, line.tries) for line in log(app)]
        assert states == [("sent", 1), ("failed", len(retry_delays.NOTIFICATIONS))]


def test_notification_of_a_removed_rule_is_not_sent(app, mailbox):
    rule = add_notification(app, emails="ann@example.com")
    alert_rules.remove(app.app_db, rule.id)
    send_due(app.context, "email")
    assert (mailbox.letters, [line.state for line in log(app)]) == ([], ["failed"])


def test_refused_recipients_are_reported(app, mailbox):
    mailbox.refuse = "ann@"
    add_notification(app, emails="ann@example.com")
    with pytest.raises(SendingFailed, match=r"refuses every recipient: ann@example\.com \(550 no such"):
        send_due(app.context, "email")


def test_failed_url_does_not_block_rules_or_email(app, receiver):
    """A failed receiver delays neither the rules nor the e-mail."""
    receiver.respond("*", {}, 503)
    alert_rules.save(
        app.app_db, Rule(0, "Long waits", "waiting", 60, emails="a@example.com", url=receiver.hook)
    )
    app.call(1, clock.utc_text(clock.unix() - 90), state="ringing", outcome=None)
    schedule_jobs(app.context)
    app.context.scheduler.start()
    try:
        wait_for(lambda: {line.channel: line.state for line in log(app)}.get("email") == "sent", "the e-mail")
        wait_for(
            lambda: app.context.health.report()["checks"]["alerts by HTTP"]["state"] == "failing",
            "the failure",
        )
        checks = app.context.health.report()["checks"]
        assert "returned 503" in checks["alerts by HTTP"]["error"]
        assert checks["alert rules"]["state"] == "ok"
    finally:
        app.context.scheduler.stop(10)


def test_successful_target_does_not_hide_a_failed_one(app, receiver):
    add_notification(app, url="http://127.0.0.1:9/", secret="")
    with app.app_db.read() as connection:
        (rule,) = alert_rules.list_all(connection)
    with pytest.raises(SendingFailed, match="it refuses connections"):
        send_due(app.context, "post")
    alert_rules.save(app.app_db, replace(rule, url=receiver.hook))
    add_notification(app)
    with pytest.raises(SendingFailed, match=r"^http://127\.0\.0\.1:9/: "):
        send_due(app.context, "post")
    assert len(receiver.requests) == 1


def test_configured_urls_are_sent_by_apprise_if_installed(tmp_path, monkeypatch):
    sent: list[tuple[str, str]] = []

    class FakeApprise:
        def add(self, url: str) -> bool:
            self.url = url
            return url.startswith("json://")

        def notify(self, title: str, body: str) -> bool:
            sent.append((self.url, title))
            return True

    urls = "json://192.0.2.1/a,unknown://192.0.2.1/b"
    with running_app(tmp_path / "data", alerts__urls=urls, alerts__events="missed_call") as app:
        app.call(1, clock.utc_text(clock.unix() - 60), outcome="missed")
        RuleEvaluator(app.context, lambda: None).run()
        monkeypatch.setitem(sys.modules, "apprise", None)
        with pytest.raises(SendingFailed, match=r"pip install apprise"):
            send_due(app.context, "apprise")
        monkeypatch.setitem(sys.modules, "apprise", SimpleNamespace(Apprise=FakeApprise))
        app.app_db.write(lambda tx: tx.execute("UPDATE alert_log SET next_at = at"))
        with pytest.raises(SendingFailed, match=r"number 2 of alerts.urls\): Apprise does not accept"):
            send_due(app.context, "apprise")
        assert sent == [("json://192.0.2.1/a", "Missed call from 07700 900101 on 020 7946 0002")]
        assert {(line.place, line.state) for line in log(app)} == {(0, "sent"), (1, "waiting")}
