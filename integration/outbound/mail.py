"""Send e-mail through a mail server (`mail_server.py`)."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Sequence
from email.message import EmailMessage
from email.utils import formatdate, make_msgid

from integration.core.errors import SwitchroomError
from integration.outbound.mail_server import MailServer
from integration.outbound.public_addresses import AddressRefused, PublicHosts
from integration.settings.values import is_loopback

TIMEOUT_SECONDS = 60.0
"""Seconds for each step of the SMTP exchange."""
MAX_ADDRESSES = 20
"""Maximum number of recipients of one message."""
NOT_SET_UP = "E-mail isn’t set up. An administrator can enter a mail server on Settings › Connection."


class MailFailed(SwitchroomError):
    """The message was not sent.

    The error text has the reason, without credentials.
    """


def parse_addresses(server: MailServer | None, text: str) -> list[str]:
    """Parse e-mail addresses separated by blanks, commas or semicolons.

    Raises ValueError for an invalid address, for none or more than MAX_ADDRESSES, and without a mail server.
    """
    if server is None:
        raise ValueError(NOT_SET_UP)
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
    server: MailServer | None, recipients: Sequence[str], subject: str, message_id: str | None = None
) -> EmailMessage:
    """Make a message with header fields and no content.

    Without `message_id`, generate one. Raises MailFailed without a mail server.
    """
    if server is None:
        raise MailFailed(NOT_SET_UP)
    message = EmailMessage()
    message["From"] = server.sender
    message["To"] = ", ".join(recipients)
    message["Subject"] = subject
    message["Date"] = formatdate(localtime=False)
    message["Message-ID"] = message_id or make_msgid(domain=server.sender.rpartition("@")[2])
    # Out-of-office replies would be sent to an unread mailbox.
    message["Auto-Submitted"] = "auto-generated"
    return message


def send(
    server: MailServer | None,
    message: EmailMessage,
    recipients: Sequence[str],
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> str:
    """Send `message` and return the result as text for a log.

    Raises MailFailed. Succeeds if at least one recipient was accepted; the result then names the refused
    recipients.
    """
    if server is None:
        raise MailFailed(NOT_SET_UP)
    try:
        with _connect(server, timeout_seconds) as connection:
            if server.user is not None:
                connection.login(server.user, server.password or "")
            rejected = connection.send_message(message, server.sender, list(recipients))
    except AddressRefused as error:
        raise MailFailed(str(error)) from None
    except smtplib.SMTPAuthenticationError as error:
        raise MailFailed(f"{server.host} refuses the user name or the password ({error.smtp_code})") from None
    except smtplib.SMTPRecipientsRefused as error:
        raise MailFailed(
            f"{server.host} refuses every recipient: {_format_refusals(error.recipients)}"
        ) from None
    except smtplib.SMTPResponseException as error:
        raise MailFailed(
            f"{server.host} returned {error.smtp_code} {_decode_reply(error.smtp_error)}"
        ) from None
    except ssl.SSLError as error:
        raise MailFailed(f"no secure connection to {server.host}: {error.reason or error}") from None
    except (smtplib.SMTPException, OSError) as error:
        raise MailFailed(f"{server.host}: {error}") from None
    if rejected:
        # Not an error: a retry would send a duplicate to the accepted recipients.
        return f"sent, but {server.host} refuses {_format_refusals(rejected)}"
    return f"sent to {', '.join(recipients)}"


def _connect(server: MailServer, timeout_seconds: float) -> smtplib.SMTP:
    """Connect, with TLS as configured.

    Raises OSError, SMTPException, AddressRefused, and MailFailed instead of sending a password unencrypted.
    """
    if server.encryption == "" and server.user is not None and not is_loopback(server.host):
        raise MailFailed("The password would be sent unencrypted. Choose an encrypted connection.")
    if server.allow_hosts is not None:
        PublicHosts(server.allow_hosts).resolve(server.host, server.port)
    context = ssl.create_default_context()
    if server.encryption == "TLS":
        return smtplib.SMTP_SSL(server.host, server.port, timeout=timeout_seconds, context=context)
    connection = smtplib.SMTP(server.host, server.port, timeout=timeout_seconds)
    if server.encryption:
        try:
            connection.starttls(context=context)
        except BaseException:
            connection.close()
            raise
    return connection


def _format_refusals(recipients: dict[str, tuple[int, bytes]]) -> str:
    return ", ".join(
        f"{address} ({code} {_decode_reply(reply)})" for address, (code, reply) in recipients.items()
    )


def _decode_reply(reply: bytes | str) -> str:
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
    return " ".join(text.split())[:200]
