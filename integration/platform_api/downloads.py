"""Files from the platform: nothing stands under its final name that was not received whole and checked.

`.part` in the same folder → size and sha256 counted while it streams → fsync of the file → checks →
rename → fsync of the folder. Whatever goes wrong, and whenever the power goes, the final name holds the
right file or none.

Where the record tells no size the file's own end is looked at; where not even the answer tells how long it
is, it is believed only if it comes twice the same.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from integration.core import atomic_files
from integration.core.errors import PlatformBroken
from integration.outbound.exchange import ResponseBody
from integration.platform_api.file_types import CheckEnd, CheckHead, accept_any_end, accept_any_head
from integration.platform_api.shared_download import MAX_BYTES, SharedDownload

MIN_BYTES_PER_SECOND = 64 * 1024
"""Bytes per second below which a download is given up."""

MIN_SECONDS = 120.0
_HEAD_BYTES = 16


@dataclass(frozen=True, slots=True)
class Expected:
    """What is known of a file before it comes: its `size` in bytes or `limit` at most, how it must
    `check_head`.

    Where the size is not known: how it should `check_end`, unless what is said against its end is
    `accepted_problem`, the message of an earlier WrongFile; and its `sha256`, where it came before.
    """

    size: int | None = None
    limit: int = MAX_BYTES
    check_head: CheckHead = accept_any_head
    check_end: CheckEnd = accept_any_end
    accepted_problem: str | None = None
    sha256: str | None = None


ANY_FILE = Expected()


class WrongFile(PlatformBroken):
    """What came whole is not the file. Says nothing of the platform, which answered."""


class UnknownLength(Exception):
    """All that came is in order, but nobody told how long it is: it must come once more. `sha256` of it."""

    def __init__(self, sha256: str) -> None:
        super().__init__(sha256)
        self.sha256 = sha256


@dataclass(frozen=True, slots=True)
class DownloadedFile:
    """A file in its place: bytes, hex digest, and the type it was sent with."""

    size: int
    sha256: str
    content_type: str


def compute_timeout(size: int | None) -> float:
    """The total time a file of `size` bytes may take."""
    return max(MIN_SECONDS, (size or 0) / MIN_BYTES_PER_SECOND)


def store(
    body: ResponseBody, target_path: Path, expected: Expected, shared_download: SharedDownload | None = None
) -> DownloadedFile:
    """Stream `body` (status 200) to `target_path`; see the head of this file. `shared_download` is told how
    far it is.

    Raises WrongFile for anything that is not the file: JSON or HTML, no bytes, or not as `expected`.
    Raises UnknownLength where nobody tells how long it is and it did not come before. Raises OSError where
    the disk can't take it. In each case there is neither `target_path` nor `.part` afterwards, but for an
    older `target_path`.
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
        # What is asked for twice is read along the second time.
        published_download = None if is_length_unknown and expected.sha256 is None else shared_download
        head_check = _HeadCheck(
            part_path, expected.check_head, published_download, announced_size if size is None else size
        )
        max_bytes = expected.limit if size is None else min(expected.limit, size)
        received, digest = _write_part(part_path, body, max_bytes, head_check)
        problem = _find_problem(part_path, received, expected)
        if problem is not None:
            raise WrongFile(problem, status=body.status)
        if is_length_unknown and expected.sha256 is None:
            raise UnknownLength(digest)
        if is_length_unknown and digest != expected.sha256:
            raise WrongFile("the file came twice, and not the same", status=body.status)
        os.replace(part_path, target_path)
    except BaseException:
        part_path.unlink(missing_ok=True)
        raise
    for folder in changed_folders:
        atomic_files.fsync_path(folder)
    return DownloadedFile(received, digest, content_type)


def _find_problem(part_path: Path, received: int, expected: Expected) -> str | None:
    """What is wrong with all that came."""
    if received == 0:
        return "the platform sent an empty file"
    if expected.size is not None:
        return _describe_wrong_size(expected.size, received) if received != expected.size else None
    end_problem = expected.check_end(part_path)
    message = end_problem and f"the file seems to be cut: {end_problem}"
    return None if message == expected.accepted_problem else message


def _make_folder(folder: Path) -> list[Path]:
    """Create `folder` and what is missing above it. Returns every folder that gets a new name in it."""
    changed_folders = [folder]
    while not folder.is_dir():
        folder = folder.parent
        changed_folders.append(folder)
    changed_folders[0].mkdir(parents=True, exist_ok=True)
    return changed_folders


def _write_part(part_path: Path, body: ResponseBody, limit: int, head_check: _HeadCheck) -> tuple[int, str]:
    # O_NOFOLLOW: nobody may lead the bytes elsewhere by a symbolic link of that name.
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
            # A file shorter than its head has not been judged yet.
            head_check.publish(received)
        os.fsync(file.fileno())
    return received, digest.hexdigest()


class _HeadCheck:
    """The head of a file is judged as soon as it is there: whoever reads along gets no byte before."""

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
        if len(self._head) < _HEAD_BYTES:
            self._head = (self._head + chunk)[:_HEAD_BYTES]
        if len(self._head) == _HEAD_BYTES:
            self.publish(received)

    def publish(self, received: int) -> None:
        """Raises WrongFile for what is not the file."""
        if not self._is_checked:
            problem = _check_head(self._head) or self._check(self._head)
            if problem:
                raise WrongFile(f"what the platform sent is not the file: {problem}", status=200)
            self._is_checked = True
            if self._shared_download is not None:
                self._shared_download.mark_started(self._part_path, self._size)
        if self._shared_download is not None:
            self._shared_download.mark_received(received)


def _announced_size(body: ResponseBody) -> int | None:
    """Bytes of the file by Content-Length; packed, it says something else."""
    return None if "Content-Encoding" in body.headers else body.length


def _check_head(head: bytes) -> str | None:
    """A web page or an error, whatever type it claims to be."""
    start = head.lstrip()[:9].lower()
    if start.startswith((b"<!doctype", b"<html")):
        return "it is a web page"
    if start.startswith((b'{"', b"{ ", b"{\n")):
        return "it is a JSON answer"
    return None


def _describe_wrong_size(expected: int, actual: int) -> str:
    return f"the file should have {expected:,} bytes and has {actual:,}"
