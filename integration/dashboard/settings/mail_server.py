"""Settings of e-mail: the configured mail server and a test e-mail."""

from __future__ import annotations

from flask import Blueprint, Response, redirect

from integration.context import app_context
from integration.core.errors import DomainError
from integration.dashboard.settings.general import MAIL_TEST_JOB, requires_admin
from integration.dashboard.site.background_jobs import ProgressCallback
from integration.dashboard.site.guard import current_person
from integration.dashboard.system.work import start_job
from integration.outbound import mail

blueprint = Blueprint("settings_mail", __name__, url_prefix="/settings/mail")

TIMEOUT_SECONDS = 15.0
"""Seconds for each step of the SMTP exchange: the user is waiting for the result."""


@blueprint.post("/test")
@requires_admin
def send_test() -> Response:
    """Send a test e-mail to the current user.

    The result is shown on the settings page.
    """
    smtp, address = app_context().settings.smtp, current_person().email
    if smtp.host is None:
        raise DomainError("E-mail isn’t set up. Set smtp.host and smtp.from in the configuration.")

    def work(_report_progress: ProgressCallback) -> str:
        message = mail.make_message(smtp, [address], "Test e-mail from Switchroom")
        message.set_content(
            "E-mail works: Switchroom can send password links, alerts and scheduled exports.\n"
        )
        return f"Test e-mail {mail.send(smtp, message, [address], TIMEOUT_SECONDS)}."

    start_job(MAIL_TEST_JOB, "test e-mail sent", work)
    return redirect("/settings#mail", 303)  # type: ignore[return-value]
