"""`switchroom export RESOURCE`: from the mirror, beside a running serve."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

import click

from integration import settings as settings_module
from integration.catalogue import UnknownResource, resource
from integration.cli import config_option, guarded
from integration.errors import QueryError, StorageError
from integration.exports import csv, jsonl, parquet, xlsx
from integration.exports.presets import PRESETS
from integration.exports.selection import Selection, select, select_preset
from integration.exports.zip import Archive
from integration.house import setup_links
from integration.mirror import query
from integration.mirror.masking import hidden_of
from integration.settings import Settings


@click.command("export")
@click.argument("name", metavar="RESOURCE")
@click.option(
    "--from", "since", metavar="DATE", help="Only from this time on (the collection's date property)."
)
@click.option("--to", "until", metavar="DATE", help="Only before this time.")
@click.option(
    "--filter", "conditions", metavar="JSON", help="The facade's filter: [{property, operator, value}]."
)
@click.option("--columns", metavar="A,B,C", help="Only these fields, in this order (CSV).")
@click.option("--tz", metavar="ZONE", help="Times in this zone, such as Europe/London, instead of UTC (CSV).")
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "xlsx", "parquet", "jsonl", "zip"]),
    default="csv",
    show_default=True,
    help="Form of the file.",
)
@click.option("--bom", is_flag=True, help="Begin the CSV with a byte order mark, for Excel.")
@click.option(
    "--partition-by",
    "by_month",
    type=click.Choice(["month"]),
    help="Parquet: write a folder with a part for each month (UTC) instead of one file.",
)
@click.option(
    "--out", metavar="FILE", default="-", help="Where to write; '-' is standard output, the default."
)
@config_option
@guarded
def command(
    name: str,
    since: str | None,
    until: str | None,
    conditions: str | None,
    columns: str | None,
    tz: str | None,
    form: str,
    bom: bool,
    by_month: str | None,
    out: str,
    config: Path | None,
) -> None:
    """Export a collection, named by its path with / or _, such as cdrs or sms_cannedresponses; or a
    ready-made export: call-history, missed, recordings, voicemail, messages."""
    if by_month and form != "parquet":
        raise click.UsageError("--partition-by is for --format parquet")
    given = {"from": since, "to": until, "filter": conditions, "columns": columns, "tz": tz}
    try:
        settings = settings_module.load(config, os.environ)
        selection = _selection(name.strip("/"), {key: text for key, text in given.items() if text}, settings)
        with closing(_open(settings.storage.data_dir / "mirror.db")) as connection:
            connection.execute("BEGIN")
            chunks: Iterator[bytes]
            if form == "jsonl":
                chunks = jsonl.stream(lambda: nullcontext(connection), selection)
            elif form == "zip":
                chunks = Archive(lambda: nullcontext(connection), selection, settings.storage.data_dir)
            elif form == "parquet" and by_month:
                if out == "-":
                    raise click.UsageError("--partition-by needs --out FOLDER")
                months = parquet.write_months(lambda: nullcontext(connection), selection, Path(out))
                for month, count in sorted(months.items()):
                    print(f"{month}  {count} rows", file=sys.stderr)
                return
            elif form == "parquet":
                chunks = parquet.stream(lambda: nullcontext(connection), selection)
            elif form == "xlsx":
                chunks = xlsx.stream(lambda: nullcontext(connection), selection)
            else:
                chunks = csv.stream(lambda: nullcontext(connection), selection, bom=bom)
            with _sink(out) as sink:
                for chunk in chunks:
                    sink.write(chunk)
    except QueryError as error:
        raise click.UsageError(str(error)) from None


def _selection(name: str, given: Mapping[str, str], settings: Settings) -> Selection:
    preset = PRESETS.get(name)
    if preset is not None:
        zone, base = settings.dashboard.timezone, setup_links.base_url(settings)
        hidden = hidden_of(preset.resource)
        return select_preset(preset, given, timezone=zone, base=base, hidden=hidden)
    try:
        chosen = resource(name)
    except UnknownResource as error:
        raise click.UsageError(f"{error}; ready-made exports are {', '.join(PRESETS)}") from None
    if not chosen.listed:
        raise click.UsageError(f"{name} can't be listed, so there is nothing to export")
    return select(chosen, given, hidden_of(chosen))


def _open(mirror: Path) -> sqlite3.Connection:
    if not mirror.exists():
        raise StorageError(f"{mirror} does not exist yet: run `switchroom sync` or `switchroom serve` first")
    connection = sqlite3.connect(f"{mirror.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA busy_timeout=5000")
    query.register(connection)
    return connection


@contextmanager
def _sink(out: str) -> Iterator[BinaryIO]:
    """Standard output, or a file that appears under its name only when it is whole."""
    if out == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(out)
    part = target.with_name(f".{target.name}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except OSError as error:
        raise StorageError(f"{target}: can't be written ({error.strerror})") from error
    finally:
        part.unlink(missing_ok=True)
