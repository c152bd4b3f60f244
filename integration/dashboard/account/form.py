"""Form of account records: fields with their current values."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from flask import abort, request

from integration.access.visibility import Visibility
from integration.catalogue import field_labels, get_resource
from integration.catalogue.shapes import Resource
from integration.context import app_context
from integration.core.errors import PlatformError, PlatformRefused
from integration.core.ids import as_id
from integration.core.json_records import read_record
from integration.dashboard.account.choices import ChoiceReader, add_missing, list_routed_numbers
from integration.dashboard.account.editable import FormSpec, Mode, list_specs
from integration.dashboard.account.sections import Section
from integration.dashboard.account.widgets import (
    Choice,
    Entry,
    InvalidEntry,
    as_text,
    describe_party,
    make_body,
    read_entered,
    read_stored,
)
from integration.mirror.query import browse
from integration.mirror.query.filters import Condition
from integration.mirror.query.query import Query
from integration.platform_api.budget import INTERACTIVE

STORED_VALUES_NOTICE = (
    "Cannot read the current values from the phone system. The values shown are from the last sync."
)
READ_SECONDS = 4.0
"""Seconds that a form waits for current values; a phone system that hangs never sends them."""
MAX_FILE_BYTES = 5 * 1024 * 1024
"""Bytes of an uploaded audio file."""
BLANK_ROWS = 4
"""Empty rows of a list for new entries."""


@dataclass(frozen=True, slots=True)
class FormField:
    """Field of a form.

    `stored`: current entry. `entry`: entry to show. `is_unknown`: the record does not have the field.
    """

    spec: FormSpec
    stored: Entry
    entry: Entry
    choices: tuple[Choice, ...]
    suggestions: tuple[Choice, ...]
    is_unknown: bool

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def kind(self) -> str:
        """Widget to show; a value with labelled codes is a choice."""
        is_code = self.choices and self.spec.widget.kind in ("text", "number")
        return "choice" if is_code else self.spec.widget.kind

    @property
    def places(self) -> list[tuple[Choice, int]]:
        """Choices with their place among the members; others have place 0.

        Members are first.
        """
        entry = list(self.entry) if isinstance(self.entry, list) else []
        members = [
            (one, place) for place, value in enumerate(entry, 1) for one in self.choices if one.value == value
        ]
        return members + [(one, 0) for one in self.choices if one.value not in entry]

    @property
    def lines(self) -> list[str]:
        """Texts of a list in their displayed form."""
        texts = [str(one) for one in self.entry] if isinstance(self.entry, list) else []
        if self.spec.widget.kind == "parties":
            return [describe_party(text, self.choices) for text in texts]
        return texts


@dataclass(frozen=True, slots=True)
class RecordForm:
    """Form of a record.

    `record`: current values; {} for a new record. `read_error`: why they may be old.
    """

    section: Section
    mode: Mode
    fields: tuple[FormField, ...]
    record: Mapping[str, Any]
    read_error: str | None

    @property
    def groups(self) -> list[tuple[str, list[FormField]]]:
        """Fields by the headings of the record's page."""
        by_name = {one.name: one for one in self.fields}
        grouped = field_labels.group_fields(self.section.resource, by_name)
        plain_headings = ("", field_labels.UNDOCUMENTED_HEADING)
        plain = [one for heading, _, names in grouped if heading in plain_headings for one in names]
        sections = [("", plain), *((row[0], row[2]) for row in grouped if row[0] not in plain_headings)]
        return [(heading, [by_name[one] for one in names]) for heading, names in sections if names]

    def stored_texts(self) -> dict[str, str]:
        return {one.name: as_text(one.stored) for one in self.fields}

    def entered_texts(self) -> dict[str, str]:
        return {one.name: as_text(one.entry) for one in self.fields}

    def with_entries(self, names: Collection[str]) -> RecordForm:
        """Return the form with the entries of these fields.

        The others show their stored value.
        """
        fields = (one if one.name in names else replace(one, entry=one.stored) for one in self.fields)
        return replace(self, fields=tuple(fields))

    def make_body(self, names: Collection[str], mistakes: dict[str, str]) -> dict[str, Any]:
        """Return the request body with these fields.

        `mistakes` gets the message of each invalid entry.
        """
        body: dict[str, Any] = {}
        for one in self.fields:
            is_missing = one.spec.widget.is_required and not one.entry and self.mode == "create"
            try:
                if one.spec.widget.kind == "file":
                    body |= _read_file(one.spec)
                elif one.name in names or is_missing:
                    body |= make_body(one.spec, one.entry, self.record)
            except InvalidEntry as error:
                mistakes[one.name] = str(error)
        return body


def open_form(
    visibility: Visibility, section: Section, mode: Mode, key: str | None, *, is_submitted: bool
) -> RecordForm:
    """Read the record and its choices.

    `is_submitted`: show the entries of the submitted form. Aborts with 404 if there is no such record.
    """
    record, read_error = ({}, None) if key is None else fetch_record(visibility, section, key)
    hidden_fields = visibility.hidden_fields(section.resource)
    fields, specs = [], list_specs(section, mode)
    for spec in specs:
        if key is not None and spec.name == "ddis" and spec.name not in record:
            numbers = list_routed_numbers(section, _fetch_targeted_numbers(key))
            record = record if numbers is None else {**record, spec.name: numbers}
    with app_context().mirror_db.read() as connection:
        reader = ChoiceReader.open(connection, section)
        for spec in specs:
            if spec.source in hidden_fields and spec.widget.kind != "secret":
                continue
            fields.append(_make_field(reader, spec, record, key, is_submitted=is_submitted))
    return RecordForm(section, mode, tuple(fields), record, read_error)


def _make_field(
    reader: ChoiceReader, spec: FormSpec, record: Mapping[str, Any], key: str | None, *, is_submitted: bool
) -> FormField:
    choices = reader.list_choices(spec)
    is_unknown = key is not None and spec.source not in record and spec.name not in record
    stored = read_stored(spec, record, choices)
    if spec.widget.kind in ("one", "destination", "many", "ordered", "agents"):
        values = [stored] if isinstance(stored, str) else [str(one).partition(":")[0] for one in stored]
        choices = add_missing(choices, values)
    entry = read_entered(spec, request.form, stored, choices) if is_submitted else stored
    is_hidden = spec.widget.kind in ("secret", "file")
    return FormField(
        spec,
        stored,
        entry,
        tuple(choices),
        tuple(reader.list_suggestions(spec)) if not choices else (),
        is_unknown and not is_hidden,
    )


def _fetch_targeted_numbers(key: str) -> list[dict[str, Any]]:
    """Return the DDIs whose target has this id.

    They come from the platform, or else from the mirror. Records of conferences do not have their numbers.
    """
    target_id = as_id(key)
    try:
        page = app_context().platform.page(
            "ddis",
            filter=[("target_id", "eq", target_id)],
            priority=INTERACTIVE,
            tries=1,
            seconds=READ_SECONDS,
        )
        return [one.values for one in page.records]
    except PlatformError:
        query = Query(get_resource("ddis"), (Condition("target_id", "eq", target_id),))
        with app_context().mirror_db.read() as connection:
            return [read_record(row["_doc"]).values for row in query.fetch_rows(connection)]


def fetch_record(visibility: Visibility, section: Section, key: str) -> tuple[dict[str, Any], str | None]:
    """Return (record, read error).

    The record comes from the platform, or from the mirror if the request fails; only then there is a read
    error. Aborts with 404 if the viewer sees no such record.
    """
    context, resource = app_context(), section.resource
    stored = _find_stored(visibility, resource, key) if resource.is_listed else None
    if resource.is_listed and stored is None:
        abort(404)
    if not resource.item:
        return dict(stored or {}), None
    path = f"/{section.collection}/{key}"
    included = ",".join(one.name for one in resource.relations if one.is_includable)
    if included:
        path += f"?include={included}"
    try:
        record = context.platform.item(path, priority=INTERACTIVE, tries=1, seconds=READ_SECONDS)
    except PlatformError as error:
        if stored is None:
            abort(404 if isinstance(error, PlatformRefused) else 503, f"Phone system: {error}")
        return stored, STORED_VALUES_NOTICE
    return dict(record.values), None


def _find_stored(visibility: Visibility, resource: Resource, key: str) -> dict[str, Any] | None:
    with app_context().mirror_db.read() as connection:
        row = find_visible(connection, visibility, resource, key)
    return None if row is None else dict(read_record(row["_item"] or row["_doc"]).values)


def find_visible(
    connection: sqlite3.Connection, visibility: Visibility, resource: Resource, key_text: str
) -> sqlite3.Row | None:
    """Return the mirrored record that the viewer sees, or None."""
    key = browse.parse_key(resource, key_text)
    row = browse.find_record(connection, resource, key) if key is not None else None
    if row is None or visibility.scope_of(resource) is None:
        return row
    own_query = Query(resource, (Condition(resource.key or "id", "eq", key),), include_missing=True)
    return row if visibility.restrict_query(connection, own_query).count_matches(connection) else None


def _read_file(spec: FormSpec) -> dict[str, Any]:
    """Return the uploaded file in base64; {} without a file."""
    upload = request.files.get(spec.name)
    if upload is None or not upload.filename:
        return {}
    content = upload.stream.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise InvalidEntry(f"{spec.label} is larger than 5 MB. Choose a smaller file.")
    if not content:
        raise InvalidEntry(f"{spec.label} is empty. Choose another file.")
    return {spec.name: base64.b64encode(content).decode()}
