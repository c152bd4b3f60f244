"""Brings messages to mailboxes and addresses. A channel has a thread of its own, so that none waits for
another; a target that fails is tried again later, and shows in the health report until it takes a message."""

from __future__ import annotations

import importlib
import io
from datetime import timedelta
from typing import Any

from integration.alerts import notification_log
from integration.alerts import rules as alert_rules
from integration.alerts.notification_log import Channel, Notification
from integration.alerts.rules import Rule
from integration.context import AppContext
from integration.core import clock
from integration.core.errors import SwitchroomError
from integration.outbound import mail
from integration.outbound.upload import UploadFailed, upload_file

TIMEOUT_SECONDS = 15.0
"""For one message, or one step of talking to a mail server."""
RUN_SECONDS = 40.0
MAX_BATCH = 50
FAILURE_SHOWN_FOR = timedelta(days=1)
"""How long the failure of a channel that has nothing to send any more is shown."""


class SendingFailed(SwitchroomError):
    """The last message of a channel did not arrive."""


class Sender:
    """Sends what waits for one channel."""

    def __init__(self, context: AppContext, channel: Channel) -> None:
        self._context = context
        self._channel: Channel = channel

    def run(self) -> None:
        """Send what is due. Raises SendingFailed where the channel does not work."""
        app_db, deadline = self._context.app_db, clock.monotonic() + RUN_SECONDS
        with app_db.read() as connection:
            notifications = notification_log.due(connection, self._channel, MAX_BATCH)
            rules = {rule.id: rule for rule in alert_rules.list_all(connection)}
        failed_targets = set()
        for notification in notifications:
            if clock.monotonic() > deadline or notification.target in failed_targets:
                continue
            try:
                send(self._context, notification, rules.get(notification.rule_id))
            except Undeliverable as error:
                notification_log.mark_undeliverable(app_db, notification, str(error))
            except SendingFailed as error:
                failed_targets.add(notification.target)
                notification_log.mark_failed(app_db, notification, str(error))
            else:
                notification_log.mark_sent(app_db, notification)
        with app_db.read() as connection:
            problem = notification_log.describe_failures(
                connection, self._channel, clock.utc_text(clock.now() - FAILURE_SHOWN_FOR)
            )
        if problem is not None:
            raise SendingFailed(problem)


class Undeliverable(SendingFailed):
    """There is no sense in trying again."""


def send(context: AppContext, notification: Notification, rule: Rule | None) -> None:
    """Send one message now. Raises SendingFailed."""
    if notification.channel == "apprise":
        return _send_apprise(context, notification)
    if rule is None:
        raise Undeliverable("the rule was removed")
    if notification.channel == "email":
        return _send_email(context, notification, rule)
    return _send_post(notification, rule)


def _send_email(context: AppContext, notification: Notification, rule: Rule) -> None:
    if not rule.emails:
        raise Undeliverable("the rule sends no e-mail any more")
    smtp, recipients = context.settings.smtp, rule.emails.split()
    try:
        message = mail.make_message(smtp, recipients, notification.subject)
        message.set_content(notification.body + "\n")
        mail.send(smtp, message, recipients, TIMEOUT_SECONDS)
    except mail.MailFailed as error:
        raise SendingFailed(str(error)) from None


def _send_post(notification: Notification, rule: Rule) -> None:
    if not rule.url:
        raise Undeliverable("the rule has no address any more")
    body = notification.body.encode()
    headers = {"Content-Type": "application/json"}
    if rule.secret:
        headers["Authorization"] = rule.secret
    try:
        upload_file(rule.url, io.BytesIO(body), len(body), headers, TIMEOUT_SECONDS, method="POST")
    except (UploadFailed, ValueError) as error:
        raise SendingFailed(str(error)) from None


def _send_apprise(context: AppContext, notification: Notification) -> None:
    urls = context.settings.alerts.urls
    if notification.place >= len(urls):
        raise Undeliverable("alerts.urls has this address no more")
    try:
        # Slow to load, needed by few, and an extra.
        apprise: Any = importlib.import_module("apprise")
    except ImportError:
        raise SendingFailed("alerts.urls needs Apprise: pip install 'switchroom[alerts]'") from None
    notifier = apprise.Apprise()
    if not notifier.add(urls[notification.place]):
        raise SendingFailed("Apprise can't read this address")
    if not notifier.notify(title=notification.subject, body=notification.body):
        raise SendingFailed("Apprise could not deliver; the log has what the service said")
