"""Data sets of Parquet files, one folder per UTC month.

A file has a hash of its rows in its metadata. A later run writes only months whose rows have another hash:
those with late, changed, deleted or erased records. No other state is needed, so a missing or damaged file is
written too.
"""

from __future__ import annotations

import fnmatch
import hashlib
import marshal
import sqlite3
import tempfile
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from integration.core.errors import QueryError, StorageError
from integration.exports.folders import Folder
from integration.exports.formats import parquet
from integration.exports.query import ExportQuery, build_export_query
from integration.exports.selection import OpenReader, Selection

UNDATED = "undated"
FILE_NAME = "part-0.parquet"
CONTENT_KEY = b"switchroom.content"
"""Name of the hash in the metadata of a file."""
_HASH_VERSION = b"1"
"""Part of each hash. Another value makes every file a changed one."""
_MARSHAL_VERSION = 2
"""Format of `marshal` without references, which would depend on the identity of equal objects."""


@dataclass(frozen=True, slots=True)
class MonthFile:
    """File of one month.

    `is_written` is False if its rows have not changed; `size`, in bytes, is then 0.
    """

    month: str
    rows: int
    size: int
    is_written: bool


def write_months(
    read: OpenReader,
    selection: Selection,
    folder: Folder,
    *,
    excluded_months: Collection[str] = (),
    spool_folder: Path | None = None,
) -> list[MonthFile]:
    """Write `folder/month=YYYY-MM/part-0.parquet` for every changed month of the selection.

    Each file is one moment of the mirror. It is written to `spool_folder` first, so that a slow target does
    not keep the moment open. `excluded_months` and months outside the selection keep their files.

    Raises QueryError for records without a date, and StorageError.
    """
    parquet.import_pyarrow()
    files = []
    for month in list_months(read, selection):
        if month in excluded_months:
            continue
        name = f"month={month}/{FILE_NAME}"
        with tempfile.TemporaryFile(dir=spool_folder) as spool:
            with read() as connection:
                query = _limit_to_month(build_export_query(connection, selection), selection, month)
                content, row_count = _hash_rows(connection, query)
                is_changed = content != read_content_hash(folder, name)
                if is_changed:
                    parquet.write(connection, query, spool, metadata={CONTENT_KEY: content})
            if is_changed:
                try:
                    folder.write_file(name, spool)
                except OSError as error:
                    raise StorageError(
                        f"The file {folder}/{name} cannot be written: {error.strerror or error}."
                    ) from error
            files.append(MonthFile(month, row_count, spool.tell(), is_changed))
    return files


def list_months(read: OpenReader, selection: Selection) -> list[str]:
    """Return the months of the selection in order.

    Raises QueryError for records without a date.
    """
    with read() as connection:
        query = build_export_query(connection, selection)
        sql = f"SELECT DISTINCT {_build_month_sql(selection)} FROM {query.table} WHERE {query.where}"
        return sorted(month or UNDATED for (month,) in connection.execute(sql, query.values).fetchall())


def remove_other_months(folder: Folder, months: Collection[str]) -> list[str]:
    """Remove the files of months that are not in `months`.

    Returns these months. Files that `write_months` did not write stay. Raises StorageError.
    """
    removed = []
    try:
        for name in sorted(fnmatch.filter(folder.list_files(), f"month=*/{FILE_NAME}")):
            month = name.removeprefix("month=").removesuffix(f"/{FILE_NAME}")
            if month not in months and read_content_hash(folder, name) is not None:
                folder.remove_file(name)
                removed.append(month)
    except OSError as error:
        raise StorageError(
            f"The files of months without records in {folder} cannot be removed: {error.strerror or error}."
        ) from error
    return removed


def read_content_hash(folder: Folder, name: str) -> bytes | None:
    """Return the hash of the rows of a file.

    None for a missing, damaged or other file.
    """
    arrow = parquet.import_pyarrow()
    from pyarrow.parquet import read_metadata

    try:
        with folder.open_file(name) as file:
            metadata = read_metadata(file).metadata or {}  # type: ignore[no-untyped-call]
    except (OSError, arrow.ArrowInvalid):
        return None
    content: bytes | None = metadata.get(CONTENT_KEY)
    return content


def _hash_rows(connection: sqlite3.Connection, query: ExportQuery) -> tuple[bytes, int]:
    columns = [(column.heading, column.kind) for column in query.columns]
    description = (columns, query.zone and query.zone.key, query.local_zone.key)
    digest = hashlib.sha256(_HASH_VERSION + repr(description).encode())
    row_count = 0
    for batch in query.fetch_batches(connection):
        digest.update(marshal.dumps(batch, _MARSHAL_VERSION))
        row_count += len(batch)
    return digest.hexdigest().encode(), row_count


def _build_month_sql(selection: Selection) -> str:
    date = selection.resource.date
    if date is None:
        raise QueryError(f"partition-by: {selection.name} has no date property. Omit --partition-by.")
    return f'CASE WHEN "{date}" GLOB \'[0-9][0-9][0-9][0-9]-[01][0-9]-*\' THEN substr("{date}", 1, 7) END'


def _limit_to_month(query: ExportQuery, selection: Selection, month: str) -> ExportQuery:
    value = None if month == UNDATED else month
    condition = f"{_build_month_sql(selection)} IS :month"
    if value is not None:
        # Another form of the same condition, for the index of the date.
        condition += (
            f' AND "{selection.resource.date}" >= :month AND "{selection.resource.date}" < :month || \'~\''
        )
    return replace(query, where=f"({query.where}) AND {condition}", values={**query.values, "month": value})
