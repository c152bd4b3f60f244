"""Exports opened by LibreOffice, headless: phone numbers survive, dates and durations are real ones, and
nothing that somebody wrote into a field is run as a formula.

Needs Debian's `libreoffice-calc-nogui`; where it is missing the trial says so and does not pass. `--seed-bug`
takes the guard out of the CSV: the trial must find that.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from integration.catalogue import get_resource
from integration.core.json_records import read_record
from integration.exports.formats import csv, xlsx
from integration.exports.selection import select
from integration.mirror.records.upsert import upsert
from integration.mirror.schema import open_mirror

NOT_RUN = 3
INSTALL = "apt-get install --no-install-recommends libreoffice-calc-nogui"
PHONES = ("+442079460001", "00442079460001", "442079460001", "02079460001", "007", "+12025550123")
FORMULAS = (
    "=1+1", "@SUM(1;2)", "-2+3", "+1+1", "\t=1+1", "\r=1+1", "\n=1+1", " =1+1", "\u200f=1+1", "\ufeff=1+1",
    "\uff1d1+1", "\uff0b1+1", "\uff0d1+1", "\uff20SUM(1)", '=HYPERLINK("http://example.com";"x")', "'=1+1",
    '=WEBSERVICE("http://example.com")', "a\x00=1+1", '";=1+1;"', '"\r\n=1+1', "=cmd|'/C calc'!A0",
)  # fmt: skip
TEXTS = (
    'say "hi", ok',
    "a;b\tc",
    "two\nlines",
    "Zoë 中文 🎉",
    "1e5",
    "2026-07-01",
    "1/2",
    "TRUE",
    "\u202egnp",
)
AS_TEXT = "CSV:44,34,UTF8,1,,0,true"
"""Comma, quotes, UTF-8, from line 1, “format quoted field as text”: the tick in LibreOffice's dialogue."""
_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"


@dataclass(frozen=True, slots=True)
class Cell:
    """`kind` is LibreOffice's value type ('string', 'float', 'date', 'time' or ''), `said` what it shows,
    `value` its own value where it is no text."""

    kind: str
    said: str
    value: str
    formula: str | None


def make(folder: Path) -> list[str]:
    """The files, and the texts in them in their order."""
    texts = [*PHONES, *FORMULAS, *TEXTS]
    mirror = open_mirror(folder / "mirror.db")
    documents = [
        read_record(
            json.dumps({"id": at, "calldate": "2026-07-01 09:15:30", "duration": 90_061, "src_name": text})
        )
        for at, text in enumerate(texts, 1)
    ]
    mirror.write(
        lambda tx: upsert(
            tx, get_resource("cdrs"), documents, source="sync", requested_at="2026-07-01 00:00:00"
        )
    )
    asked = {"columns": "src_name,calldate,calldate_local,duration,duration_hms", "tz": "Europe/London"}
    chosen = select(get_resource("cdrs"), asked)
    (folder / "calls.csv").write_bytes(b"".join(csv.stream(mirror.read, chosen, bom=True)))
    (folder / "calls.xlsx").write_bytes(b"".join(xlsx.stream(mirror.read, chosen)))
    mirror.close()
    return texts


def opened(office: str, folder: Path, name: str, infilter: str | None = None) -> list[list[Cell]]:
    """The first sheet's rows as LibreOffice has them, its header left out."""
    out = folder / f"{name}-{'as-text' if infilter else 'plain'}"
    profile = f"-env:UserInstallation=file://{folder / 'profile'}"
    filters = [f"--infilter={infilter}"] if infilter else []
    done = subprocess.run(
        [
            office,
            profile,
            "--headless",
            *filters,
            "--convert-to",
            "fods",
            "--outdir",
            str(out),
            str(folder / name),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    (found,) = out.glob("*.fods") if out.is_dir() else (None,)
    if found is None:
        raise RuntimeError(f"LibreOffice could not open {name}: {done.stdout} {done.stderr}")
    sheet = ET.parse(found).getroot().find(f".//{_TABLE}table")
    assert sheet is not None
    rows = [list(_cells(row)) for row in sheet.iter(f"{_TABLE}table-row")][1:]
    return [row for row in rows if any(cell.kind for cell in row)]


def _cells(row: ET.Element) -> Iterator[Cell]:
    for cell in row.iter(f"{_TABLE}table-cell"):
        value = next((text for key, text in cell.attrib.items() if key.endswith("-value")), "")
        lines = ["".join(line.itertext()) for line in cell.iter(f"{_TEXT}p")]
        one = Cell(
            cell.get(f"{_OFFICE}value-type", ""),
            "\n".join(lines),
            cell.get(f"{_OFFICE}value", value),
            cell.get(f"{_TABLE}formula"),
        )
        for _ in range(min(int(cell.get(f"{_TABLE}number-columns-repeated", "1")), 8)):
            yield one


def check(office: str, folder: Path) -> list[str]:
    """What is wrong; nothing where all is well."""
    texts = make(folder)
    wrong = []
    for name, infilter in (("calls.xlsx", None), ("calls.csv", AS_TEXT), ("calls.csv", None)):
        rows = opened(office, folder, name, infilter)
        way = f"{name}{' as text' if infilter else ''}"
        if len(rows) < len(texts):
            wrong.append(f"{way}: {len(rows)} rows instead of {len(texts)}")
        for text, row in zip(texts, rows, strict=False):
            cell = row[0]
            if cell.formula is not None or cell.said.startswith(("Err:", "#")):
                wrong.append(f"{way}: {text!r} is run as {cell.formula!r}")
            if (
                text in PHONES
                and (name.endswith("xlsx") or infilter)
                and ((cell.kind, cell.said) != ("string", text))
            ):
                wrong.append(f"{way}: the phone number {text} reads {cell.said!r} ({cell.kind})")
        if name.endswith("xlsx"):
            _, at, local, seconds, length = rows[0][:5]
            found = [(at.kind, at.value), (local.kind, local.value), (length.kind, length.value)]
            moment = ("date", "2026-07-01T10:15:30")
            if (found, seconds.value) != ([moment, moment, ("time", "PT25H01M01S")], "90061"):
                wrong.append(f"{way}: times and durations are {found}")
        print(f"  {way:20} {len(rows)} rows, phone numbers {[row[0].said for row in rows[: len(PHONES)]]}")
    return wrong


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials libreoffice", description=__doc__)
    parser.add_argument("--seed-bug", action="store_true", help="export without the guard")
    options = parser.parse_args(arguments)
    office = shutil.which("soffice") or shutil.which("libreoffice")
    if office is None:
        print(f"libreoffice: NOT RUN: LibreOffice is not installed ({INSTALL})", file=sys.stderr)
        return NOT_RUN
    kept = csv._guard_formula
    if options.seed_bug:
        csv._guard_formula = lambda cell, starts_with_digit: f"coalesce({cell}, '')"
    try:
        with tempfile.TemporaryDirectory(prefix="switchroom-office-") as folder:
            wrong = check(office, Path(folder))
    finally:
        csv._guard_formula = kept
    for line in wrong:
        print(f"  {line}")
    print(f"libreoffice: {'found' if wrong else 'no'} fault{'s' if len(wrong) != 1 else ''}")
    return int(bool(wrong) != options.seed_bug)
