"""JSON Lines: each record as the platform sent it, one per line."""

from __future__ import annotations

from collections.abc import Iterator

from integration.exports.selection import Reader, Selection
from integration.mirror.masking import has_secrets, masked

LINES = 2000


def stream(read: Reader, selection: Selection, *, lines: int = LINES) -> Iterator[bytes]:
    """The file in chunks. Columns and zone are CSV's; a record is never cut. Raises QueryError at once."""
    question, resource = selection.question, selection.resource
    with read() as connection:
        binder = question.binder(connection)
        where, table = question.where(binder), f'"{resource.table}"'
        order = "rowid"
        if question.sort is not None:
            direction = "DESC" if question.descending else "ASC"
            order = f"{binder.expression(question.sort, 'sort')} {direction}, rowid"
        sql = f"SELECT CAST(_doc AS BLOB) FROM {table} WHERE {where} ORDER BY {order}"
    values = dict(binder.values)
    secret = has_secrets(resource)

    def chunks() -> Iterator[bytes]:
        with read() as connection:
            cursor = connection.execute(sql, values)
            while rows := cursor.fetchmany(lines):
                yield b"".join((masked(row[0]) if secret else row[0]) + b"\n" for row in rows)

    return chunks()
