"""Connections of Switchroom, for administrators: phone system, webhook and mail server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Response, request

from integration.context import app_context
from integration.core.errors import DomainError, SwitchroomError
from integration.dashboard.settings.page import make_blueprint, render
from integration.dashboard.site import layout
from integration.dashboard.site.after_redirect import redirect_to
from integration.dashboard.site.confirmation import requires_confirmation
from integration.dashboard.site.guard import audit_action, current_person
from integration.maintenance import platform_checks, public_address
from integration.outbound import mail, mail_server
from integration.outbound.mail_server import MailServer
from integration.settings.data_dir_secrets import (
    drop_old_secret,
    find_webhook_url,
    load_webhook_secrets,
    rotate_secret,
)

PATH = "/settings/connection"

TIMEOUT_SECONDS = 10.0
"""Seconds for each step of the SMTP exchange of a test: the user is waiting for the result."""


def _render_page(**values: Any) -> str:
    context = app_context()
    with context.mirror_db.read() as connection:
        unreachable_at = layout.unreachable_since(connection)
    return render(
        "settings_connection.html",
        platform=context.settings.platform,
        unreachable_at=unreachable_at,
        hook=_webhook_info(),
        smtp=context.settings.smtp,
        mail=mail_server.load(context.settings, context.app_db),
        entered=mail_server.load_entered(context.settings, context.app_db),
        **values,
    )


blueprint = make_blueprint("connection", PATH, _render_page)


def _webhook_info() -> dict[str, Any]:
    """Return webhook settings for the page.

    The URL contains the secret, because users enter the URL on the platform.
    """
    settings = app_context().settings
    secrets = load_webhook_secrets(settings)
    return {
        "url": find_webhook_url(settings),
        "public": settings.server.public_url,
        "rotating": len(secrets) > 1,
        "configured": settings.webhooks.secret is not None,
        "basic": settings.webhooks.username is not None,
    }


@blueprint.post("/platform/check")
def check_platform() -> Response:
    """Show whether the platform responds and accepts the credentials."""
    results = list(platform_checks.check_platform(app_context().settings))
    return redirect_to(f"{PATH}#platform", platform_checks=results)


# --- webhooks --------------------------------------------------------------------------------------------


@blueprint.post("/webhook/check")
def check_webhook() -> Response:
    """Show whether the webhook receiver responds at `server.public_url`."""
    results = list(public_address.check_public_url(app_context().settings))
    return redirect_to(f"{PATH}#webhook", webhook_checks=results)


@blueprint.post("/webhook/rotate")
@requires_confirmation()
def rotate_webhook() -> Response:
    return _change_secret(rotate_secret, "webhook secret rotated")


@blueprint.post("/webhook/forget")
@requires_confirmation()
def drop_old_webhook_secret() -> Response:
    return _change_secret(drop_old_secret, "old webhook secret deleted")


def _change_secret(change: Callable[[Any], None], action: str) -> Response:
    try:
        change(app_context().settings)
    except DomainError:
        raise
    except SwitchroomError as error:
        raise DomainError(str(error)) from error
    audit_action(action)
    return redirect_to(f"{PATH}#webhook", "Changed.")


# --- mail server -----------------------------------------------------------------------------------------


@blueprint.post("/mail")
@requires_confirmation()
def save_mail_server() -> Response:
    """Store the entered mail server, after a test e-mail if the form requests one.

    Nothing is stored if the test fails.
    """
    context = app_context()
    if context.settings.smtp.host is not None:
        raise DomainError("The mail server is set in the configuration. Change it there.")
    server = mail_server.parse(context.settings, context.app_db, request.form)
    result = _send_test(server) if request.form.get("test") else ""
    mail_server.save(context.app_db, server)
    audit_action("mail server changed", f"{server}, from {server.sender}")
    return redirect_to(f"{PATH}#mail", f"Saved. {result}".strip())


@blueprint.post("/mail/test")
def send_test() -> Response:
    """Send a test e-mail to the current user through the mail server in use."""
    server = mail_server.load(app_context().settings, app_context().app_db)
    return redirect_to(f"{PATH}#mail", _send_test(server))


@blueprint.post("/mail/remove")
@requires_confirmation()
def remove_mail_server() -> Response:
    mail_server.remove(app_context().app_db)
    audit_action("mail server removed")
    return redirect_to(f"{PATH}#mail", "Removed.")


def _send_test(server: MailServer | None) -> str:
    """Send a test e-mail to the current user. Returns the result. Raises DomainError."""
    address = current_person().email
    try:
        message = mail.make_message(server, [address], "Test e-mail from Switchroom")
        message.set_content(
            "E-mail works: Switchroom can send password links, alerts and scheduled exports.\n"
        )
        result = mail.send(server, message, [address], TIMEOUT_SECONDS)
    except mail.MailFailed as error:
        audit_action("test e-mail failed", str(error))
        raise DomainError(f"The test e-mail was not sent: {error}") from None
    audit_action("test e-mail sent", f"through {server}")
    return f"Test e-mail {result}."
