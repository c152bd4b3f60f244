"""Deliver a finished export to a folder, e-mail addresses or a URL.

A repeated delivery has the same file name (folder, PUT) and the same Message-ID (e-mail): both depend on
schedule and period only, so a recipient can recognise duplicates.
"""

from __future__ import annotations

import hashlib
import html
import re
from dataclasses import dataclass
from email.message import EmailMessage
from typing import IO
from urllib.parse import quote, urlsplit, urlunsplit

from integration.core import clock
from integration.core.calendar_periods import Period
from integration.core.errors import SwitchroomError
from integration.exports.folders import Folder, LocalFolder, open_folder
from integration.exports.formats import SCHEDULED_FORMATS
from integration.exports.jobs import ALERT_ADDRESSES, ExportRun
from integration.outbound import mail, notifications
from integration.outbound.mail_server import MailServer
from integration.outbound.public_addresses import PublicHosts
from integration.outbound.upload import UploadFailed, upload_file
from integration.outbound.urls import check_new_url
from integration.settings.model import Settings

MAX_MAIL_BYTES = 18_000_000
"""Bytes of the largest attachment. Many mail servers accept 25 MB, and Base64 adds a third."""


class DeliveryFailed(SwitchroomError):
    """The target did not accept the file.

    `holds_all`: other files would fail too.
    """

    def __init__(self, message: str, *, holds_all: bool = True) -> None:
        super().__init__(message)
        self.holds_all = holds_all


@dataclass(frozen=True, slots=True)
class OutgoingFile:
    """The file of a schedule's run, with `size` bytes and `rows` rows. `days` are those that it covers.

    `name` includes the suffix of the format. `incomplete_reason` describes the missing data (None: complete).
    """

    run: ExportRun
    days: Period
    file: IO[bytes]
    name: str
    size: int
    rows: int
    incomplete_reason: str | None


def deliver(settings: Settings, server: MailServer | None, outgoing: OutgoingFile) -> str:
    """Deliver a file. `server` is the mail server for e-mails.

    Returns the text for the delivery log. Raises DeliveryFailed."""
    outgoing.file.seek(0)
    if outgoing.run.job.target == "folder":
        return _deliver_to_folder(settings, outgoing)
    if outgoing.run.job.target == "email":
        return _deliver_to_mailbox(server, outgoing)
    if outgoing.run.job.place == ALERT_ADDRESSES:
        return _notify(settings, outgoing)
    return _deliver_to_url(settings, outgoing)


def normalize_place(settings: Settings, server: MailServer | None, target: str, place: str) -> str:
    """Validate and normalize the place of a target.

    `server` is the mail server for e-mails. Raises ValueError with the reason.
    """
    place = place.strip()
    if target == "folder":
        _resolve_folder(settings, place)
        return "/".join(_split_folder(place))
    if target == "put" and place == ALERT_ADDRESSES:
        if not settings.alerts.urls:
            raise ValueError(f"The setting {ALERT_ADDRESSES} has no address.")
        return place
    if target == "put":
        return check_new_url(place, PublicHosts(settings.outgoing.allow_hosts))
    return " ".join(mail.parse_addresses(server, place))


# --- a folder --------------------------------------------------------------------------------------------


def base_folder(settings: Settings) -> Folder:
    """Return the folder that contains all folder targets (`exports.folder`)."""
    if settings.exports.folder is None:
        return LocalFolder(settings.storage.data_dir / "exports")
    return open_folder(settings.exports.folder)


def _deliver_to_folder(settings: Settings, outgoing: OutgoingFile) -> str:
    folder = find_folder(settings, outgoing.run.job.place)
    try:
        folder.write_file(outgoing.name, outgoing.file)
    except OSError as error:
        raise DeliveryFailed(
            f"The file {folder}/{outgoing.name} cannot be written: {error.strerror or error}."
        ) from error
    return f"written to {folder}/{outgoing.name}"


def find_folder(settings: Settings, place: str) -> Folder:
    """Return the folder `place`. Raises DeliveryFailed."""
    try:
        return _resolve_folder(settings, place)
    except ValueError as error:
        raise DeliveryFailed(str(error)) from None


def _split_folder(place: str) -> list[str]:
    names = [name for name in place.split("/") if name not in ("", ".")]
    if any(name == ".." or name.startswith(".") or not name.isprintable() or "\\" in name for name in names):
        raise ValueError(
            f"Invalid folder {place!r}. Separate names by '/'. A name cannot begin with a dot or contain a"
            " backslash or an unprintable character."
        )
    return names


def _resolve_folder(settings: Settings, place: str) -> Folder:
    base = base_folder(settings)
    if place.startswith("/"):
        raise ValueError(f"The folder {place!r} is not below {base} (exports.folder). Use a relative path.")
    return base.subfolder(_split_folder(place))


# --- a mailbox -------------------------------------------------------------------------------------------


def _deliver_to_mailbox(server: MailServer | None, outgoing: OutgoingFile) -> str:
    if outgoing.size > MAX_MAIL_BYTES:
        raise DeliveryFailed(
            f"The file has {outgoing.size / 1e6:,.0f} MB, more than the {MAX_MAIL_BYTES / 1e6:,.0f} MB that"
            " an e-mail can carry. Use a folder or a URL as target.",
            holds_all=False,
        )
    addresses = outgoing.run.job.place.split()
    try:
        return mail.send(server, _build_message(server, addresses, outgoing), addresses)
    except mail.MailFailed as error:
        raise DeliveryFailed(str(error)) from None


def _build_message(server: MailServer | None, addresses: list[str], outgoing: OutgoingFile) -> EmailMessage:
    job, label = outgoing.run.job, outgoing.days.label
    subject = f"{'incomplete: ' if outgoing.incomplete_reason else ''}{job.name}, {label}"
    message_id = build_message_id(server.sender if server else "", outgoing)
    message = mail.make_message(server, addresses, subject, message_id)
    if job.is_digest:
        page = outgoing.file.read().decode()
        message.set_content(extract_text(page))
        message.add_alternative(page, subtype="html")
        return message
    message["X-Export-Rows"] = str(outgoing.rows)
    rows = "1 row" if outgoing.rows == 1 else f"{outgoing.rows:,} rows"
    lines = [f"{job.name}, {clock.add_zone(label, job.zone)}: {rows} in {outgoing.name}."]
    if outgoing.incomplete_reason:
        lines += ["", f"This file is not complete: {outgoing.incomplete_reason}. The complete one follows."]
    message.set_content("\n".join(lines) + "\n")
    kind, _, subtype = SCHEDULED_FORMATS[job.form].mime.partition(";")[0].partition("/")
    message.add_attachment(outgoing.file.read(), maintype=kind, subtype=subtype, filename=outgoing.name)
    return message


def build_message_id(sender: str, outgoing: OutgoingFile) -> str:
    """Return the Message-ID, equal for repeated deliveries of the same file."""
    run, is_complete = outgoing.run, outgoing.incomplete_reason is None
    identity = f"{sender} {run.job.id} {run.job.created_at} {run.period} {is_complete} {run.redeliveries}"
    return f"<export-{hashlib.sha256(identity.encode()).hexdigest()[:32]}@{sender.rpartition('@')[2]}>"


def extract_text(page: str) -> str:
    """Return the text of a digest: a line for each paragraph, heading, row and entry of a list."""
    body = re.sub(r"(?s)<style.*?</style>|<title.*?</title>", "", page)
    body = re.sub(r"\s+", " ", body)
    body = re.sub(r"</(?:td|th)> *<(?:td|th)[^>]*>", " – ", body)
    lines = re.sub(r"</?(?:p|h1|h2|tr|li|table|ul|body|html)\b[^>]*>", "\n", body).split("\n")
    texts = [" ".join(html.unescape(re.sub(r"<[^>]+>", "", line)).split()) for line in lines]
    return "\n".join(text for text in texts if text) + "\n"


# --- services of alerts ----------------------------------------------------------------------------------


def _notify(settings: Settings, outgoing: OutgoingFile) -> str:
    """Send the text of a digest to all addresses of `alerts.urls`."""
    job, urls = outgoing.run.job, settings.alerts.urls
    title, text = f"{job.name}, {outgoing.days.label}", extract_text(outgoing.file.read().decode())
    refusals = []
    for url in urls:
        try:
            notifications.notify(url, title, text)
        except notifications.NotificationFailed as error:
            refusals.append(str(error))
    # A repetition would reach the others twice.
    if len(refusals) == len(urls):
        raise DeliveryFailed(refusals[0] if refusals else f"The setting {ALERT_ADDRESSES} has no address.")
    return "; ".join([f"sent to {len(urls) - len(refusals)} of {len(urls)} {ALERT_ADDRESSES}", *refusals])


# --- a URL -----------------------------------------------------------------------------------------------


def _deliver_to_url(settings: Settings, outgoing: OutgoingFile) -> str:
    job = outgoing.run.job
    split_url = urlsplit(job.place)
    path = f"{split_url.path.rstrip('/')}/{quote(outgoing.name)}"
    headers = {
        "Content-Type": SCHEDULED_FORMATS[job.form].mime,
        "X-Export-Rows": str(outgoing.rows),
        "X-Export-Period": outgoing.run.period,
        "X-Export-Complete": "false" if outgoing.incomplete_reason else "true",
    }
    if job.secret:
        headers["Authorization"] = job.secret
    try:
        url = urlunsplit((split_url.scheme, split_url.netloc, path, split_url.query, ""))
        public_hosts = PublicHosts(settings.outgoing.allow_hosts)
        status = upload_file(url, outgoing.file, outgoing.size, headers, public_hosts)
    except (UploadFailed, ValueError) as error:
        raise DeliveryFailed(str(error)) from None
    return f"uploaded to {urlunsplit((split_url.scheme, split_url.netloc, path, '', ''))}, status {status}"
