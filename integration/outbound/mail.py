"""E-mail by the mail server of the settings (`smtp`), for whatever has something to send."""

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
"""For one step of talking to the mail server."""
MAX_ADDRESSES = 20


class MailFailed(SwitchroomError):
    """The mail server did not take it. Says why, without credentials."""


def parse_addresses(smtp: Smtp, text: str) -> list[str]:
    """The addresses in `text`, between which stand blanks, commas or semicolons. Raises ValueError saying
    what is wrong, also where there is no mail server."""
    if smtp.host is None:
        raise ValueError("There is no mail server yet: set smtp.host and smtp.from in the configuration.")
    addresses = text.replace(",", " ").replace(";", " ").split()
    if not 1 <= len(addresses) <= MAX_ADDRESSES:
        raise ValueError(f"Name one e-mail address or more, {MAX_ADDRESSES} at most.")
    for address in addresses:
        name, separator, host = address.rpartition("@")
        if not (name and separator and host and address.isascii() and address.isprintable()) or set(
            address
        ) & set("<>\"'\\"):
            raise ValueError(f"{address!r} is no e-mail address.")
    return addresses


def make_message(
    smtp: Smtp, recipients: Sequence[str], subject: str, message_id: str | None = None
) -> EmailMessage:
    """One with its header, without content. Raises MailFailed where there is no mail server."""
    if smtp.host is None or smtp.from_ is None:
        raise MailFailed("there is no mail server: set smtp.host and smtp.from")
    message = EmailMessage()
    message["From"] = smtp.from_
    message["To"] = ", ".join(recipients)
    message["Subject"] = subject
    message["Date"] = formatdate(localtime=False)
    message["Message-ID"] = message_id or make_msgid(domain=smtp.from_.rpartition("@")[2])
    # Answers of absent people would go to an address that nobody reads.
    message["Auto-Submitted"] = "auto-generated"
    return message


def send(
    smtp: Smtp, message: EmailMessage, recipients: Sequence[str], timeout_seconds: float = TIMEOUT_SECONDS
) -> str:
    """Returns what to write into a log. Raises MailFailed."""
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
            f"{smtp.host} answered {error.smtp_code} {_decode_reply(error.smtp_error)}"
        ) from None
    except ssl.SSLError as error:
        raise MailFailed(f"no secure connection to {smtp.host}: {error.reason or error}") from None
    except (smtplib.SMTPException, OSError) as error:
        raise MailFailed(f"{smtp.host}: {error}") from None
    if rejected:
        # The others have it: sending it once more would be once too often for them.
        return f"sent, but {smtp.host} refuses {_format_refusals(rejected)}"
    return f"sent to {', '.join(recipients)}"


def _connect(smtp: Smtp, timeout_seconds: float) -> smtplib.SMTP:
    """Connected, encrypted as the settings say. Raises OSError, SMTPException, MailFailed."""
    host, port = smtp.host or "", smtp.port or 587
    context = ssl.create_default_context()
    if port == 465 and smtp.starttls is not True:
        return smtplib.SMTP_SSL(host, port, timeout=timeout_seconds, context=context)
    if smtp.starttls is False and smtp.user is not None and not is_loopback(host):
        raise MailFailed("smtp.password would be sent in the clear: take smtp.starttls = false away")
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
