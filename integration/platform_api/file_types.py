"""Checks of the start and end of MP3 and PDF files.

A file without an announced length may have been truncated in transit, which the end of the file shows. A file
that cannot be checked is accepted, because unusual MP3 files exist. For a file of its announced length the
result is only a doubt (downloads.py).

The MP3 frames are parsed here because no library detects truncation. With 1 byte, 30 bytes or half of a file
removed, mutagen 1.48 (GPL), tinytag 2.3, PyAV 18.1, miniaudio 1.71, soundfile 0.14 and pymp3 0.2 raise no
error; they report the old or a shorter duration. waxcut 0.3 (alpha) shows where the last frame ends, which
finds the same truncated files as this module, but also rejects complete files with an APEv2 or Lyrics3 tag at
their end.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path

from integration.platform_api import mp3_frames

CheckHead = Callable[[bytes], str | None]
"""Function that returns a problem of a file's first bytes, or None."""

CheckEnd = Callable[[Path], str | None]
"""Function that returns a problem of a file's end, or None."""

PDF_END_BYTES = 1024
"""Last bytes in which readers search for `%%EOF`.

See PDF Reference 1.7, Appendix H, note 18.
"""


def accept_any_head(_head: bytes) -> str | None:
    """Accept the first bytes of any file, for undocumented formats."""
    return None


def accept_any_end(_file: Path) -> str | None:
    """Accept the end of any file, for undocumented formats."""
    return None


def check_mp3_head(head: bytes) -> str | None:
    """Check that a file begins as an MP3.

    The file begins with an ID3 tag or a frame header. A frame header begins with eleven set bits (ISO 11172-3
    §2.4.1.3).
    """
    if head.startswith(b"ID3") or (len(head) > 1 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0):
        return None
    return "it does not begin like an MP3"


def check_pdf_head(head: bytes) -> str | None:
    """Check that a file begins with the PDF version (ISO 32000-1 §7.5.2).

    Some programs write a few other bytes before the version.
    """
    return None if b"%PDF-" in head[:1024] else "it does not begin like a PDF"


def check_pdf_end(file: Path) -> str | None:
    """Check that a PDF ends with `%%EOF` (ISO 32000-1 §7.5.5)."""
    with file.open("rb") as content:
        size = content.seek(0, 2)
        content.seek(max(0, size - PDF_END_BYTES))
        return None if b"%%EOF" in content.read() else f"it has no end after {size:,} bytes"


def make_mp3_end_check(seconds: int | None) -> CheckEnd:
    """Make the end check of an MP3 that should last `seconds`.

    `seconds` is None if the duration is unknown.
    """

    def check_end(file: Path) -> str | None:
        with file.open("rb") as content, mmap.mmap(content.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _check_mp3_frames(data, seconds)

    return check_end


def _check_mp3_frames(data: mmap.mmap, seconds: int | None) -> str | None:
    """Add up the lengths and durations of the frames.

    Frame headers contain both. Returns the problem, or None. The duration may be 10 % and 1 s shorter than
    `seconds`.
    """
    offset, end, duration = mp3_frames.skip_id3_tag(data), len(data), 0.0
    if data[max(0, end - 128) : end - 125] == b"TAG":
        end -= 128
    while offset < end:
        frame = mp3_frames.parse_frame(data[offset : offset + 4])
        if frame is None:
            is_truncated = end - offset < 4
            return f"its last frame ends after {end - offset} bytes" if is_truncated and duration else None
        offset, duration = offset + frame[0], duration + frame[1]
    if offset > end:
        return f"its last frame lacks {offset - end:,} bytes"
    if seconds is not None and duration < 0.9 * seconds - 1:
        return f"it lasts {duration:.1f} s instead of {seconds}"
    return None
