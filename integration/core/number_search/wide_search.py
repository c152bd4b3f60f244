"""Search bytes for a telephone number more widely than `number_variants.Finder`.

A search after an erasure must also find what the erasure itself overlooks: the digits alone, within longer
digit sequences, with up to MAX_GAP other bytes between two digits, in UTF-8, UTF-16, and escape sequences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from integration.core.number_search import folding
from integration.core.number_variants import variants

MAX_GAP = 16
"""Maximum number of bytes between two digits. More would match unrelated digits of binary files."""

CHUNK_BYTES = 1 << 18
"""Bytes of one read."""
OVERLAP_BYTES = 1024
"""Bytes of a chunk that are searched together with the next chunk."""
EDGE_BYTES = 1 << 16
"""Bytes at the start and the end of an audio file that are searched for plain digits."""
TEXT_BYTES = 1024
"""Bytes at the start and the end of an audio file, beside its ID3 tag, that are searched in every encoding.

Folding 64 KiB of audio takes 0.16 s: with all EDGE_BYTES an archive of 400 recordings took two minutes."""

_MIN_HIDDEN_DIGITS = 9
"""Minimum digits of a number that is also found within a longer sequence of digits.

Shorter ones occur by chance in ids and times."""

_NO_DIGITS = bytes(set(range(256)) - set(b"0123456789"))
_UTF16_DIGITS = re.compile(rb"(?:[\s\S][\x06-\x19\xa6-\xab\xff]){3}")
"""Bytes that can be digits of other scripts in UTF-16, at any alignment and byte order."""


class WideSearch:
    """Wide search for one number. Raises ValueError for an invalid `e164`."""

    def __init__(self, e164: str) -> None:
        spellings = variants(e164)
        needles = sorted(
            spelling
            for spelling in spellings
            if not any(other != spelling and other in spelling for other in spellings)
        )
        self._needles = needles
        self._pattern = re.compile("|".join(map(_build_pattern, needles)).encode())

    def contains(self, body: bytes) -> bool:
        """Return whether `body` possibly contains the number."""
        return self._find_in_form(body) or any(map(self._find_in_text, _iterate_texts(body)))

    def is_in_file(self, path: Path) -> bool:
        """Return whether a file possibly contains the number.

        False without a file. Raises OSError.
        """
        try:
            with open(path, "rb") as file:
                overlap = b""
                while chunk := file.read(CHUNK_BYTES):
                    # A number that spans two chunks is found with the end of the first one.
                    if self.contains(overlap + chunk):
                        return True
                    overlap = chunk[-OVERLAP_BYTES:]
        except FileNotFoundError:
            return False
        return False

    def is_in_audio_file(self, path: Path) -> bool:
        """Return whether the tags of an MP3 file possibly contain the number.

        The samples between them contain no text. False without a file. Raises OSError.
        """
        try:
            with open(path, "rb") as file:
                head = file.read(EDGE_BYTES)
                file.seek(max(0, path.stat().st_size - EDGE_BYTES))
                tail = file.read(EDGE_BYTES)
        except FileNotFoundError:
            return False
        return (
            self._find_in_form(head)
            or self._find_in_form(tail)
            or self.contains(head[: max(TEXT_BYTES, _read_tag_size(head))])
            or self.contains(tail[-TEXT_BYTES:])
        )

    def _find_in_text(self, text: str) -> bool:
        """Return whether the folded text possibly contains the number.

        The text is folded only if its digits contain the number.
        """
        digits = folding.extract_digits(text)
        return any(needle in digits for needle in self._needles) and self._find_in_form(
            folding.fold(text).encode()
        )

    def _find_in_form(self, form: bytes) -> bool:
        compact = form.translate(None, _NO_DIGITS).decode()
        return any(needle in compact for needle in self._needles) and self._pattern.search(form) is not None


def _read_tag_size(head: bytes) -> int:
    """Return the size in bytes of an ID3v2 tag; 0 without one."""
    if not head.startswith(b"ID3") or len(head) < 10:
        return 0
    # Seven bits a byte: https://id3.org/id3v2.4.0-structure, section 6.2.
    return 10 + sum((byte & 0x7F) << shift for byte, shift in zip(head[6:10], (21, 14, 7, 0), strict=True))


def _build_pattern(needle: str) -> str:
    spaced = f"[^0-9]{{0,{MAX_GAP}}}".join(needle)
    return spaced if len(needle) >= _MIN_HIDDEN_DIGITS else f"(?<![0-9]){spaced}(?![0-9])"


def _iterate_texts(body: bytes) -> Iterator[str]:
    """Yield the texts of `body` in each possible encoding.

    Then follows the text with escape sequences resolved.

    ASCII without escape sequences is left out: its digits are those of the bytes.
    """
    texts = folding.iterate_variants(body.decode("utf-8", "surrogateescape"))
    yield from islice(texts, 1 if body.isascii() else 0, None)
    if _UTF16_DIGITS.search(body):
        for offset in (0, 1):
            units = body[offset : offset + (len(body) - offset) // 2 * 2]
            for codec in ("utf-16-le", "utf-16-be"):
                yield units.decode(codec, "surrogatepass")
