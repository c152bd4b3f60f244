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
from typing import TYPE_CHECKING, BinaryIO

import click

from integration.cli import config_option, exit_on_error, json_option, load_settings, print_json
from integration.cli.console import complete_exports, print_message
from integration.core.commands import COMMAND_LINE
from integration.core.errors import QueryError, StorageError
from integration.exports.formats import FORMATS
from integration.sqlite.readers import ReadOnlyDatabase

if TYPE_CHECKING:
    from integration.access.commands import AccessContext
    from integration.settings.model import Settings
    from integration.sqlite.database import Database

MAX_THREADS = 4
"""Maximum number of threads that compute a file; with more, one thread cannot write fast enough."""


@click.command("export")
@click.argument("name", metavar="RESOURCE", shell_complete=complete_exports)
@click.option(
    "--from", metavar="DATE", help="Only records from this time on (the collection's date property)."
)
@click.option("--to", metavar="DATE", help="Only records before this time.")
@click.option("--filter", metavar="JSON", help="Filter of the facade: [{property, operator, value}].")
@click.option("--columns", metavar="A,B,C", help="Only these columns, in this order.")
@click.option("--set", metavar="NAME", help="The columns of this shared column set.")
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
    "--separator",
    type=click.Choice([",", ";"]),
    default=",",
    show_default=True,
    help="CSV: separator of cells. With ';' numbers have a decimal comma, as Excel expects in most languages"
    " of Europe.",
)
@click.option(
    "--partition-by",
    "by_month",
    type=click.Choice(["month"]),
    help="Parquet: write a folder with one file per month (UTC). Unchanged months are skipped.",
)
@click.option(
    "--out",
    metavar="FILE",
    default="-",
    help="Output file. Default: '-', standard output. With --partition-by: a folder, or a URL of object"
    " storage, such as s3://bucket/calls.",
)
@click.option("--count", "only_count", is_flag=True, help="Print only the number of rows.")
@json_option
@config_option
@exit_on_error
def command(
    name: str,
    form: str,
    bom: bool,
    separator: str,
    by_month: str | None,
    out: str,
    only_count: bool,
    as_json: bool,
    config: Path | None,
    **parameters: str | None,
) -> None:
    """Export a collection or a ready-made export.

    RESOURCE is the path of a collection with / or _, such as cdrs or sms_cannedresponses, or a ready-made
    export: call-history, missed, cdr-details, recordings, voicemail, messages, notes,
    chat-messages."""
    if by_month and not FORMATS[form].has_month_sets:
        suffixes = " or ".join(entry.suffix for entry in FORMATS.values() if entry.has_month_sets)
        raise click.UsageError(f"--partition-by requires --format {suffixes}")
    if by_month and out == "-":
        raise click.UsageError("--partition-by requires --out FOLDER")
    if as_json and not only_count:
        raise click.UsageError("--json requires --count; records as JSON lines are --format jsonl.")
    # Imported here: `--help` needs none of these modules, and they take half a second on a small machine.
    from integration.exports import export_request
    from integration.exports.presets import PRESETS
    from integration.exports.query import count
    from integration.settings.values import is_url

    if is_url(out) and not by_month:
        raise click.UsageError("--out with a URL requires --format parquet --partition-by month")
    name = name.strip("/")
    try:
        context = _ReadOnlyContext(load_settings(config, needs_credentials=False))
        selection = export_request.build_selection(
            context, name, {key: text for key, text in parameters.items() if text}
        )
        record_export = partial(audit_export, context.settings, f"{selection.file_name}.{form}")
        if only_count:
            with context.mirror_db.read() as connection:
                row_count = count(connection, selection)
            if as_json:
                print_json({"export": export_request.canonical_name(name), "rows": row_count})
            else:
                print(row_count)
        elif by_month:
            from integration.exports.folders import open_folder
            from integration.exports.formats import parquet_months

            folder = open_folder(out)
            with context.mirror_db.read() as connection:
                record_export(count(connection, selection))
            for file in parquet_months.write_months(context.mirror_db.read, selection, folder):
                print_message(f"{file.month}  {file.rows} rows{'' if file.is_written else ', unchanged'}")
        else:
            processors = min(len(os.sched_getaffinity(0)), MAX_THREADS)
            chunks = export_request.open_chunks(
                context,
                selection,
                form,
                {"bom": "1" if bom else "", "separator": separator},
                threads=processors if processors > 1 else 0,
            )
            record_export(chunks.row_count)
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
        from integration.mirror.query import query

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


def audit_export(settings: Settings, export_name: str, rows: int) -> None:
    """Record the export in the audit log, through the writer.

    Called before the first byte of the export is written.
    """
    from integration.server.run_command import run_command_with

    entry = {
        "who": f"{COMMAND_LINE} ({_operating_system_user()})",
        "about": export_name,
        "result": f"{rows:,} rows",
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
def _open_audit(settings: Settings) -> Iterator[AccessContext]:
    """Open only house.db, because the audit record needs no other service.

    If `serve` runs, it records the export, and this process imports neither the schema nor the handler.
    """
    import integration.access.commands  # noqa: F401 – registers `export.record`
    from integration.app_schema import open_app_db

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
    from integration.core import atomic_files

    try:
        with atomic_files.open_atomic(Path(out)) as file:
            yield file
    except OSError as error:
        raise StorageError(f"The file {out} cannot be written: {error.strerror}.") from error
