"""Digest: a page about the calls of a period, for schedules only. `ExportRunner.write_digest` writes it."""

from __future__ import annotations

from typing import NoReturn

from integration.core.errors import QueryError
from integration.exports.formats.format import Format, StreamOptions
from integration.exports.selection import OpenReader, Selection


def _refuse(_open_reader: OpenReader, _selection: Selection, _options: StreamOptions) -> NoReturn:
    raise QueryError("A digest is sent by a schedule. Choose another format.")


FORMAT = Format(
    suffix="html",
    mime="text/html; charset=utf-8",
    label="Digest",
    hint="A page in words",
    stream=_refuse,
    order=60,
)
