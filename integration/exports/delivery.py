"""A finished file to where a schedule wants it: a folder, a mailbox, an HTTP address.

A file that comes twice is known by its name (folder, PUT) or by its Message-ID: both are made of schedule and
period alone.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import IO
from urllib.parse import quote, urlsplit, urlunsplit

from integration.core import atomic_files as durable
from integration.core.errors import SwitchroomError
from integration.exports.export_request import TYPES
from integration.exports.schedule_table import Schedule
from integration.outbound import mail
from integration.outbound.upload import PutFailed, checked, put
from integration.settings.model import Settings, Smtp

MOST_MAIL_BYTES = 18_000_000
"""Many mail servers take 25 MB, and an attachment grows by a third on its way."""


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
    return " ".join(mail.addresses(settings.smtp, place))


# --- a folder --------------------------------------------------------------------------------------------


def base_folder(settings: Settings) -> Path:
    """What every folder has to be below."""
    return settings.exports.folder or settings.storage.data_dir / "exports"


def _to_folder(settings: Settings, place: str, parcel: Parcel) -> str:
    try:
        folder = _folder(settings, place)
        folder.mkdir(parents=True, exist_ok=True)
    except ValueError as error:
        raise DeliveryFailed(str(error)) from None
    except OSError as error:
        raise DeliveryFailed(f"the folder {place or '.'} can't be made ({error.strerror})") from error
    target, part = folder / parcel.name, folder / f".{parcel.name}.part"
    try:
        # Others may write into this folder: a link that they put there is not followed.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(part, flags, 0o666), "wb") as file:
            shutil.copyfileobj(parcel.file, file, 1 << 20)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
        durable.sync(folder)
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


# --- a mailbox -------------------------------------------------------------------------------------------


def _to_mailbox(smtp: Smtp, schedule: Schedule, parcel: Parcel) -> str:
    if parcel.size > MOST_MAIL_BYTES:
        raise DeliveryFailed(
            f"{parcel.size / 1e6:,.0f} MB are too much for an e-mail; use a folder or an HTTP address",
            holds_all=False,
        )
    addresses = schedule.place.split()
    try:
        return mail.send(smtp, _letter(smtp, addresses, schedule, parcel), addresses)
    except mail.MailFailed as error:
        raise DeliveryFailed(str(error)) from None


def _letter(smtp: Smtp, addresses: list[str], schedule: Schedule, parcel: Parcel) -> EmailMessage:
    incomplete = "incomplete: " if parcel.lacking else ""
    subject = f"{incomplete}{schedule.name}, {parcel.words}"
    letter = mail.letter(smtp, addresses, subject, message_id(smtp.from_ or "", schedule, parcel))
    letter["X-Export-Rows"] = str(parcel.rows)
    rows = "1 row" if parcel.rows == 1 else f"{parcel.rows:,} rows"
    lines = [f"{schedule.name}, {parcel.words} ({schedule.zone}): {rows} in {parcel.name}."]
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
