"""Trial of exports in LibreOffice."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from integration.catalogue import get_resource
from integration.core.json_records import read_record
from integration.exports.formats import csv, xlsx
from integration.exports.selection import select
from integration.mirror.records.upsert import upsert
from integration.mirror.schema import open_mirror
from tests.trials.long_form import NOT_RUN, LongForm
from tests.trials.trial import Trial

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
"""Comma, quotes, UTF-8, from line 1, “format quoted field as text”: the check box in LibreOffice's dialog."""
_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell as LibreOffice reads it.

    `kind` is its value type: 'string', 'float', 'date', 'time' or ''.
    """

    kind: str
    text: str
    value: str
    formula: str | None


class LibreOffice(Trial):
    """In LibreOffice exports keep phone numbers and dates, and run no formula.

    Disturbed: names of callers are formulas and text that a spreadsheet converts. Requires LibreOffice.
    Checked: each cell of a CSV and an XLSX file as LibreOffice reads it.
    Detects: a CSV file in which formulas are not guarded.
    """

    name = "libreoffice"
    bugs, symptoms = ("export_formulas",), ("is run as",)
    short = ()
    long = LongForm(
        promises=("S17",),
        rounds=("",),
        minutes=2,
        remains="",
        expectation="by hand",
    )

    @classmethod
    def main(cls, arguments: Sequence[str]) -> int:
        if not (shutil.which("soffice") or shutil.which("libreoffice")):
            print(f"libreoffice: NOT RUN: LibreOffice is not installed ({INSTALL})", file=sys.stderr)
            return NOT_RUN
        return super().main(arguments)

    def boot(self) -> None:
        self.plant()
        self.office = str(shutil.which("soffice") or shutil.which("libreoffice"))

    def load(self) -> None:
        """Export texts as CSV and XLSX."""
        self.texts = [*PHONES, *FORMULAS, *TEXTS]
        mirror = open_mirror(self.folder / "mirror.db")
        values = {"calldate": "2026-07-01 09:15:30", "duration": 90_061}
        records = [
            read_record(json.dumps({"id": at, **values, "src_name": text}))
            for at, text in enumerate(self.texts, 1)
        ]
        cdrs, requested_at = get_resource("cdrs"), "2026-07-01 00:00:00"
        mirror.write(lambda tx: upsert(tx, cdrs, records, source="sync", requested_at=requested_at))
        columns = {"columns": "src_name,calldate,calldate_local,duration,duration_hms", "tz": "Europe/London"}
        selection = select(cdrs, columns)
        csv_chunks = csv.stream(mirror.read, selection, bom=True)
        (self.folder / "calls.csv").write_bytes(b"".join(csv_chunks))
        (self.folder / "calls.xlsx").write_bytes(b"".join(xlsx.stream(mirror.read, selection)))
        mirror.close()

    def check(self) -> None:
        for name, infilter in (("calls.xlsx", None), ("calls.csv", AS_TEXT), ("calls.csv", None)):
            rows = self._open(name, infilter)
            way = f"{name}{' as text' if infilter else ''}"
            expected = len(self.texts)
            self.verify(len(rows) >= expected, f"{way} has {expected} rows, not {len(rows)}")
            for text, row in zip(self.texts, rows, strict=False):
                cell = row[0]
                is_run = cell.formula is not None or cell.text.startswith(("Err:", "#"))
                self.verify(not is_run, f"{way}: {text!r} is run as {cell.formula!r}")
                if text in PHONES and (name.endswith("xlsx") or infilter):
                    kept = (cell.kind, cell.text) == ("string", text)
                    self.verify(kept, f"{way}: the phone number {text} is {cell.text!r} ({cell.kind})")
            if name.endswith("xlsx"):
                self._check_times(rows[0])
            phones = [row[0].text for row in rows[: len(PHONES)]]
            self.figures.append(f"{way}: {len(rows)} rows, phone numbers {phones}")

    def _check_times(self, row: list[Cell]) -> None:
        _, at, local, seconds, length = row[:5]
        moment = ("date", "2026-07-01T10:15:30")
        found = [(at.kind, at.value), (local.kind, local.value), (length.kind, length.value)]
        are_right = (found, seconds.value) == ([moment, moment, ("time", "PT25H01M01S")], "90061")
        self.verify(are_right, f"calls.xlsx: times and durations are {found}")

    def _open(self, name: str, infilter: str | None = None) -> list[list[Cell]]:
        """Return the rows below the header, as LibreOffice reads them."""
        out = self.folder / f"{name}-{'as-text' if infilter else 'plain'}"
        profile = f"-env:UserInstallation=file://{self.folder / 'profile'}"
        filters = [f"--infilter={infilter}"] if infilter else []
        target = ["--convert-to", "fods", "--outdir", str(out), str(self.folder / name)]
        done = subprocess.run(
            [self.office, profile, "--headless", *filters, *target],
            capture_output=True,
            text=True,
            timeout=300,
        )
        (found,) = out.glob("*.fods") if out.is_dir() else (None,)
        if found is None:
            raise RuntimeError(f"LibreOffice cannot open {name}: {done.stdout} {done.stderr}")
        sheet = ET.parse(found).getroot().find(f".//{_TABLE}table")
        assert sheet is not None
        rows = [list(_read_cells(row)) for row in sheet.iter(f"{_TABLE}table-row")][1:]
        return [row for row in rows if any(cell.kind for cell in row)]


def _read_cells(row: ET.Element) -> Iterator[Cell]:
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
