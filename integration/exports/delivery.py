"""A finished file to where a schedule wants it: a folder, a mailbox, an HTTP address.

A file that comes twice is known by its name (folder, PUT) or by its Message-ID: both are made of schedule and
period alone.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import smtplib
import ssl
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate
from pathlib import Path
from typing import IO
from urllib.parse import quote, urlsplit, urlunsplit

from integration.errors import SwitchroomError
from integration.exports.asking import TYPES
from integration.house.export_schedules import Schedule
from integration.platform_api.put import PutFailed, checked, put
from integration.settings import Settings, Smtp
from integration.settings_values import is_loopback

MAIL_SECONDS = 60.0
"""For one step of talking to the mail server."""
MOST_MAIL_BYTES = 18_000_000
"""Many mail servers take 25 MB, and an attachment grows by a third on its way."""
MOST_ADDRESSES = 20


class DeliveryFailed(SwitchroomError):
    """The target did not take it. `holds_all` says that it would not take another file either."""

    def __init__(self, message: str, *, holds_all: bool = True) -> None:
        super().__init__(message)
        self.holds_all = holds_all


@dataclass(frozen=True, slots=True)
class Parcel:
    """`file` has `size` bytes and `rows` rows. `name` has the form's ending; `words` say which period it is,
    `lacking` what it lacks (None: complete); `again` how often a person asked for it once more."""

    file: IO[bytes]
    name: str
    size: int
    rows: int
    period: str
    words: str
    lacking: str | None
    again: int


def deliver(settings: Settings, schedule: Schedule, parcel: Parcel) -> str:
    """Returns what to write into the log. Raises DeliveryFailed."""
    parcel.file.seek(0)
    if schedule.target == "folder":
        return _to_folder(settings, schedule.place, parcel)
    if schedule.target == "email":
        return _to_mailbox(settings.smtp, schedule, parcel)
    return _to_address(schedule, parcel)


def check_place(settings: Settings, target: str, place: str) -> str:
    """`place` in its usual form, if files can be delivered there. Raises ValueError saying what is wrong."""
    place = place.strip()
    if target == "folder":
        _folder(settings, place)
        return "/".join(_parts(place))
    if target == "put":
        return checked(place)
    if settings.smtp.host is None:
        raise ValueError("There is no mail server yet: set smtp.host and smtp.from in the configuration.")
    addresses = place.replace(",", " ").replace(";", " ").split()
    if not 1 <= len(addresses) <= MOST_ADDRESSES:
        raise ValueError(f"Name one e-mail address or more, {MOST_ADDRESSES} at most.")
    for address in addresses:
        name, at, host = address.rpartition("@")
        if not (name and at and host and address.isascii() and address.isprintable()) or set(address) & set(
            "<>\"'\\"
        ):
            raise ValueError(f"{address!r} is no e-mail address.")
    return " ".join(addresses)


# --- a folder --------------------------------------------------------------------------------------------


def base_folder(settings: Settings) -> Path:
    """What every folder has to be below."""
    return settings.exports.folder or settings.storage.data_dir / "exports"


def _to_folder(settings: Settings, place: str, parcel: Parcel) -> str:
    try:
        folder = _folder(settings, place)
        folder.mkdir(parents=True, exist_ok=True)
        # Again, now that it exists: a link in it may lead elsewhere.
        folder = _folder(settings, place)
    except ValueError as error:
        raise DeliveryFailed(str(error)) from None
    except OSError as error:
        raise DeliveryFailed(f"the folder {place or '.'} can't be made ({error.strerror})") from error
    target, part = folder / parcel.name, folder / f".{parcel.name}.part"
    try:
        with part.open("wb") as file:
            shutil.copyfileobj(parcel.file, file, 1 << 20)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
        _sync(folder)
    except OSError as error:
        raise DeliveryFailed(f"{target}: can't be written ({error.strerror})") from error
    finally:
        part.unlink(missing_ok=True)
    return f"written to {target}"


def _parts(place: str) -> list[str]:
    parts = [part for part in place.split("/") if part not in ("", ".")]
    if any(part == ".." or part.startswith(".") or not part.isprintable() or "\\" in part for part in parts):
        raise ValueError("A folder is named by plain names with / between, without dots in front.")
    return parts


def _folder(settings: Settings, place: str) -> Path:
    base = base_folder(settings)
    folder = base.joinpath(*_parts(place))
    if place.startswith("/") or not folder.resolve().is_relative_to(base.resolve()):
        raise ValueError(f"A folder has to be below {base} (exports.folder).")
    return folder


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- a mailbox -------------------------------------------------------------------------------------------


def _to_mailbox(smtp: Smtp, schedule: Schedule, parcel: Parcel) -> str:
    if smtp.host is None or smtp.from_ is None:
        raise DeliveryFailed("there is no mail server: set smtp.host and smtp.from")
    if parcel.size > MOST_MAIL_BYTES:
        raise DeliveryFailed(
            f"{parcel.size / 1e6:,.0f} MB are too much for an e-mail; use a folder or an HTTP address",
            holds_all=False,
        )
    addresses = schedule.place.split()
    letter = _letter(smtp.from_, addresses, schedule, parcel)
    try:
        with _mail_server(smtp) as server:
            if smtp.user is not None:
                server.login(smtp.user, smtp.password or "")
            refused = server.send_message(letter, smtp.from_, addresses)
    except smtplib.SMTPAuthenticationError as error:
        raise DeliveryFailed(f"{smtp.host} refuses smtp.user and smtp.password ({error.smtp_code})") from None
    except smtplib.SMTPRecipientsRefused as error:
        raise DeliveryFailed(f"{smtp.host} refuses every recipient: {_refusals(error.recipients)}") from None
    except smtplib.SMTPResponseException as error:
        raise DeliveryFailed(f"{smtp.host} answered {error.smtp_code} {_text(error.smtp_error)}") from None
    except ssl.SSLError as error:
        raise DeliveryFailed(f"no secure connection to {smtp.host}: {error.reason or error}") from None
    except (smtplib.SMTPException, OSError) as error:
        raise DeliveryFailed(f"{smtp.host}: {error}") from None
    if refused:
        # The others have it: sending it once more would be once too often for them.
        return f"sent, but {smtp.host} refuses {_refusals(refused)}"
    return f"sent to {', '.join(addresses)}"


def _mail_server(smtp: Smtp) -> smtplib.SMTP:
    """Connected, encrypted as the settings say. Raises OSError, SMTPException, DeliveryFailed."""
    host, port = smtp.host or "", smtp.port or 587
    context = ssl.create_default_context()
    if port == 465 and smtp.starttls is not True:
        return smtplib.SMTP_SSL(host, port, timeout=MAIL_SECONDS, context=context)
    if smtp.starttls is False and smtp.user is not None and not is_loopback(host):
        raise DeliveryFailed("smtp.password would be sent in the clear: take smtp.starttls = false away")
    server = smtplib.SMTP(host, port, timeout=MAIL_SECONDS)
    if smtp.starttls is not False:
        try:
            server.starttls(context=context)
        except BaseException:
            server.close()
            raise
    return server


def _letter(sender: str, addresses: list[str], schedule: Schedule, parcel: Parcel) -> EmailMessage:
    letter = EmailMessage()
    letter["From"] = sender
    letter["To"] = ", ".join(addresses)
    incomplete = "incomplete: " if parcel.lacking else ""
    letter["Subject"] = f"{incomplete}{schedule.name}, {parcel.words}"
    letter["Date"] = formatdate(localtime=False)
    letter["Message-ID"] = message_id(sender, schedule, parcel)
    # Answers of absent people would go to an address that nobody reads.
    letter["Auto-Submitted"] = "auto-generated"
    letter["X-Export-Rows"] = str(parcel.rows)
    lines = [f"{schedule.name}, {parcel.words} ({schedule.zone}): {parcel.rows:,} rows in {parcel.name}."]
    if parcel.lacking:
        lines += ["", f"This file is not complete: {parcel.lacking}. The complete one follows."]
    letter.set_content("\n".join(lines) + "\n")
    kind, _, subtype = TYPES[schedule.form].partition(";")[0].partition("/")
    letter.add_attachment(parcel.file.read(), maintype=kind, subtype=subtype, filename=parcel.name)
    return letter


def message_id(sender: str, schedule: Schedule, parcel: Parcel) -> str:
    """The same for the same file of the same schedule, whenever it is sent: who has it already can tell."""
    whole = parcel.lacking is None
    of = f"{sender} {schedule.id} {schedule.created_at} {parcel.period} {whole} {parcel.again}"
    return f"<export-{hashlib.sha256(of.encode()).hexdigest()[:32]}@{sender.rpartition('@')[2]}>"


def _refusals(recipients: dict[str, tuple[int, bytes]]) -> str:
    return ", ".join(f"{address} ({code} {_text(why)})" for address, (code, why) in recipients.items())


def _text(answer: bytes | str) -> str:
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
    return " ".join(text.split())[:200]


# --- an address ------------------------------------------------------------------------------------------


def _to_address(schedule: Schedule, parcel: Parcel) -> str:
    parts = urlsplit(schedule.place)
    path = f"{parts.path.rstrip('/')}/{quote(parcel.name)}"
    headers = {
        "Content-Type": TYPES[schedule.form],
        "X-Export-Rows": str(parcel.rows),
        "X-Export-Period": parcel.period,
        "X-Export-Complete": "false" if parcel.lacking else "true",
    }
    if schedule.secret:
        headers["Authorization"] = schedule.secret
    try:
        url = urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
        status = put(url, parcel.file, parcel.size, headers)
    except (PutFailed, ValueError) as error:
        raise DeliveryFailed(str(error)) from None
    return f"put to {urlunsplit((parts.scheme, parts.netloc, path, '', ''))}, answered {status}"
