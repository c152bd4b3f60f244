"""A ZIP of the recordings (or voice messages) of a filter, with a manifest, made while it is sent.

Inside: `manifest.csv`, a row for every record of the filter with the name of its file and, in the column
`missing`, why there is none; the files under these names; and, where some are missing, `missing.csv` with
these alone.
"""

from __future__ import annotations

import io
import json
import os
import re
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, BinaryIO

from integration.core.errors import QueryError
from integration.exports.columns import FILES
from integration.exports.formats import csv
from integration.exports.query import Chunked, Column, sheet_of
from integration.exports.selection import Reader, Selection

PIECE = 1 << 18
_PLACE = re.compile(r"(recordings|voicemail)/([0-9]{4}/[0-9]{2}/[0-9]{2}|undated)/[0-9]{1,19}\.mp3")
"""What the archive names its files; nothing else is opened (promise S13)."""


class Archive(Chunked):
    """The ZIP in chunks. What it holds is settled when it is made, from one view of the mirror that is given
    back before the first file is sent: a slow reader of gigabytes keeps nothing open but two temporary files.

    `rows` is how many records the manifest has. Raises QueryError when made.
    """

    def __init__(self, read: Reader, selection: Selection, data_dir: Path) -> None:
        if selection.resource.collection not in FILES:
            raise QueryError("only recordings and voicemail can be exported as a ZIP")
        self.name = selection.name
        self._data_dir = data_dir
        with ExitStack() as kept:
            self._manifest, self._listed, self._missing = (
                kept.enter_context(tempfile.TemporaryFile()) for _ in range(3)
            )
            with read() as connection:
                connection.create_function("why_missing", 2, self._why_missing)
                files = sheet_of(connection, replace(selection, columns=("id", "file", "file_state")))
                number, file, state = files.columns
                missing = Column("missing", f"why_missing({file.sql}, {state.sql})", "text")
                sheet = sheet_of(connection, selection)
                self.rows, first = sheet.extent(connection)
                sheet = replace(sheet, columns=(*sheet.columns, missing), first=first)
                for chunk in csv.chunks(connection, sheet, bom=True):
                    self._manifest.write(chunk)
                for batch in replace(files, columns=(number, file, missing)).rows(connection):
                    self._listed.writelines(json.dumps(row).encode() + b"\n" for row in batch)
            self._held = kept.pop_all()
        self._chunks = self._zipped()

    def _zipped(self) -> Iterator[bytes]:
        self._manifest.seek(0)
        self._listed.seek(0)
        self._missing.write(b'"id","file","reason"\r\n')
        whole = True
        sink = _Sink()
        # Audio is compressed already.
        with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:
            yield from _added(archive, sink, "manifest.csv", self._manifest, time.gmtime())
            for line in self._listed:
                number, path, reason = json.loads(line)
                if reason is None:
                    try:
                        with _opened(self._data_dir, path) as file:
                            written = time.gmtime(os.fstat(file.fileno()).st_mtime)
                            yield from _added(archive, sink, path, file, written)
                    except FileNotFoundError as error:
                        # Deleted since the manifest was made. Any other fault breaks the archive off.
                        reason = f"can't be read ({error.strerror})"
                if reason is not None:
                    whole = False
                    cells = ",".join(csv.quoted(text) for text in (path or "", reason))
                    self._missing.write(f"{number},{cells}\r\n".encode())
            if not whole:
                self._missing.seek(0)
                yield from _added(archive, sink, "missing.csv", self._missing, time.gmtime())
        yield sink.taken()

    def _why_missing(self, path: str | None, state: str | None) -> str | None:
        if not path:
            return f"not in the archive ({state or 'never asked for'})"
        try:
            _opened(self._data_dir, path).close()
        except OSError as error:
            return f"can't be read ({error.strerror})"
        return None


class _Sink(io.RawIOBase):
    """Takes what is written until somebody fetches it. It can't be sought, so that the ZIP is written in one
    go, sizes behind their files."""

    def __init__(self) -> None:
        self._held = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        piece = memoryview(data)  # type: ignore[arg-type]
        self._held += piece
        return piece.nbytes

    def taken(self) -> bytes:
        held, self._held = bytes(self._held), bytearray()
        return held


def _added(
    archive: zipfile.ZipFile, sink: _Sink, name: str, file: IO[bytes], written: time.struct_time
) -> Iterator[bytes]:
    # A ZIP knows no year before 1980.
    entry = zipfile.ZipInfo(name, date_time=max(written[:6], (1980, 1, 1, 0, 0, 0)))
    entry.external_attr = 0o600 << 16
    with archive.open(entry, "w", force_zip64=False) as inside:
        while piece := file.read(PIECE):
            inside.write(piece)
            yield sink.taken()


def _opened(data_dir: Path, path: str) -> BinaryIO:
    if not _PLACE.fullmatch(path):
        raise OSError(22, "not a file of the archive")
    return os.fdopen(os.open(data_dir / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")
