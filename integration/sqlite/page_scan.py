"""Rows of a damaged database, read from its pages without SQLite.

SQLite finds a page only through the pages above it, so one damaged page can hide many intact ones. Here every
page of the file is read on its own, as described in https://www.sqlite.org/fileformat2.html. Rows of all
tables are found, so the caller must recognize its rows by their number of columns and a digest.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

MAGIC = b"SQLite format 3\0"
DEFAULT_PAGE_BYTES = 4096
FILE_HEADER_BYTES = 100
"""Bytes of the file header, which precedes the content of page 1."""
TABLE_LEAF = 13
"""Type of a page with rows of a table."""
WAL_MAGIC = (0x377F0682, 0x377F0683)
WAL_HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24
MAX_PAYLOAD_BYTES = 1 << 24
"""Bytes above which the length of a row counts as damaged."""
INTEGER_BYTES = (0, 1, 2, 3, 4, 6, 8)
"""Bytes of an integer by its serial type."""

_INVALID = (IndexError, struct.error, ValueError)
"""Errors of a cell whose bytes are not a row; UnicodeDecodeError is a ValueError."""

Row = tuple[int, tuple[Any, ...]]
"""Rowid and values. The value of an INTEGER PRIMARY KEY is None, because the rowid is stored instead."""


def scan_rows(path: Path, is_needed: Callable[[int, int], bool]) -> Iterator[Row]:
    """Yield the decodable rows of all tables in page order.

    `is_needed(first, last)` selects pages by the rowids of their first and last row. Includes the -wal file.
    Raises OSError.
    """
    with _PageFile(path) as pages:
        free_pages = pages.list_free()
        for number in range(1, pages.count + 1):
            if number in free_pages:
                continue
            page = pages.read(number)
            start = FILE_HEADER_BYTES if number == 1 else 0
            if len(page) < pages.page_bytes or page[start] != TABLE_LEAF:
                continue
            count = int.from_bytes(page[start + 3 : start + 5], "big")
            pointers = page[start + 8 : start + 8 + 2 * count]
            offsets = [int.from_bytes(pointers[i : i + 2], "big") for i in range(0, len(pointers), 2)]
            try:
                if not offsets or not is_needed(
                    _read_rowid(page, offsets[0]), _read_rowid(page, offsets[-1])
                ):
                    continue
            except _INVALID:
                pass  # A damaged first or last cell does not show which rows are between.
            for offset in offsets:
                try:
                    yield _read_cell(pages, page, offset)
                except _INVALID:
                    continue


class _PageFile:
    """Pages of a database file, the newest of its -wal file first."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "rb")  # noqa: SIM115 – closed by __exit__
        self._wal: BinaryIO | None = None
        wal_path = path.with_name(f"{path.name}-wal")
        if wal_path.exists():
            self._wal = open(wal_path, "rb")  # noqa: SIM115
        self.page_bytes = DEFAULT_PAGE_BYTES
        self.reserved_bytes = 0
        header = self._file.read(FILE_HEADER_BYTES)
        if header.startswith(MAGIC):
            size = int.from_bytes(header[16:18], "big")
            size = 65536 if size == 1 else size
            if size >= 512 and not size & (size - 1):
                self.page_bytes, self.reserved_bytes = size, header[20]
        self._frames = self._find_frames()
        file_pages = os.fstat(self._file.fileno()).st_size // self.page_bytes
        self.count = max(file_pages, *self._frames, 0)

    def __enter__(self) -> _PageFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        if self._wal is not None:
            self._wal.close()

    @property
    def usable_bytes(self) -> int:
        return self.page_bytes - self.reserved_bytes

    def read(self, number: int) -> bytes:
        if self._wal is not None and (offset := self._frames.get(number)) is not None:
            return os.pread(self._wal.fileno(), self.page_bytes, offset)
        return os.pread(self._file.fileno(), self.page_bytes, (number - 1) * self.page_bytes)

    def list_free(self) -> set[int]:
        """Return the unused pages that are listed in readable pages.

        They may have deleted rows.
        """
        free_pages: set[int] = set()
        first_page = self.read(1)
        trunk = int.from_bytes(first_page[32:36], "big") if first_page.startswith(MAGIC) else 0
        while 0 < trunk <= self.count and trunk not in free_pages:
            free_pages.add(trunk)
            page = self.read(trunk)
            leaf_count = int.from_bytes(page[4:8], "big")
            if leaf_count > self.usable_bytes // 4 - 2:
                break
            free_pages.update(struct.unpack_from(f">{leaf_count}I", page, 8))
            trunk = int.from_bytes(page[:4], "big")
        return free_pages

    def _find_frames(self) -> dict[int, int]:
        """Return the newest committed offset of each page in the -wal file.

        The checksums of frames are not compared: 64 MB would take seconds, and the caller checks each row.
        """
        frames: dict[int, int] = {}
        if self._wal is None:
            return frames
        header = self._wal.read(WAL_HEADER_BYTES)
        if len(header) < WAL_HEADER_BYTES or int.from_bytes(header[:4], "big") not in WAL_MAGIC:
            return frames
        self.page_bytes = int.from_bytes(header[8:12], "big") or self.page_bytes
        salts, transaction = header[16:24], {}
        for start in range(
            WAL_HEADER_BYTES, os.fstat(self._wal.fileno()).st_size, FRAME_HEADER_BYTES + self.page_bytes
        ):
            frame = os.pread(self._wal.fileno(), FRAME_HEADER_BYTES, start)
            if len(frame) < FRAME_HEADER_BYTES or frame[8:16] != salts:
                break
            transaction[int.from_bytes(frame[:4], "big")] = start + FRAME_HEADER_BYTES
            if frame[4:8] != b"\0\0\0\0":  # The last frame of a commit has the size of the database.
                frames.update(transaction)
                transaction = {}
        return frames


def _read_rowid(page: bytes, offset: int) -> int:
    _, offset = _read_varint(page, offset)
    return _read_varint(page, offset)[0]


def _read_cell(pages: _PageFile, page: bytes, offset: int) -> Row:
    size, offset = _read_varint(page, offset)
    rowid, offset = _read_varint(page, offset)
    if not 0 < size <= MAX_PAYLOAD_BYTES:
        raise ValueError("the length of the row is damaged")
    return rowid, _decode_record(_read_payload(pages, page, offset, size))


def _read_payload(pages: _PageFile, page: bytes, offset: int, size: int) -> bytes:
    """Return the bytes of a row from its page and overflow pages."""
    usable = pages.usable_bytes
    max_local, min_local = usable - 35, (usable - 12) * 32 // 255 - 23
    if size <= max_local:
        local = size
    else:
        surplus = min_local + (size - min_local) % (usable - 4)
        local = surplus if surplus <= max_local else min_local
    pieces = [page[offset : offset + local]]
    missing = size - local
    next_page = int.from_bytes(page[offset + local : offset + local + 4], "big") if missing else 0
    while missing > 0:
        if not 0 < next_page <= pages.count:
            raise ValueError("the chain of overflow pages ends early")
        overflow = pages.read(next_page)
        pieces.append(overflow[4 : 4 + min(missing, usable - 4)])
        missing -= usable - 4
        next_page = int.from_bytes(overflow[:4], "big")
    payload = b"".join(pieces)
    if len(payload) != size:
        raise ValueError("the row is truncated")
    return payload


def _decode_record(payload: bytes) -> tuple[Any, ...]:
    header_size, offset = _read_varint(payload, 0)
    types = []
    while offset < header_size:
        serial_type, offset = _read_varint(payload, offset)
        types.append(serial_type)
    values = []
    for serial_type in types:
        size = _count_bytes(serial_type)
        if offset + size > len(payload):
            raise ValueError("a value is truncated")
        values.append(_decode_value(serial_type, payload[offset : offset + size]))
        offset += size
    return tuple(values)


def _count_bytes(serial_type: int) -> int:
    if serial_type >= 12:
        return (serial_type - 12) // 2
    if serial_type <= 6:
        return INTEGER_BYTES[serial_type]
    return 8 if serial_type == 7 else 0


def _decode_value(serial_type: int, content: bytes) -> Any:
    if serial_type == 0:
        return None
    if serial_type <= 6:
        return int.from_bytes(content, "big", signed=True)
    if serial_type == 7:
        return struct.unpack(">d", content)[0]
    if serial_type <= 9:
        return serial_type - 8
    if serial_type < 12:
        raise ValueError("SQLite uses this serial type only internally")
    return content.decode("utf-8") if serial_type % 2 else content


def _read_varint(content: bytes, offset: int) -> tuple[int, int]:
    """Return a variable-length integer, signed, and the next offset."""
    value = 0
    for position in range(offset, offset + 8):
        byte = content[position]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, position + 1
    value = value << 8 | content[offset + 8]
    return (value - (1 << 64) if value >> 63 else value), offset + 9
