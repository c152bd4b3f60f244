"""Send e-mail through the mail server of the settings `smtp.*`."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Sequence
from email.message import EmailMessage
from email.utils import formatdate, make_msgid

from integration.core.errors import SwitchroomError
from integration.settings.model import Smtp
from integration.settings.values import is_loopback

TIMEOUT_SECONDS = 60.0
"""Seconds for each step of the SMTP exchange."""
MAX_ADDRESSES = 20
"""Maximum number of recipients of one message."""
DEFAULT_PORT = 587


class MailFailed(SwitchroomError):
    """The message was not sent.

    The error text has the reason, without credentials.
    """


def describe_server(smtp: Smtp) -> str:
    """Return host, port and encryption of the mail server, or ''."""
    if smtp.host is None:
        return ""
    port = smtp.port or DEFAULT_PORT
    encryption = "STARTTLS" if smtp.starttls is not False else "no encryption"
    if port == 465 and smtp.starttls is not True:
        encryption = "TLS"
    return f"{smtp.host}, port {port}, {encryption}"


def parse_addresses(smtp: Smtp, text: str) -> list[str]:
    """Parse e-mail addresses separated by blanks, commas or semicolons.

    Raises ValueError for an invalid address, for none or more than MAX_ADDRESSES, and without a mail server.
    """
    if smtp.host is None:
        raise ValueError("E-mail isn’t set up. Set smtp.host and smtp.from in the configuration.")
    addresses = text.replace(",", " ").replace(";", " ").split()
    if not 1 <= len(addresses) <= MAX_ADDRESSES:
        raise ValueError(f"Enter 1 to {MAX_ADDRESSES} e-mail addresses.")
    for address in addresses:
        name, separator, host = address.rpartition("@")
        if not (name and separator and host and address.isascii() and address.isprintable()) or set(
            address
        ) & set("<>\"'\\"):
            raise ValueError(f"{address!r} is not an e-mail address.")
    return addresses


def make_message(
    smtp: Smtp, recipients: Sequence[str], subject: str, message_id: str | None = None
) -> EmailMessage:
    """Make a message with header fields and no content.

    Without `message_id`, generate one. Raises MailFailed without smtp.host or smtp.from.
    """
    if smtp.host is None or smtp.from_ is None:
        raise MailFailed("no mail server: set smtp.host and smtp.from")
    message = EmailMessage()
    message["From"] = smtp.from_
    message["To"] = ", ".join(recipients)
    message["Subject"] = subject
    message["Date"] = formatdate(localtime=False)
    message["Message-ID"] = message_id or make_msgid(domain=smtp.from_.rpartition("@")[2])
    # Out-of-office replies would be sent to an unread mailbox.
    message["Auto-Submitted"] = "auto-generated"
    return message


def send(
    smtp: Smtp, message: EmailMessage, recipients: Sequence[str], timeout_seconds: float = TIMEOUT_SECONDS
) -> str:
    """Send `message` and return the result as text for a log.

    Raises MailFailed. Succeeds if at least one recipient was accepted; the result then names the refused
    recipients.
    """
    try:
        with _connect(smtp, timeout_seconds) as server:
            if smtp.user is not None:
                server.login(smtp.user, smtp.password or "")
            rejected = server.send_message(message, smtp.from_ or "", list(recipients))
    except smtplib.SMTPAuthenticationError as error:
        raise MailFailed(f"{smtp.host} refuses smtp.user and smtp.password ({error.smtp_code})") from None
    except smtplib.SMTPRecipientsRefused as error:
        raise MailFailed(
            f"{smtp.host} refuses every recipient: {_format_refusals(error.recipients)}"
        ) from None
    except smtplib.SMTPResponseException as error:
        raise MailFailed(
            f"{smtp.host} returned {error.smtp_code} {_decode_reply(error.smtp_error)}"
        ) from None
    except ssl.SSLError as error:
        raise MailFailed(f"no secure connection to {smtp.host}: {error.reason or error}") from None
    except (smtplib.SMTPException, OSError) as error:
        raise MailFailed(f"{smtp.host}: {error}") from None
    if rejected:
        # Not an error: a retry would send a duplicate to the accepted recipients.
        return f"sent, but {smtp.host} refuses {_format_refusals(rejected)}"
    return f"sent to {', '.join(recipients)}"


def _connect(smtp: Smtp, timeout_seconds: float) -> smtplib.SMTP:
    """Connect, with TLS as configured.

    Port 465 uses implicit TLS unless smtp.starttls is true. Any other port uses STARTTLS unless smtp.starttls
    is false. Raises OSError, SMTPException, and MailFailed instead of sending a password unencrypted.
    """
    host, port = smtp.host or "", smtp.port or DEFAULT_PORT
    context = ssl.create_default_context()
    if port == 465 and smtp.starttls is not True:
        return smtplib.SMTP_SSL(host, port, timeout=timeout_seconds, context=context)
    if smtp.starttls is False and smtp.user is not None and not is_loopback(host):
        raise MailFailed("smtp.password would be sent unencrypted; remove smtp.starttls = false")
    server = smtplib.SMTP(host, port, timeout=timeout_seconds)
    if smtp.starttls is not False:
        try:
            server.starttls(context=context)
        except BaseException:
            server.close()
            raise
    return server


def _format_refusals(recipients: dict[str, tuple[int, bytes]]) -> str:
    return ", ".join(
        f"{address} ({code} {_decode_reply(reply)})" for address, (code, reply) in recipients.items()
    )


def _decode_reply(reply: bytes | str) -> str:
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
    return " ".join(text.split())[:200]
