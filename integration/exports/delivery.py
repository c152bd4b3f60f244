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

from integration.core import atomic_files
from integration.core.errors import SwitchroomError
from integration.exports.formats import FORMATS
from integration.exports.schedules import Schedule
from integration.outbound import mail
from integration.outbound.upload import UploadFailed, check_url, upload_file
from integration.settings.model import Settings, Smtp

MAX_MAIL_BYTES = 18_000_000
"""Many mail servers take 25 MB, and an attachment grows by a third on its way."""


class DeliveryFailed(SwitchroomError):
    """The target did not take it. `holds_all` says that it would not take another file either."""

    def __init__(self, message: str, *, holds_all: bool = True) -> None:
        super().__init__(message)
        self.holds_all = holds_all


@dataclass(frozen=True, slots=True)
class OutgoingFile:
    """`file` has `size` bytes and `rows` rows. `name` has the form's ending; `period_label` says which period
    it is, `incomplete_reason` what it lacks (None: complete); `repeat_number` how often a person asked for it
    once more."""

    file: IO[bytes]
    name: str
    size: int
    rows: int
    period: str
    period_label: str
    incomplete_reason: str | None
    repeat_number: int


def deliver(settings: Settings, schedule: Schedule, outgoing: OutgoingFile) -> str:
    """Returns what to write into the log. Raises DeliveryFailed."""
    outgoing.file.seek(0)
    if schedule.target == "folder":
        return _deliver_to_folder(settings, schedule.place, outgoing)
    if schedule.target == "email":
        return _deliver_to_mailbox(settings.smtp, schedule, outgoing)
    return _deliver_to_url(schedule, outgoing)


def normalize_place(settings: Settings, target: str, place: str) -> str:
    """`place` in its usual form, if files can be delivered there. Raises ValueError saying what is wrong."""
    place = place.strip()
    if target == "folder":
        _resolve_folder(settings, place)
        return "/".join(_split_folder(place))
    if target == "put":
        return check_url(place)
    return " ".join(mail.parse_addresses(settings.smtp, place))


# --- a folder --------------------------------------------------------------------------------------------


def base_folder(settings: Settings) -> Path:
    """What every folder has to be below."""
    return settings.exports.folder or settings.storage.data_dir / "exports"


def _deliver_to_folder(settings: Settings, place: str, outgoing: OutgoingFile) -> str:
    try:
        folder = _resolve_folder(settings, place)
        folder.mkdir(parents=True, exist_ok=True)
    except ValueError as error:
        raise DeliveryFailed(str(error)) from None
    except OSError as error:
        raise DeliveryFailed(f"the folder {place or '.'} can't be made ({error.strerror})") from error
    target, part_path = folder / outgoing.name, folder / f".{outgoing.name}.part"
    try:
        # Others may write into this folder: a link that they put there is not followed.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(part_path, flags, 0o666), "wb") as file:
            shutil.copyfileobj(outgoing.file, file, 1 << 20)
            file.flush()
            os.fsync(file.fileno())
        part_path.replace(target)
        atomic_files.fsync_path(folder)
    except OSError as error:
        raise DeliveryFailed(f"{target}: can't be written ({error.strerror})") from error
    finally:
        part_path.unlink(missing_ok=True)
    return f"written to {target}"


def _split_folder(place: str) -> list[str]:
    names = [name for name in place.split("/") if name not in ("", ".")]
    if any(name == ".." or name.startswith(".") or not name.isprintable() or "\\" in name for name in names):
        raise ValueError("A folder is named by plain names with / between, without dots in front.")
    return names


def _resolve_folder(settings: Settings, place: str) -> Path:
    base = base_folder(settings)
    folder = base.joinpath(*_split_folder(place))
    if place.startswith("/") or not folder.resolve().is_relative_to(base.resolve()):
        raise ValueError(f"A folder has to be below {base} (exports.folder).")
    return folder


# --- a mailbox -------------------------------------------------------------------------------------------


def _deliver_to_mailbox(smtp: Smtp, schedule: Schedule, outgoing: OutgoingFile) -> str:
    if outgoing.size > MAX_MAIL_BYTES:
        raise DeliveryFailed(
            f"{outgoing.size / 1e6:,.0f} MB are too much for an e-mail; use a folder or an HTTP address",
            holds_all=False,
        )
    addresses = schedule.place.split()
    try:
        return mail.send(smtp, _build_message(smtp, addresses, schedule, outgoing), addresses)
    except mail.MailFailed as error:
        raise DeliveryFailed(str(error)) from None


def _build_message(
    smtp: Smtp, addresses: list[str], schedule: Schedule, outgoing: OutgoingFile
) -> EmailMessage:
    subject_prefix = "incomplete: " if outgoing.incomplete_reason else ""
    subject = f"{subject_prefix}{schedule.name}, {outgoing.period_label}"
    message = mail.make_message(
        smtp, addresses, subject, build_message_id(smtp.from_ or "", schedule, outgoing)
    )
    message["X-Export-Rows"] = str(outgoing.rows)
    rows = "1 row" if outgoing.rows == 1 else f"{outgoing.rows:,} rows"
    lines = [f"{schedule.name}, {outgoing.period_label} ({schedule.zone}): {rows} in {outgoing.name}."]
    if outgoing.incomplete_reason:
        lines += ["", f"This file is not complete: {outgoing.incomplete_reason}. The complete one follows."]
    message.set_content("\n".join(lines) + "\n")
    kind, _, subtype = FORMATS[schedule.form].mime.partition(";")[0].partition("/")
    message.add_attachment(outgoing.file.read(), maintype=kind, subtype=subtype, filename=outgoing.name)
    return message


def build_message_id(sender: str, schedule: Schedule, outgoing: OutgoingFile) -> str:
    """The same for the same file of the same schedule, whenever it is sent: who has it already can tell."""
    is_complete = outgoing.incomplete_reason is None
    identity = (
        f"{sender} {schedule.id} {schedule.created_at} {outgoing.period} {is_complete} "
        f"{outgoing.repeat_number}"
    )
    return f"<export-{hashlib.sha256(identity.encode()).hexdigest()[:32]}@{sender.rpartition('@')[2]}>"


# --- an address ------------------------------------------------------------------------------------------


def _deliver_to_url(schedule: Schedule, outgoing: OutgoingFile) -> str:
    url_parts = urlsplit(schedule.place)
    path = f"{url_parts.path.rstrip('/')}/{quote(outgoing.name)}"
    headers = {
        "Content-Type": FORMATS[schedule.form].mime,
        "X-Export-Rows": str(outgoing.rows),
        "X-Export-Period": outgoing.period,
        "X-Export-Complete": "false" if outgoing.incomplete_reason else "true",
    }
    if schedule.secret:
        headers["Authorization"] = schedule.secret
    try:
        url = urlunsplit((url_parts.scheme, url_parts.netloc, path, url_parts.query, ""))
        status = upload_file(url, outgoing.file, outgoing.size, headers)
    except (UploadFailed, ValueError) as error:
        raise DeliveryFailed(str(error)) from None
    return f"put to {urlunsplit((url_parts.scheme, url_parts.netloc, path, '', ''))}, answered {status}"
