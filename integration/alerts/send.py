"""Brings messages to mailboxes and addresses. A channel has a thread of its own, so that none waits for
another; a target that fails is tried again later, and shows in the health report until it takes a message."""

from __future__ import annotations

import importlib
import io
from datetime import timedelta
from typing import Any

from integration.alerts import notification_log as alert_log
from integration.alerts import rules as alert_rules
from integration.alerts.notification_log import Channel, Line
from integration.alerts.rules import Rule
from integration.context import House
from integration.core import clock
from integration.core.errors import SwitchroomError
from integration.outbound import mail
from integration.outbound.upload import PutFailed, put

SECONDS = 15.0
"""For one message, or one step of talking to a mail server."""
ROUND_SECONDS = 40.0
AT_ONCE = 50
SHOWN_FOR = timedelta(days=1)
"""How long the failure of a channel that has nothing to send any more is shown."""


class SendingFailed(SwitchroomError):
    """The last message of a channel did not arrive."""


class Sender:
    """Sends what waits for one channel."""

    def __init__(self, parts: House, channel: Channel) -> None:
        self._parts = parts
        self._channel: Channel = channel

    def run(self) -> None:
        """Send what is due. Raises SendingFailed where the channel does not work."""
        house, deadline = self._parts.house, clock.monotonic() + ROUND_SECONDS
        with house.read() as connection:
            due = alert_log.due(connection, self._channel, AT_ONCE)
            rules = {rule.id: rule for rule in alert_rules.everything(connection)}
        failed = set()
        for line in due:
            if clock.monotonic() > deadline or line.target in failed:
                continue
            try:
                send(self._parts, line, rules.get(line.rule_id))
            except Undeliverable as error:
                alert_log.give_up(house, line, str(error))
            except SendingFailed as error:
                failed.add(line.target)
                alert_log.failed(house, line, str(error))
            else:
                alert_log.sent(house, line)
        with house.read() as connection:
            trouble = alert_log.trouble(connection, self._channel, clock.stamp(clock.now() - SHOWN_FOR))
        if trouble is not None:
            raise SendingFailed(trouble)


class Undeliverable(SendingFailed):
    """There is no sense in trying again."""


def send(parts: House, line: Line, rule: Rule | None) -> None:
    """Send one message now. Raises SendingFailed."""
    if line.channel == "apprise":
        return _apprise(parts, line)
    if rule is None:
        raise Undeliverable("the rule was removed")
    if line.channel == "email":
        return _email(parts, line, rule)
    return _post(line, rule)


def _email(parts: House, line: Line, rule: Rule) -> None:
    if not rule.emails:
        raise Undeliverable("the rule sends no e-mail any more")
    smtp, to = parts.settings.smtp, rule.emails.split()
    try:
        letter = mail.letter(smtp, to, line.subject)
        letter.set_content(line.body + "\n")
        mail.send(smtp, letter, to, SECONDS)
    except mail.MailFailed as error:
        raise SendingFailed(str(error)) from None


def _post(line: Line, rule: Rule) -> None:
    if not rule.url:
        raise Undeliverable("the rule has no address any more")
    body = line.body.encode()
    headers = {"Content-Type": "application/json"}
    if rule.secret:
        headers["Authorization"] = rule.secret
    try:
        put(rule.url, io.BytesIO(body), len(body), headers, SECONDS, method="POST")
    except (PutFailed, ValueError) as error:
        raise SendingFailed(str(error)) from None


def _apprise(parts: House, line: Line) -> None:
    urls = parts.settings.alerts.urls
    if line.place >= len(urls):
        raise Undeliverable("alerts.urls has this address no more")
    try:
        # Slow to load, needed by few, and an extra.
        apprise: Any = importlib.import_module("apprise")
    except ImportError:
        raise SendingFailed("alerts.urls needs Apprise: pip install 'switchroom[alerts]'") from None
    teller = apprise.Apprise()
    if not teller.add(urls[line.place]):
        raise SendingFailed("Apprise can't read this address")
    if not teller.notify(title=line.subject, body=line.body):
        raise SendingFailed("Apprise could not deliver; the log has what the service said")
