"""Ready-made exports beside the plain collections: calls as people know them, with names and words.

A preset reads one table, its own or a collection's, and adds columns to it that look things up: the name
behind an id, the word for a code, the local time, the file. `columns` is the documented default order
(docs/exports.md); every other field of the table may be asked for too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from integration.catalogue import resource
from integration.catalogue.shapes import Field, Resource, Type
from integration.dashboard.formats import DIRECTIONS, STATES
from integration.mirror.history import CallFilter

ExtraKind = Literal["text", "local", "duration", "number"]


@dataclass(frozen=True, slots=True)
class Extra:
    """A column that is looked up or written another way. `:base` in `sql` is the dashboard's address."""

    name: str
    kind: ExtraKind
    sql: str


@dataclass(frozen=True, slots=True)
class Preset:
    """`calls` narrows the calls; `own_table` says that the table is ours, named `c`, and has no `_doc`."""

    name: str
    title: str
    resource: Resource
    extras: tuple[Extra, ...]
    columns: tuple[str, ...]
    calls: CallFilter | None = None
    own_table: bool = False
    newest_first: bool = False

    def extra(self, name: str) -> Extra | None:
        return next((extra for extra in self.extras if extra.name == name), None)

    @property
    def known(self) -> tuple[str, ...]:
        """Every column that may be asked for."""
        fields = tuple(field.name for field in self.resource.fields)
        return (*fields, *(extra.name for extra in self.extras))


def _fields(type_: Type, names: str) -> tuple[Field, ...]:
    return tuple(Field(name, type_) for name in names.split())


CALLS = Resource(
    name="call_history",
    collection="_calls",
    title="Call history",
    fields=(
        *_fields("integer", "id"),
        *_fields("string", "direction state outcome"),
        *_fields("timestamp", "started_at answered_at ended_at"),
        *_fields("string", "ended_by"),
        *_fields("integer", "wait_seconds ivr_seconds talk_seconds hold_seconds"),
        *_fields("boolean", "hold_incomplete"),
        *_fields("string", "party party_e164 party_name our_number our_e164 group_kind"),
        *_fields("integer", "group_id"),
        *_fields("string", "group_name"),
        *_fields("integer", "user_id"),
        *_fields("string", "user_name extension context t_cause"),
        *_fields("number", "charge"),
        *_fields("integer", "legs recordings voicemails cdrs"),
        *_fields("string", "sources"),
        *_fields("boolean", "unconfirmed provisional"),
    ),
    date="started_at",
)
"""What `_calls` shows of itself (mirror/calls/tables.py)."""


def _words(column: str, words: Mapping[str, tuple[str, str]], otherwise: str) -> str:
    cases = " ".join(f"WHEN '{code}' THEN '{word}'" for code, (word, _) in words.items())
    return f"CASE {column} {cases} ELSE {otherwise} END"


def _recordings(cell: str) -> str:
    """Of every recording of the call, one behind the other with a space between."""
    return (
        f"CASE WHEN recordings > 0 THEN (SELECT group_concat({cell}, ' ') FROM _legs AS leg"
        " JOIN monitors ON monitors.live_id = leg.leg_id LEFT JOIN media"
        " ON media.kind = 'recording' AND media.record_id = monitors.id AND media.state = 'have'"
        " WHERE leg.call_id = c.id) END"
    )


_CALL_EXTRAS = (
    Extra("started_local", "local", "started_at"),
    Extra("answered_local", "local", "answered_at"),
    Extra("ended_local", "local", "ended_at"),
    Extra("direction_label", "text", _words("direction", DIRECTIONS, "direction")),
    Extra("outcome_label", "text", _words("coalesce(outcome, state)", STATES, "coalesce(outcome, state)")),
    Extra("wait", "duration", "wait_seconds"),
    Extra("ivr", "duration", "ivr_seconds"),
    Extra("talk", "duration", "talk_seconds"),
    Extra("hold", "duration", "hold_seconds"),
    Extra("currency", "text", "CASE WHEN charge IS NOT NULL THEN (SELECT currency_iso FROM me LIMIT 1) END"),
    Extra("recording_files", "text", _recordings("media.path")),
    Extra("recording_links", "text", _recordings(":base || '/recordings/' || monitors.id || '.mp3'")),
    Extra("call_link", "text", ":base || '/calls/' || c.id"),
)
_CALL_COLUMNS = (
    "id", "started_at", "started_local", "direction", "direction_label", "outcome", "outcome_label",
    "party", "party_e164", "party_name", "our_number", "our_e164", "group_kind", "group_id", "group_name",
    "user_id", "user_name", "extension", "answered_at", "ended_at", "wait_seconds", "wait", "talk_seconds",
    "talk", "hold_seconds", "hold", "ended_by", "t_cause", "charge", "currency", "recordings",
    "recording_files", "recording_links", "voicemails", "legs",
)  # fmt: skip
_MISSED_COLUMNS = (
    "id", "started_at", "started_local", "outcome", "outcome_label", "party", "party_e164", "party_name",
    "our_number", "our_e164", "group_kind", "group_id", "group_name", "wait_seconds", "wait", "t_cause",
    "voicemails", "call_link",
)  # fmt: skip


def _user_name(table: str) -> str:
    return (
        "(SELECT trim(coalesce(first_name, '') || ' ' || coalesce(last_name, '')) FROM users"
        f" WHERE users.id = {table}.user_id)"
    )


def _call_of(table: str) -> Extra:
    return Extra("call_id", "number", f"(SELECT call_id FROM _call_ids WHERE _call_ids.id = {table}.live_id)")


def _media(kind: str, table: str, folder: str) -> tuple[Extra, ...]:
    found = f"FROM media WHERE media.kind = '{kind}' AND media.record_id = {table}.id"
    return (
        Extra("file", "text", f"(SELECT path {found} AND state = 'have')"),
        Extra("file_state", "text", f"(SELECT state {found})"),
        Extra("link", "text", f":base || '/{folder}/' || {table}.id || '.mp3'"),
    )


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            "call-history",
            "Calls, one row each",
            CALLS,
            _CALL_EXTRAS,
            _CALL_COLUMNS,
            own_table=True,
            newest_first=True,
        ),
        Preset(
            "missed",
            "Missed calls and voicemail, one row for each caller's call",
            CALLS,
            _CALL_EXTRAS,
            _MISSED_COLUMNS,
            calls=CallFilter(outcome="not_talked"),
            own_table=True,
            newest_first=True,
        ),
        Preset(
            "recordings",
            "Recordings with their files",
            resource("monitors"),
            (
                Extra("timestamp_local", "local", '"timestamp"'),
                Extra("user_name", "text", _user_name("monitors")),
                _call_of("monitors"),
                Extra("length", "duration", "duration"),
                *_media("recording", "monitors", "recordings"),
            ),
            (
                "id", "timestamp", "timestamp_local", "call_id", "live_id", "type", "caller", "called",
                "user_id", "user_name", "dst_name", "duration", "length", "size", "file_state", "file",
                "link",
            ),
        ),
        Preset(
            "voicemail",
            "Voice messages with their files",
            resource("voicemessages"),
            (
                Extra("origtime_local", "local", "origtime"),
                _call_of("voicemessages"),
                Extra("length", "duration", "duration"),
                *_media("voicemail", "voicemessages", "voicemail"),
            ),
            (
                "id", "origtime", "origtime_local", "call_id", "live_id", "caller", "callerid", "dialled",
                "extension_id", "folder", "is_new", "duration", "length", "transcript", "file_state", "file",
                "link",
            ),
        ),
        Preset(
            "messages",
            "Text messages",
            resource("sms"),
            (
                Extra("created_local", "local", "created_at"),
                Extra("user_name", "text", _user_name("sms")),
            ),
            (
                "id", "created_at", "created_local", "type", "from", "from_name", "to", "to_name", "message",
                "result", "user_id", "user_name",
            ),
        ),
    )
}  # fmt: skip
"""By the name in `/exports/<name>.csv` and `switchroom export <name>`."""
