"""Download files atomically.

A file under its final name is complete and checked. Steps: write `.part` in the same folder, count size and
sha256 while it streams, fsync the file, check it, rename it, fsync the folder. After any error or power
failure the final name has the correct file or no file.

A file of the announced length is complete. If the record has no size, the end of the file is checked too: an
unusual end or a short duration is recorded as a doubt and does not refuse the file. If the response has no
length either, the file is accepted only with a valid end and after a second download with the same sha256.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from integration.core import atomic_files
from integration.core.body_encodings import to_utf8
from integration.core.errors import PlatformBroken
from integration.outbound.exchange import ResponseBody
from integration.platform_api.file_types import CheckEnd, CheckHead, accept_any_end, accept_any_head
from integration.platform_api.shared_download import MAX_BYTES, SharedDownload

MIN_BYTES_PER_SECOND = 64 * 1024
"""Bytes per second below which a download is aborted."""

MIN_SECONDS = 120.0
"""Shortest time limit of a download in seconds."""
HEAD_BYTES = 16
"""Bytes at the start of a file that show its type."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected properties of a file.

    `size` and `limit` are in bytes, `check_head` checks the first bytes. Without a size, `check_end` checks
    the end of the file. A problem equal to `accepted_problem`, the message of an earlier WrongFile, is
    accepted. `sha256` is the hex digest of an earlier download, if there was one.
    """

    size: int | None = None
    limit: int = MAX_BYTES
    check_head: CheckHead = accept_any_head
    check_end: CheckEnd = accept_any_end
    accepted_problem: str | None = None
    sha256: str | None = None


ANY_FILE = Expected()


class WrongFile(PlatformBroken):
    """The received content is not the expected file.

    The platform itself is reachable.
    """


class UnknownLength(Exception):
    """The received file is valid but has no announced length.

    Such a file must be downloaded twice. `sha256` is the hex digest of the first
    download.
    """

    def __init__(self, sha256: str) -> None:
        super().__init__(sha256)
        self.sha256 = sha256


@dataclass(frozen=True, slots=True)
class DownloadedFile:
    """Downloaded and stored file.

    `size` is in bytes, `sha256` a hex digest, `content_type` that of the response. `doubt`: why the complete
    file may lack audio or pages, or None.
    """

    size: int
    sha256: str
    content_type: str
    doubt: str | None = None


def compute_timeout(size: int | None) -> float:
    """Return the seconds that a download of `size` bytes may take."""
    return max(MIN_SECONDS, (size or 0) / MIN_BYTES_PER_SECOND)


def store(
    body: ResponseBody, target_path: Path, expected: Expected, shared_download: SharedDownload | None = None
) -> DownloadedFile:
    """Stream `body` (status 200) to `target_path`.

    The steps are described at the top of this module. `shared_download` receives the progress. Raises
    WrongFile for JSON, HTML, an empty body or a file that is not as `expected`; UnknownLength for the first
    download of a file of unknown length; OSError if the file cannot be stored. After an error `.part` is
    deleted and `target_path` is unchanged.
    """
    content_type = body.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if content_type in ("application/json", "text/html"):
        raise WrongFile(f"the platform sent {content_type} instead of the file", status=body.status)
    size, announced_size = expected.size, _announced_size(body)
    if size is not None and announced_size is not None and announced_size != size:
        raise WrongFile(_describe_wrong_size(size, announced_size), status=body.status)
    is_length_unknown = size is None and not body.has_known_end
    changed_folders = _make_folder(target_path.parent)
    part_path = target_path.with_name(target_path.name + ".part")
    try:
        # A file that is downloaded twice is shared with readers during the second download.
        published_download = None if is_length_unknown and expected.sha256 is None else shared_download
        head_check = _HeadCheck(
            part_path, expected.check_head, published_download, announced_size if size is None else size
        )
        max_bytes = expected.limit if size is None else min(expected.limit, size)
        received, digest = _write_part(part_path, body, max_bytes, head_check)
        doubt = _check_received(part_path, received, expected, body)
        if is_length_unknown and expected.sha256 is None:
            raise UnknownLength(digest)
        if is_length_unknown and digest != expected.sha256:
            raise WrongFile("two downloads of the file differ", status=body.status)
        os.replace(part_path, target_path)
    except BaseException:
        part_path.unlink(missing_ok=True)
        raise
    for folder in changed_folders:
        atomic_files.fsync_path(folder)
    return DownloadedFile(received, digest, content_type, doubt)


def _check_received(part_path: Path, received: int, expected: Expected, body: ResponseBody) -> str | None:
    """Return a doubt about the received file, or None. Raises WrongFile."""
    if received == 0:
        raise WrongFile("the platform sent an empty file", status=body.status)
    if expected.size is not None:
        if received != expected.size:
            raise WrongFile(_describe_wrong_size(expected.size, received), status=body.status)
        return None
    end_problem = expected.check_end(part_path)
    if end_problem is None:
        return None
    # Compared with `media.last_error` of earlier versions too, so this text must not change.
    message = f"the file seems to be cut: {end_problem}"
    if body.has_known_end or message == expected.accepted_problem:
        return message
    raise WrongFile(message, status=body.status)


def _make_folder(folder: Path) -> list[Path]:
    """Create `folder` and its parents.

    Returns each folder that gets a new entry.
    """
    changed_folders = [folder]
    while not folder.is_dir():
        folder = folder.parent
        changed_folders.append(folder)
    changed_folders[0].mkdir(parents=True, exist_ok=True)
    return changed_folders


def _write_part(part_path: Path, body: ResponseBody, limit: int, head_check: _HeadCheck) -> tuple[int, str]:
    # O_NOFOLLOW: a symbolic link of that name must not redirect the bytes to another file.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    digest, received = hashlib.sha256(), 0
    with os.fdopen(os.open(part_path, flags, 0o600), "wb") as file:
        for chunk in body.chunks(limit, unbuffered=True):
            digest.update(chunk)
            received += len(chunk)
            file.write(chunk)
            file.flush()
            head_check.add(chunk, received)
        if received:
            # A file shorter than HEAD_BYTES has not been checked yet.
            head_check.publish(received)
        os.fsync(file.fileno())
    return received, digest.hexdigest()


class _HeadCheck:
    """Checks the head of a file on arrival.

    Readers of a shared download get no byte before.
    """

    def __init__(
        self, part_path: Path, check: CheckHead, shared_download: SharedDownload | None, size: int | None
    ) -> None:
        self._part_path, self._check, self._shared_download, self._size = (
            part_path,
            check,
            shared_download,
            size,
        )
        self._head = b""
        self._is_checked = False

    def add(self, chunk: bytes, received: int) -> None:
        if len(self._head) < HEAD_BYTES:
            self._head = (self._head + chunk)[:HEAD_BYTES]
        if len(self._head) == HEAD_BYTES:
            self.publish(received)

    def publish(self, received: int) -> None:
        """Check the head once, then report `received` bytes to readers. Raises WrongFile."""
        if not self._is_checked:
            problem = _check_head(self._head) or self._check(self._head)
            if problem:
                raise WrongFile(f"the platform did not send the file: {problem}", status=200)
            self._is_checked = True
            if self._shared_download is not None:
                self._shared_download.mark_started(self._part_path, self._size)
        if self._shared_download is not None:
            self._shared_download.mark_received(received)


def _announced_size(body: ResponseBody) -> int | None:
    """Size of the file in bytes by Content-Length, or None.

    The length of compressed content differs from the size of the file.
    """
    return None if "Content-Encoding" in body.headers else body.length


def _check_head(head: bytes) -> str | None:
    """Return a problem for a web page or a JSON error.

    The Content-Type does not matter.
    """
    start = to_utf8(head).lstrip()[:9].lower()
    if start.startswith((b"<!doctype", b"<html")):
        return "it is a web page"
    if start.startswith((b'{"', b"{ ", b"{\n")):
        return "it is a JSON response"
    return None


def _describe_wrong_size(expected: int, actual: int) -> str:
    return f"the file should have {expected:,} bytes and has {actual:,}"
