"""ZIP with all data of one telephone number, for the person who has it.

Content: `index.html` for reading, `records/<kind>.csv` and `.jsonl` with one line for each entry that an
erasure counts, the archived files, and `manifest.json` with the counts and the sha256 of every file. Data
under legal hold is included.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import sqlite3
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any
from zoneinfo import ZoneInfo

import jinja2

from integration import __version__
from integration.catalogue import get_resource
from integration.catalogue.events import EVENT_FIELDS
from integration.catalogue.field_labels import label_field
from integration.catalogue.field_meanings import is_secret, list_meanings
from integration.catalogue.shapes import Meaning
from integration.core import clock, installation
from integration.core.body_encodings import STORED_CHARSET, to_utf8
from integration.core.errors import DomainError
from integration.core.json_records import escape_surrogates
from integration.core.number_variants import make_finder
from integration.core.phone_numbers import PhoneNumbers
from integration.exports.formats.csv import quote_cell
from integration.exports.formats.zip import add_file, open_archived
from integration.mirror.privacy.held_records import HeldRecords
from integration.mirror.records.masking import remove_secrets
from integration.privacy import erasures, finder
from integration.privacy.erase import open_snapshots
from integration.privacy.finder import FoundData, Key, describe_table
from integration.privacy.personal_data import PLACES, Place, has_number
from integration.privacy.redaction import HIDDEN, Meanings, Redactor
from integration.settings.model import Settings

PROGRESS_ROWS = 500
"""Entries between two reports of progress, which read the state of the job."""
INDEX_ROWS = 1000
"""Largest number of rows of one kind in `index.html`."""
_SHOWN_COLUMNS = {
    "calls": ("started_at", "direction", "outcome", "party", "party_name", "our_number", "talk_seconds"),
    "recordings": ("timestamp", "caller", "called", "duration", "summary", "transcript"),
    "voicemail messages": ("origtime", "caller", "duration", "transcript"),
    "SMS": ("created_at", "from", "to", "message"),
    "faxes": ("created_at", "from", "to", "pages"),
    "contacts": ("first_name", "last_name", "company", "tel", "mobile", "email", "notes"),
    "notes": ("at", "person", "text"),
    "call-back items": ("opened_at", "party_name", "state", "note"),
}
"""Kinds and columns in `index.html`."""
_FILE_KINDS = {"recordings": "recording", "voicemail messages": "voicemail", "faxes": "fax"}
_TRACE_FILE = re.compile(r"\.(?:trace|pcap)$")
_LOCAL_MEANINGS: dict[str, Meaning | None] = {
    "party": "phone", "party_e164": "phone", "our_number": "phone", "our_e164": "phone", "contact": "phone",
    "sender": "phone", "receiver": "phone", "src": "phone", "dst": "phone", "extension": "extension",
    "kind": "open_code", "event_name": "open_code", "group_name": "open_code",
}  # fmt: skip
"""Meanings of columns of local tables."""
_EVENT_MEANINGS = list_meanings((*get_resource("calls").fields, *EVENT_FIELDS))

Record = dict[str, Any]
Connections = Mapping[str, sqlite3.Connection]


@dataclass(slots=True)
class _Kind:
    """Entries of one kind: file name without suffix, number, columns, and the first rows for `index.html`."""

    label: str
    path: str
    count: int = 0
    columns: dict[str, None] = field(default_factory=dict)
    rows: list[Record] = field(default_factory=list)


def write_subject_file(
    settings: Settings,
    e164: str,
    file: IO[bytes],
    *,
    shows_others: bool,
    on_progress: Callable[[int], None] = lambda _: None,
) -> dict[str, int]:
    """Write the ZIP to `file` and return the numbers of entries by kind.

    `on_progress` receives the number of entries written so far. Raises DomainError while an erasure is
    incomplete, because its search also counts records of the erased number; StorageError and OSError.
    """
    os.fchmod(file.fileno(), 0o600)
    with zipfile.ZipFile(file, "w") as archive:
        subject_file = _SubjectFile(settings, e164, archive, on_progress, hides_others=not shows_others)
        with open_snapshots(settings.storage.data_dir) as connections:
            if erasures.list_unfinished_records(connections["house.db"]):
                raise DomainError(
                    "An erasure is incomplete. Erase its number again, then repeat the request."
                )
            subject_file.add_records(connections)
        subject_file.add_files()
        subject_file.add_index()
        subject_file.add_manifest()
    return subject_file.counts


class _SubjectFile:
    def __init__(
        self,
        settings: Settings,
        e164: str,
        archive: zipfile.ZipFile,
        on_progress: Callable[[int], None],
        *,
        hides_others: bool,
    ) -> None:
        self._settings, self._e164, self._archive, self._on_progress = settings, e164, archive, on_progress
        self._hides_others, self._made_at = hides_others, clock.utc_text()
        self._finder = make_finder([e164])
        self._found = FoundData()
        self._kinds: list[_Kind] = []
        self._files: list[dict[str, Any]] = []
        self._archived: dict[tuple[str, Any], str] = {}
        """Path in the ZIP by kind and id of the record."""

    @property
    def counts(self) -> dict[str, int]:
        return {kind.label: kind.count for kind in self._kinds}

    # --- records -----------------------------------------------------------------------------------

    def add_records(self, connections: Connections) -> None:
        self._found = found = finder.find(connections, self._e164, HeldRecords(), {})
        groups: dict[str, list[tuple[str, Place | None, list[Key]]]] = {}
        if found.calls:
            groups["calls"] = [("mirror.db", None, [(call,) for call in found.calls])]
        for database, places in found.rows.items():
            for place, keys in places:
                label = place.label.removesuffix(" (removed)")
                groups.setdefault(label, []).append((database, place, [key for key, _ in keys]))

        def iterate(label: str) -> Iterator[tuple[Record, Meanings, Meanings]]:
            for database, place, keys in groups[label]:
                yield from self._read_records(connections[database], database, place, keys)

        redactor = None
        if self._hides_others:
            redactor = Redactor(self._finder, _list_names(connections["mirror.db"]))
            for label in groups:
                for record in iterate(label):
                    redactor.add_names(*record)
        for label in groups:
            self._add_kind(label, (redactor.redact(*r) if redactor else r[0] for r in iterate(label)))

    def _read_records(
        self, connection: sqlite3.Connection, database: str, place: Place | None, keys: list[Key]
    ) -> Iterator[tuple[Record, Meanings, Meanings]]:
        """Yield records with the meanings of their fields, and of nested fields."""
        table = None if place is None else describe_table(connection, place.table)
        for key in keys:
            if table is None:
                values = dict(connection.execute("SELECT * FROM v_calls WHERE id = ?", key).fetchone())
            else:
                values = table.read(connection, key) or {}
            if place is not None and place.resource is not None:
                meanings = list_meanings(place.resource.fields)
                record = json.loads(values["_doc"]) | json.loads(values["_item"] or "{}")
                yield remove_secrets(record), meanings, meanings
                continue
            if place is not None and place not in PLACES[database]:
                # Other columns of these tables can be secrets.
                values = {name: value for name, value in values.items() if has_number(value, self._finder)}
                values = {"table": place.table, **values}
            record = {
                # Local tables name the kind of an entry so; in records it is the name of a person.
                "kind" if name == "name" else name: _read_value(value)
                for name, value in values.items()
                if not is_secret(name) and not name.endswith("_hash")
            }
            yield remove_secrets(record), {**dict.fromkeys(record), **_LOCAL_MEANINGS}, _EVENT_MEANINGS

    def _add_kind(self, label: str, records: Iterator[Record]) -> None:
        kind = _Kind(label, f"records/{re.sub('[^a-z0-9]+', '-', label.lower())}")
        self._kinds.append(kind)
        with tempfile.TemporaryFile() as lines, tempfile.TemporaryFile() as cells:
            for record in records:
                lines.write(_to_json(record).encode() + b"\n")
                kind.count += 1
                kind.columns |= dict.fromkeys(record)
                if len(kind.rows) < INDEX_ROWS and label in _SHOWN_COLUMNS:
                    kind.rows.append(record)
                if kind.count % PROGRESS_ROWS == 0:
                    self._on_progress(sum(self.counts.values()))
            # The byte order mark is for Excel.
            heading = "\ufeff" + ",".join(map(quote_cell, kind.columns))
            cells.write(heading.encode("utf-8", "replace") + b"\r\n")
            lines.seek(0)
            for line in lines:
                record = json.loads(line)
                row = ",".join(_to_cell(record.get(column)) for column in kind.columns)
                cells.write(row.encode("utf-8", "replace") + b"\r\n")
            self._add(f"{kind.path}.jsonl", lines)
            self._add(f"{kind.path}.csv", cells)

    # --- other files -------------------------------------------------------------------------------

    def add_files(self) -> None:
        """Add the archived files, and a list of all with the reason why one is missing."""
        if self._found.files:
            self._add_kind("files", map(self._add_archived_file, *zip(*self._found.files, strict=True)))

    def _add_archived_file(self, kind: str, record_id: int, path: str) -> Record:
        missing = None
        if self._hides_others and _TRACE_FILE.search(path):
            missing = "left out, because traces contain the numbers of others"
        else:
            try:
                with open_archived(self._settings.storage.data_dir, path) as file:
                    self._add(path, file, zipfile.ZIP_STORED)
                self._archived[kind, record_id] = path
            except OSError as error:
                missing = f"not in the archive ({error.strerror})"
        return {"kind": kind, "record": record_id, "path": path, "missing": missing}

    def add_index(self) -> None:
        numbers = PhoneNumbers(self._settings.dashboard.country)
        zone = ZoneInfo(self._settings.dashboard.timezone)

        def show(value: Any) -> str:
            moment = clock.parse_utc(value)
            if moment is not None:
                return f"{moment.astimezone(zone):%Y-%m-%d %H:%M}"
            return "" if value is None else _to_json(value) if isinstance(value, dict | list) else str(value)

        templates = jinja2.FileSystemLoader(installation.find_assets() / "templates")
        environment = jinja2.Environment(loader=templates, autoescape=True, undefined=jinja2.StrictUndefined)
        page = environment.get_template("subject.html").render(
            number=numbers.format_national(self._e164),
            made_at=show(self._made_at),
            zone=zone.key,
            kinds=self._kinds,
            shown_columns=_SHOWN_COLUMNS,
            file_kinds=_FILE_KINDS,
            archived=self._archived,
            hides_others=self._hides_others,
            hidden=HIDDEN,
            max_rows=INDEX_ROWS,
            show=show,
            label=label_field,
        )
        self._add("index.html", io.BytesIO(page.encode("utf-8", "replace")))

    def add_manifest(self) -> None:
        manifest = {
            "number": self._e164,
            "made_at": self._made_at,
            "version": __version__,
            "hides_others": self._hides_others,
            "counts": self.counts,
            "files": self._files,
        }
        self._add("manifest.json", io.BytesIO(json.dumps(manifest, indent=1).encode()))

    def _add(self, path: str, file: IO[bytes], compression: int = zipfile.ZIP_DEFLATED) -> None:
        sha, size = hashlib.sha256(), 0
        file.seek(0)
        for chunk in add_file(self._archive, path, file, time.gmtime(), compression):
            sha.update(chunk)
            size += len(chunk)
            self._on_progress(sum(self.counts.values()))
        self._files.append({"path": path, "size": size, "sha256": sha.hexdigest()})


def _list_names(connection: sqlite3.Connection) -> Iterator[str]:
    """Return the names of contacts and platform users."""
    for table in ("contacts", "users"):
        for row in connection.execute(f"SELECT first_name, last_name FROM {table}"):
            first, last = (str(name or "") for name in row)
            yield from (first, last, f"{first} {last}")


def _read_value(value: Any) -> Any:
    """Return the value of a column; JSON in it is parsed."""
    if isinstance(value, bytes):
        value = to_utf8(value, STORED_CHARSET).decode("utf-8", "replace")
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            pass
    return value


def _to_json(value: Any) -> str:
    return escape_surrogates(json.dumps(value, ensure_ascii=False))


def _to_cell(value: Any) -> str:
    if value is None or isinstance(value, int | float):
        return "" if value is None else str(value)
    return quote_cell(value if isinstance(value, str) else _to_json(value))
