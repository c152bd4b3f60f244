"""ZIP of recordings or voicemail messages, created while it is sent.

Content: `manifest.csv` with a row for every record of the filter, the name of its file and, in column
`missing`, the reason for a missing file; the files under these names; and `missing.csv` with the missing
files only, if there are any.
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

from integration.core import archive_paths
from integration.core.errors import QueryError
from integration.exports.columns import MEDIA_COLLECTIONS
from integration.exports.formats import csv
from integration.exports.formats.format import Format
from integration.exports.query import ChunkedFile, Column, build_export_query
from integration.exports.selection import OpenReader, Selection
from integration.mirror.sync_state.media_files import FILE_STATE_LABELS

CHUNK_BYTES = 1 << 18
"""Bytes read from a file per chunk."""
_ARCHIVE_PATH = re.compile(
    r"(recordings|voicemail|faxes|traces/(cdrs|msdrs))/([0-9]{4}/[0-9]{2}/[0-9]{2}|undated)/"
    r"[0-9]{1,19}\.(mp3|pdf|trace|pcap)"
)
"""Paths of the archive's files. No other file is opened (promise S13)."""


class ZipExport(ChunkedFile):
    """A ZIP in chunks.

    The constructor determines the content from one snapshot of the mirror and releases the snapshot before
    the first file is sent. A slow client keeps only three temporary files open. `row_count` is the number of
    records of the manifest. The constructor raises QueryError.
    """

    def __init__(self, read: OpenReader, selection: Selection, data_dir: Path) -> None:
        if selection.resource.collection not in MEDIA_COLLECTIONS:
            raise QueryError(
                f"{selection.name} cannot be exported as zip: only recordings and voicemail have audio files"
            )
        self.name = selection.file_name
        self._data_dir = data_dir
        with ExitStack() as stack:
            self._manifest, self._file_list, self._missing_list = (
                stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)
            )
            with read() as connection:
                connection.create_function("why_missing", 2, self._find_missing_reason)
                file_query = build_export_query(
                    connection, replace(selection, columns=("id", "file", "file_state"))
                )
                id_column, file_column, state_column = file_query.columns
                missing_column = Column(
                    "missing",
                    f"why_missing({file_column.sql}, {state_column.sql})",
                    "text",
                    words="Missing" if selection.has_word_headings else "",
                )
                export_query = build_export_query(connection, selection)
                self.row_count, first_rowid = export_query.count_rows(connection)
                export_query = replace(
                    export_query, columns=(*export_query.columns, missing_column), first_rowid=first_rowid
                )
                for chunk in csv.chunks(connection, export_query, bom=True):
                    self._manifest.write(chunk)
                for batch in replace(
                    file_query, columns=(id_column, file_column, missing_column)
                ).fetch_batches(connection):
                    self._file_list.writelines(json.dumps(row).encode() + b"\n" for row in batch)
            self._open_resources = stack.pop_all()
        self._chunks = self._zip_chunks()

    def _zip_chunks(self) -> Iterator[bytes]:
        self._manifest.seek(0)
        self._file_list.seek(0)
        self._missing_list.write(b'"id","file","reason"\r\n')
        is_complete = True
        sink = _ChunkBuffer()
        # Audio is compressed already.
        with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:
            yield from _add_file(archive, sink, "manifest.csv", self._manifest, time.gmtime())
            for line in self._file_list:
                record_id, path, reason = json.loads(line)
                if reason is None:
                    try:
                        with open_archived(self._data_dir, path) as file:
                            modified = time.gmtime(os.fstat(file.fileno()).st_mtime)
                            yield from _add_file(archive, sink, path, file, modified)
                    except FileNotFoundError as error:
                        # Deleted since the manifest was written. Any other error aborts the export.
                        reason = f"cannot be read ({error.strerror})"
                if reason is not None:
                    is_complete = False
                    cells = ",".join(csv.quote_cell(text) for text in (path or "", reason))
                    self._missing_list.write(f"{record_id},{cells}\r\n".encode())
            if not is_complete:
                self._missing_list.seek(0)
                yield from _add_file(archive, sink, "missing.csv", self._missing_list, time.gmtime())
        yield sink.take()

    def _find_missing_reason(self, path: str | None, state: str | None) -> str | None:
        if not path:
            return f"not in the archive ({FILE_STATE_LABELS.get(state or '', 'never requested').lower()})"
        try:
            open_archived(self._data_dir, path).close()
        except OSError as error:
            return f"cannot be read ({error.strerror})"
        return None


class _ChunkBuffer(io.RawIOBase):
    """Buffer between `ZipFile` and the chunks.

    It is not seekable, so `ZipFile` writes sequentially and puts sizes after the files.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        chunk = memoryview(data)  # type: ignore[arg-type]
        self._buffer += chunk
        return chunk.nbytes

    def take(self) -> bytes:
        content, self._buffer = bytes(self._buffer), bytearray()
        return content


def _add_file(
    archive: zipfile.ZipFile, sink: _ChunkBuffer, name: str, file: IO[bytes], modified: time.struct_time
) -> Iterator[bytes]:
    for _ in add_file(archive, name, file, modified):
        yield sink.take()


def add_file(
    archive: zipfile.ZipFile,
    name: str,
    file: IO[bytes],
    modified: time.struct_time,
    compression: int = zipfile.ZIP_STORED,
) -> Iterator[bytes]:
    """Add a file to a ZIP and yield each chunk after it was written."""
    # ZIP cannot store years before 1980.
    entry = zipfile.ZipInfo(name, date_time=max(modified[:6], (1980, 1, 1, 0, 0, 0)))
    entry.external_attr, entry.compress_type = 0o600 << 16, compression
    with archive.open(entry, "w", force_zip64=False) as entry_file:
        while chunk := file.read(CHUNK_BYTES):
            entry_file.write(chunk)
            yield chunk


def open_archived(data_dir: Path, path: str) -> BinaryIO:
    """Open a file of the archive. Raises OSError, also for a path that leads elsewhere."""
    if not _ARCHIVE_PATH.fullmatch(path) or archive_paths.leads_out(data_dir, path):
        raise OSError(22, "not a file of the archive")
    return os.fdopen(os.open(data_dir / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")


FORMAT = Format(
    suffix="zip",
    mime="application/zip",
    label="ZIP with audio",
    hint="The audio files with a list",
    stream=lambda read, selection, options: ZipExport(read, selection, options.data_dir),
    order=50,
    right="recordings",
    for_media=True,
)
