"""Account page: one record with all its fields and related records."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask import abort, make_response
from werkzeug.wrappers import Response

from integration.access.visibility import Visibility
from integration.catalogue import HISTORY, field_labels, get_resource
from integration.catalogue.field_meanings import is_secret
from integration.catalogue.shapes import Resource
from integration.context import app_context
from integration.core.ids import parse_id
from integration.core.json_records import read_record
from integration.dashboard.account import edit
from integration.dashboard.account.collection import READ_SECONDS
from integration.dashboard.account.editable import can_write
from integration.dashboard.account.form import find_visible
from integration.dashboard.account.related import list_related
from integration.dashboard.account.sections import Section
from integration.dashboard.account.values import DisplayValue, ReferenceNames, ValueFormatter
from integration.dashboard.site import formats, layout
from integration.mirror.page_queries import platform_notes
from integration.mirror.page_queries.platform_notes import PlatformText
from integration.mirror.query import browse
from integration.mirror.records import dictionaries, single_record
from integration.mirror.records.masking import mask_json
from integration.workspace import announcement_files
from integration.workspace.announcement_files import AnnouncementFile


@dataclass(frozen=True, slots=True)
class RecordField:
    """Field of a record with its description from the catalogue."""

    name: str
    label: str
    value: DisplayValue
    description: str


def show_record(visibility: Visibility, section: Section, key_text: str | None) -> Response:
    """Show the record with the key `key_text`.

    `key_text` is None for the only record of a collection.
    """
    context = app_context()
    resource = section.resource
    include_item_fields = visibility.can_see_item_fields(resource)
    with context.mirror_db.read(seconds=READ_SECONDS) as connection:
        row = (
            browse.find_single_record(connection, resource)
            if key_text is None
            else find_visible(connection, visibility, resource, key_text)
        )
        if row is None:
            if key_text is not None:
                abort(404)
            return _show_empty(connection, visibility, section, resource)
        list_values = field_labels.remove_hidden(
            read_record(row["_doc"]).values,
            visibility.hidden_fields(resource) - _secret_fields(resource),
        )
        item_values = read_record(row["_item"]).values if row["_item"] and include_item_fields else {}
        values = {**list_values, **item_values}
        reference_names = ReferenceNames(connection, visibility.collections)
        reference_names.load(resource, [values])
        formatter = ValueFormatter(resource, reference_names, dictionaries.load_labels(connection, resource))
        field_groups = _group_fields(resource, values, formatter)
        key = browse.get_row_key(resource, row)
        related_groups = list_related(connection, visibility, section, key, values)
        own_path = _describe_own_path(connection, resource, key) if resource.item else None
        chat_messages = _list_chat_messages(connection, visibility, resource, key)
        announcements = (
            platform_notes.list_announcements(connection, key)
            if resource.collection == "users" and isinstance(key, int) and include_item_fields
            else []
        )
    return make_response(
        layout.render_page(
            "account",
            "account_record.html",
            section=section,
            resource=resource,
            key=key,
            called=field_labels.record_title(values),
            numbered=field_labels.fallback_title(resource, key),
            at=list_values.get(resource.date) if resource.date and section.collection in HISTORY else None,
            sections=field_groups,
            call=_call_url(resource, values),
            related=related_groups,
            messages=chat_messages,
            announcements=[
                [(field_labels.label_field(name), text) for name, text in fields] for fields in announcements
            ],
            raw=_raw_texts(row, include_item_fields) if visibility.can_see_raw(resource) else [],
            row=row,
            own_path=own_path,
            history=section.collection in HISTORY,
            actions=edit.list_record_actions(visibility, section, key, values)
            if not row["_missing_since"]
            else [],
            audio=_find_audio(section, key),
            can_delete_messages=can_write(visibility, "chatmsgs", "delete"),
        )
    )


def _list_chat_messages(
    connection: sqlite3.Connection, visibility: Visibility, resource: Resource, key: int | str
) -> list[PlatformText]:
    """Return the chat messages that the viewer may see."""
    if not isinstance(key, int) or not visibility.can_open(get_resource("chats")):
        return []
    if resource.collection == "chats":
        return platform_notes.list_messages_of_chat(connection, key)
    return platform_notes.list_messages_of_user(connection, key) if resource.collection == "users" else []


def _find_audio(section: Section, key: int | str) -> AnnouncementFile | None:
    """Return the audio of an announcement that was uploaded here."""
    if section.collection != "vmannouncements" or not isinstance(key, int):
        return None
    with app_context().app_db.read() as connection:
        return announcement_files.find(connection, key)


def _show_empty(
    connection: sqlite3.Connection, visibility: Visibility, section: Section, resource: Resource
) -> Response:
    return make_response(
        layout.render_page(
            "account",
            "account_record.html",
            section=section,
            resource=resource,
            row=None,
            state=visibility.collection_state(connection, resource),
            away=layout.unreachable_since(connection),
        )
    )


def _secret_fields(resource: Resource) -> frozenset[str]:
    """Return the names of secret fields.

    The page shows their values only as set or empty.
    """
    return frozenset(field.name for field in resource.fields if is_secret(field.name))


def _group_fields(
    resource: Resource, values: Mapping[str, Any], formatter: ValueFormatter
) -> list[tuple[str, list[RecordField]]]:
    """Return (heading, fields). Fields of the catalogue are first, in its order."""
    field_groups = []
    for heading, prefix, field_names in field_labels.group_fields(
        resource, field_labels.order_fields(resource, values)
    ):
        record_fields = []
        for name in field_names:
            field = resource.field(name)
            record_fields.append(
                RecordField(
                    name,
                    field_labels.label_field(name, heading_prefix=prefix),
                    formatter.format_value(name, values),
                    field_labels.describe(field),
                )
            )
        field_groups.append((heading, record_fields))
    return field_groups


def _describe_own_path(connection: sqlite3.Connection, resource: Resource, key: int | str) -> str | None:
    """Return the source of the fields on the page, or None."""
    record = single_record.find_record(connection, resource, key) if resource.key is not None else None
    if record is None:
        return None
    if record.item is not None:
        return "requested individually"
    if record.item_adds_fields is False:
        return "from the list; there are no other fields"
    return "from the list; not requested individually"


def _call_url(resource: Resource, values: Mapping[str, Any]) -> str | None:
    """Return the URL of the call of the record, or None."""
    call_id = values.get("id" if resource.collection == "calls" else "live_id")
    if isinstance(call_id, int | str) and parse_id(str(call_id)):
        return f"/calls/{call_id}"
    return None


def _raw_texts(row: sqlite3.Row, include_item_fields: bool) -> list[tuple[str, str]]:
    """Return (title, indented JSON) with secrets as null."""
    texts = [("List response", row["_doc"])]
    if row["_item"] and include_item_fields:
        texts.append(("Detail response", row["_item"]))
    return [
        (title, formats.indent_json(mask_json(text.encode("utf-8", "surrogatepass")).decode()))
        for title, text in texts
    ]
