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

from integration.core import atomic_files as durable
from integration.core.errors import PlatformBroken
from integration.outbound.exchange import Body
from integration.platform_api.file_types import Begin, End, any_content, any_end
from integration.platform_api.shared_download import Arrival

MOST_BYTES = 2 * 1024**3
SLOWEST = 64 * 1024
"""Bytes per second below which a download is given up."""

LEAST_SECONDS = 120.0
_HEAD = 16


@dataclass(frozen=True, slots=True)
class Expected:
    """What is known of a file before it comes: its `size` in bytes or `limit` at most, how it must `begin`.

    Where the size is not known: how it should `end`, unless what is said against its end is `believed`, the
    message of an earlier WrongFile; and its `sha256`, where it came before.
    """

    size: int | None = None
    limit: int = MOST_BYTES
    begin: Begin = any_content
    end: End = any_end
    believed: str | None = None
    sha256: str | None = None


ANYTHING = Expected()


class WrongFile(PlatformBroken):
    """What came whole is not the file. Says nothing of the platform, which answered."""


class Untold(Exception):
    """All that came is in order, but nobody told how long it is: it must come once more. `sha256` of it."""

    def __init__(self, sha256: str) -> None:
        super().__init__(sha256)
        self.sha256 = sha256


@dataclass(frozen=True, slots=True)
class Downloaded:
    """A file in its place: bytes, hex digest, and the type it was sent with."""

    size: int
    sha256: str
    content_type: str


def seconds_for(size: int | None) -> float:
    """The total time a file of `size` bytes may take."""
    return max(LEAST_SECONDS, (size or 0) / SLOWEST)


def store(body: Body, into: Path, expected: Expected, arrival: Arrival | None = None) -> Downloaded:
    """Stream `body` (status 200) to `into`; see the head of this file. `arrival` is told how far it is.

    Raises WrongFile for anything that is not the file: JSON or HTML, no bytes, or not as `expected`.
    Raises Untold where nobody tells how long it is and it did not come before. Raises OSError where the disk
    can't take it. In each case there is neither `into` nor `.part` afterwards, but for an older `into`.
    """
    kind = body.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind in ("application/json", "text/html"):
        raise WrongFile(f"the platform sent {kind} instead of the file", status=body.status)
    size, told = expected.size, _told_size(body)
    if size is not None and told is not None and told != size:
        raise WrongFile(_wrong_size(size, told), status=body.status)
    untold = size is None and not body.tells_its_end
    changed = _make_folder(into.parent)
    part = into.with_name(into.name + ".part")
    try:
        # What is asked for twice is read along the second time.
        watching = None if untold and expected.sha256 is None else arrival
        coming = _Coming(part, expected.begin, watching, told if size is None else size)
        most = expected.limit if size is None else min(expected.limit, size)
        received, digest = _fill(part, body, most, coming)
        wrong = _wrong_whole(part, received, expected)
        if wrong is not None:
            raise WrongFile(wrong, status=body.status)
        if untold and expected.sha256 is None:
            raise Untold(digest)
        if untold and digest != expected.sha256:
            raise WrongFile("the file came twice, and not the same", status=body.status)
        os.replace(part, into)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    for folder in changed:
        durable.sync(folder)
    return Downloaded(received, digest, kind)


def _wrong_whole(part: Path, received: int, expected: Expected) -> str | None:
    """What is wrong with all that came."""
    if received == 0:
        return "the platform sent an empty file"
    if expected.size is not None:
        return _wrong_size(expected.size, received) if received != expected.size else None
    doubt = expected.end(part)
    said = doubt and f"the file seems to be cut: {doubt}"
    return None if said == expected.believed else said


def _make_folder(folder: Path) -> list[Path]:
    """Create `folder` and what is missing above it. Returns every folder that gets a new name in it."""
    changed = [folder]
    while not folder.is_dir():
        folder = folder.parent
        changed.append(folder)
    changed[0].mkdir(parents=True, exist_ok=True)
    return changed


def _fill(part: Path, body: Body, limit: int, coming: _Coming) -> tuple[int, str]:
    # O_NOFOLLOW: nobody may lead the bytes elsewhere by a symbolic link of that name.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    digest, received = hashlib.sha256(), 0
    with os.fdopen(os.open(part, flags, 0o600), "wb") as file:
        for chunk in body.chunks(limit, at_once=True):
            digest.update(chunk)
            received += len(chunk)
            file.write(chunk)
            file.flush()
            coming.take(chunk, received)
        if received:
            # A file shorter than its head has not been judged yet.
            coming.show(received)
        os.fsync(file.fileno())
    return received, digest.hexdigest()


class _Coming:
    """The head of a file is judged as soon as it is there: whoever reads along gets no byte before."""

    def __init__(self, part: Path, check: Begin, arrival: Arrival | None, size: int | None) -> None:
        self._part, self._check, self._arrival, self._size = part, check, arrival, size
        self._head = b""
        self._judged = False

    def take(self, chunk: bytes, received: int) -> None:
        if len(self._head) < _HEAD:
            self._head = (self._head + chunk)[:_HEAD]
        if len(self._head) == _HEAD:
            self.show(received)

    def show(self, received: int) -> None:
        """Raises WrongFile for what is not the file."""
        if not self._judged:
            wrong = _wrong_head(self._head) or self._check(self._head)
            if wrong:
                raise WrongFile(f"what the platform sent is not the file: {wrong}", status=200)
            self._judged = True
            if self._arrival is not None:
                self._arrival.begun(self._part, self._size)
        if self._arrival is not None:
            self._arrival.grown(received)


def _told_size(body: Body) -> int | None:
    """Bytes of the file by Content-Length; packed, it says something else."""
    return None if "Content-Encoding" in body.headers else body.length


def _wrong_head(head: bytes) -> str | None:
    """A web page or an error, whatever type it claims to be."""
    begin = head.lstrip()[:9].lower()
    if begin.startswith((b"<!doctype", b"<html")):
        return "it is a web page"
    if begin.startswith((b'{"', b"{ ", b"{\n")):
        return "it is a JSON answer"
    return None


def _wrong_size(expected: int, found: int) -> str:
    return f"the file should have {expected:,} bytes and has {found:,}"
