"""Command `switchroom export RESOURCE`: export from the mirror; `serve` may run."""

from __future__ import annotations

import os
import pwd
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

import click

from integration.access import commands as access_commands
from integration.app_schema import open_app_db
from integration.cli import config_option, exit_on_error
from integration.core import atomic_files
from integration.core.errors import QueryError, StorageError
from integration.exports import export_request
from integration.exports.formats import FORMATS
from integration.exports.presets import PRESETS
from integration.exports.query import count
from integration.mirror.query import query
from integration.server.run_command import run_command_with
from integration.settings import model as settings_module
from integration.settings.model import Settings
from integration.sqlite.database import Database
from integration.sqlite.readers import ReadOnlyDatabase


@click.command("export")
@click.argument("name", metavar="RESOURCE")
@click.option(
    "--from", "since", metavar="DATE", help="Only records from this time on (the collection's date property)."
)
@click.option("--to", "until", metavar="DATE", help="Only records before this time.")
@click.option(
    "--filter", "conditions", metavar="JSON", help="Filter of the facade: [{property, operator, value}]."
)
@click.option("--columns", metavar="A,B,C", help="Only these columns, in this order.")
@click.option("--set", "column_set", metavar="NAME", help="The columns of this shared column set.")
@click.option("--tz", metavar="ZONE", help="Time zone of times, such as Europe/London. Default: UTC.")
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    default="csv",
    show_default=True,
    help="File format.",
)
@click.option("--bom", is_flag=True, help="CSV: begin with a byte order mark, for Excel.")
@click.option(
    "--partition-by",
    "by_month",
    type=click.Choice(["month"]),
    help="Parquet: write a folder with one file per month (UTC) instead of one file.",
)
@click.option("--out", metavar="FILE", default="-", help="Output file. Default: '-', standard output.")
@click.option("--count", "only_count", is_flag=True, help="Print only the number of rows.")
@config_option
@exit_on_error
def command(
    name: str,
    since: str | None,
    until: str | None,
    conditions: str | None,
    columns: str | None,
    column_set: str | None,
    tz: str | None,
    form: str,
    bom: bool,
    by_month: str | None,
    out: str,
    only_count: bool,
    config: Path | None,
) -> None:
    """Export a collection or a ready-made export.

    RESOURCE is the path of a collection with / or _, such as cdrs or sms_cannedresponses, or a ready-made
    export: call-history, missed, cdr-details, recordings, voicemail, messages, notes,
    chat-messages."""
    write_months = FORMATS[form].write_months
    if by_month and write_months is None:
        suffixes = " or ".join(entry.suffix for entry in FORMATS.values() if entry.write_months)
        raise click.UsageError(f"--partition-by requires --format {suffixes}")
    if by_month and out == "-":
        raise click.UsageError("--partition-by requires --out FOLDER")
    parameters = {
        "from": since,
        "to": until,
        "filter": conditions,
        "columns": columns,
        "set": column_set,
        "tz": tz,
        "bom": "1" if bom else None,
    }
    name = name.strip("/")
    try:
        context = _ReadOnlyContext(settings_module.load(config, os.environ))
        selection = export_request.build_selection(
            context, name, {key: text for key, text in parameters.items() if text}
        )
        audit_export = partial(
            _audit_export, context.settings, f"{export_request.canonical_name(name)}.{form}"
        )
        if only_count:
            with context.mirror_db.read() as connection:
                print(count(connection, selection))
        elif by_month and write_months is not None:
            with context.mirror_db.read() as connection:
                audit_export(count(connection, selection))
            months = write_months(context.mirror_db.read, selection, Path(out))
            for month, rows in sorted(months.items()):
                print(f"{month}  {rows} rows", file=sys.stderr)
        else:
            chunks = export_request.open_chunks(context, selection, form, {"bom": parameters["bom"] or ""})
            audit_export(chunks.row_count)
            with _open_output(out) as output:
                for chunk in chunks:
                    output.write(chunk)
    except export_request.UnknownExport as error:
        raise click.UsageError(f"{error} Ready-made exports are {', '.join(PRESETS)}.") from None
    except QueryError as error:
        raise click.UsageError(str(error)) from None


class _MirrorReader(ReadOnlyDatabase):
    @contextmanager
    def read(self, seconds: float | None = None) -> Iterator[sqlite3.Connection]:
        if not self.exists:
            raise StorageError(
                f"{self.path} does not exist yet. Run `switchroom sync` or `switchroom serve` first."
            )
        with super().read(seconds) as connection:
            query.register(connection)
            yield connection


@dataclass(frozen=True, slots=True)
class _ReadOnlyContext:
    """Settings and databases of a command that only reads."""

    settings: Settings

    @property
    def mirror_db(self) -> ReadOnlyDatabase:
        return _MirrorReader(self.settings.storage.data_dir / "mirror.db")

    @property
    def app_db(self) -> ReadOnlyDatabase:
        return ReadOnlyDatabase(self.settings.storage.data_dir / "house.db")


def _audit_export(settings: Settings, export_name: str, rows: int) -> None:
    """Record the export in the audit log, through the writer.

    Called before the first byte of the export is written.
    """
    entry = {
        "who": f"{access_commands.ACTOR} ({_operating_system_user()})",
        "about": export_name,
        "result": f"{rows} rows",
    }
    run_command_with(
        settings.storage.data_dir, "export.record", entry, lambda: _open_audit(settings), _ignore, _ignore
    )


def _ignore(_: object) -> None:
    """Discard progress and notices, because recording takes milliseconds."""


@dataclass(frozen=True, slots=True)
class _AuditContext:
    settings: Settings
    app_db: Database


@contextmanager
def _open_audit(settings: Settings) -> Iterator[access_commands.AccessContext]:
    """Open only house.db, because the audit record needs no other service."""
    app_db = open_app_db(settings.storage.data_dir / "house.db")
    try:
        yield _AuditContext(settings, app_db)
    finally:
        app_db.close()


def _operating_system_user() -> str:
    """Return the operating system user, with the sudo user if they differ."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = str(os.getuid())
    sudo_user = os.environ.get("SUDO_USER")
    return f"{sudo_user} as {name}" if sudo_user and sudo_user != name else name


@contextmanager
def _open_output(out: str) -> Iterator[BinaryIO]:
    """Open standard output, or a file that is written atomically.

    The file gets its name only after it is complete.
    """
    if out == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with atomic_files.open_atomic(Path(out)) as file:
            yield file
    except OSError as error:
        raise StorageError(f"The file {out} cannot be written: {error.strerror}.") from error
