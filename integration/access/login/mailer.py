"""Send the queued e-mails about logins: reset links and notices."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from integration.access import people, setup_links
from integration.access.login import mail_queue
from integration.access.login.mail_queue import MailKind, QueuedMail
from integration.access.people import Person
from integration.context import AppContext
from integration.core import clock
from integration.core.errors import SwitchroomError
from integration.outbound import mail, mail_server
from integration.settings.base_url import find_base_url

log = logging.getLogger(__name__)

JOB_NAME = "login e-mails"
SEND_SECONDS = 60.0
"""Seconds between two runs. A new e-mail starts a run at once."""
TIMEOUT_SECONDS = 15.0
"""Seconds for one step of an SMTP session."""
MAX_BATCH = 20
"""E-mails of one run."""

_SUBJECTS: dict[MailKind, str] = {
    "reset": "Reset your Switchroom password",
    "password changed": "Your Switchroom password was changed",
    "new device": "New login to Switchroom",
    "second factor added": "Second factor added to your Switchroom login",
    "second factor removed": "Second factor removed from your Switchroom login",
    "recovery code used": "A recovery code of your Switchroom login was used",
}
_NOTICES: dict[MailKind, str] = {
    "password changed": "The password of {email} was changed at {time}.",
    "new device": "{email} logged in at {time} in a new browser.",
    "second factor added": "Since {time}, {email} needs a code from an authenticator app at each login.",
    "second factor removed": "Since {time}, {email} logs in with the password alone.",
    "recovery code used": "{email} logged in at {time} with a recovery code. That code cannot be used again.",
}
_ADVICE = (
    "If this was not you, choose a new password on the page “You” at {url} and ask an administrator for help."
)


class MailsWaiting(SwitchroomError):
    """E-mails about logins could not be sent."""


def schedule_job(context: AppContext) -> None:
    """Schedule the job."""
    context.scheduler.every(
        JOB_NAME, SEND_SECONDS, send_due, context, executor="alerts", is_watched=True, retries=True
    )


def send_due(context: AppContext) -> None:
    """Send the e-mails that are due, if there is a mail server. Raises MailsWaiting if one failed."""
    app_db = context.app_db
    if mail_server.load(context.settings, app_db) is None:
        return
    for queued_mail in mail_queue.list_due(app_db, MAX_BATCH):
        person = _find_person(context, queued_mail)
        if person is None or _is_expired(queued_mail):
            mail_queue.drop(app_db, queued_mail)
            continue
        try:
            _send(context, queued_mail, person)
        except mail.MailFailed as error:
            # The address is not logged: the log may be readable by more people than house.db.
            log.warning("cannot send an e-mail about a login (%s): %s", queued_mail.kind, error)
            mail_queue.mark_failed(app_db, queued_mail, str(error))
        else:
            mail_queue.drop(app_db, queued_mail)
    error_text = mail_queue.find_error(app_db)
    if error_text is not None:
        raise MailsWaiting(error_text)


def _find_person(context: AppContext, queued_mail: QueuedMail) -> Person | None:
    if queued_mail.person_id is not None:
        return people.get(context.app_db, queued_mail.person_id)
    return next(
        (
            person
            for person in people.list_all(context.app_db)
            if mail_queue.hash_account(person.email) == queued_mail.account
        ),
        None,
    )


def _send(context: AppContext, queued_mail: QueuedMail, person: Person) -> None:
    server = mail_server.load(context.settings, context.app_db)
    message = mail.make_message(server, [person.email], _SUBJECTS[queued_mail.kind])
    message.set_content(_write_text(context, queued_mail, person))
    mail.send(server, message, [person.email], TIMEOUT_SECONDS)


def _write_text(context: AppContext, queued_mail: QueuedMail, person: Person) -> str:
    url = find_base_url(context.settings)
    if queued_mail.kind == "reset":
        link = setup_links.create_reset_link(context.app_db, person.id, url)
        return (
            f"A new password was requested for {person.email}. Choose it here within "
            f"{setup_links.RESET_SECONDS / 60:.0f} minutes:\n\n{link}\n\n"
            "The link is valid for one use. All browsers are logged out when the password changes.\n"
            "If you did not request this, ignore this e-mail: your password stays as it is.\n"
        )
    zone = ZoneInfo(context.settings.dashboard.timezone)
    time = datetime.fromtimestamp(queued_mail.created_at, UTC).astimezone(zone).strftime("%d %B %Y, %H:%M %Z")
    text = _NOTICES[queued_mail.kind].format(email=person.email, time=time)
    details = f"\n{queued_mail.details}" if queued_mail.details else ""
    return f"{text}{details}\n\n{_ADVICE.format(url=url)}\n"


def _is_expired(queued_mail: QueuedMail) -> bool:
    age_seconds = clock.unix() - queued_mail.created_at
    return queued_mail.kind == "reset" and age_seconds > setup_links.RESET_SECONDS
