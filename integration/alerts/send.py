"""Send notifications by e-mail, HTTP and Apprise.

Each channel runs as a separate job, so that no channel delays another. Failed notifications are retried, and
a failing target is shown in the health check until it accepts a notification.
"""

from __future__ import annotations

import io
from datetime import timedelta

from integration.alerts import notification_log
from integration.alerts import rules as alert_rules
from integration.alerts.notification_log import Channel, Notification
from integration.alerts.rules import Rule
from integration.context import AppContext
from integration.core import clock
from integration.core.errors import SwitchroomError
from integration.outbound import mail, mail_server, notifications
from integration.outbound.public_addresses import PublicHosts
from integration.outbound.upload import UploadFailed, upload_file

TIMEOUT_SECONDS = 15.0
"""Seconds for one HTTP request, or one step of an SMTP session."""
RUN_SECONDS = 40.0
"""Seconds after which a run starts no further notification."""
MAX_BATCH = 50
"""Largest number of notifications of one run."""
FAILURE_SHOWN_FOR = timedelta(days=1)
"""Period for which the health check shows a failure without a later attempt."""


class SendingFailed(SwitchroomError):
    """A notification could not be sent."""


class Undeliverable(SendingFailed):
    """The notification cannot be sent, and a retry cannot succeed."""


def send_due(context: AppContext, channel: Channel) -> None:
    """Send the due notifications of a channel. Raises SendingFailed if targets of the channel fail."""
    app_db, deadline = context.app_db, clock.monotonic() + RUN_SECONDS
    for _ in range(MAX_BATCH):
        with app_db.read() as connection:
            notification = notification_log.find_due(connection, channel)
            rules = {rule.id: rule for rule in alert_rules.list_all(connection)}
        if notification is None or clock.monotonic() > deadline:
            break
        try:
            send(context, notification, rules.get(notification.rule_id))
        except Undeliverable as error:
            notification_log.mark_undeliverable(app_db, notification, str(error))
        except SendingFailed as error:
            notification_log.mark_failed(app_db, notification, str(error))
        else:
            notification_log.mark_sent(app_db, notification)
    with app_db.read() as connection:
        problem = notification_log.describe_failures(
            connection, channel, clock.utc_text(clock.now() - FAILURE_SHOWN_FOR)
        )
    if problem is not None:
        raise SendingFailed(problem)


def send(context: AppContext, notification: Notification, rule: Rule | None) -> None:
    """Send one notification immediately. Raises SendingFailed."""
    try:
        if notification.channel == "apprise":
            _send_apprise(context, notification)
        elif rule is None:
            raise Undeliverable("The alert rule was removed.")
        elif notification.channel == "email":
            _send_email(context, notification, rule)
        else:
            _send_post(context, notification, rule)
    except (mail.MailFailed, UploadFailed, notifications.NotificationFailed, ValueError) as error:
        raise SendingFailed(str(error)) from None


def _send_email(context: AppContext, notification: Notification, rule: Rule) -> None:
    if not rule.emails:
        raise Undeliverable("The alert rule no longer has an e-mail address.")
    server = mail_server.load(context.settings, context.app_db)
    recipients = rule.emails.split()
    message = mail.make_message(server, recipients, notification.subject)
    message.set_content(notification.body + "\n")
    mail.send(server, message, recipients, TIMEOUT_SECONDS)


def _send_post(context: AppContext, notification: Notification, rule: Rule) -> None:
    if not rule.url:
        raise Undeliverable("The alert rule no longer has a URL.")
    body = notification.body.encode()
    headers = {"Content-Type": "application/json"}
    if rule.secret:
        headers["Authorization"] = rule.secret
    public_hosts = PublicHosts(context.settings.outgoing.allow_hosts)
    upload_file(rule.url, io.BytesIO(body), len(body), headers, public_hosts, TIMEOUT_SECONDS, method="POST")


def _send_apprise(context: AppContext, notification: Notification) -> None:
    urls = context.settings.alerts.urls
    if notification.place >= len(urls):
        raise Undeliverable("The setting alerts.urls no longer has this URL.")
    notifications.notify(urls[notification.place], notification.subject, notification.body)
