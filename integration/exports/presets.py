"""Ready-made exports beside the plain collections: calls as people know them, with names and words.

A preset reads one table, a collection's or our table of calls. `columns` is the documented default order
(docs/exports.md); every other field of the table may be asked for too, and what `columns.py` makes of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from integration.catalogue import resource
from integration.catalogue.shapes import Field, Resource, Type
from integration.dashboard.site.formats import DIRECTIONS, STATES
from integration.exports.columns import Extra, recordings_of
from integration.mirror.page_queries.history import CallFilter


@dataclass(frozen=True, slots=True)
class Preset:
    """`calls` narrows the calls; `own_table` says that the table is ours, named `c`, has no `_doc`, and has
    `extras` instead of what is made of a collection's fields."""

    name: str
    short: str
    title: str
    resource: Resource
    columns: tuple[str, ...]
    extras: tuple[Extra, ...] = ()
    calls: CallFilter | None = None
    own_table: bool = False
    newest_first: bool = False


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
    *recordings_of(
        "FROM _legs AS leg JOIN monitors ON monitors.live_id = +leg.leg_id WHERE leg.call_id = c.id",
        "recordings > 0",
    ),
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


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            "call-history",
            "Calls",
            "Calls, one row each",
            CALLS,
            _CALL_COLUMNS,
            _CALL_EXTRAS,
            own_table=True,
            newest_first=True,
        ),
        Preset(
            "missed",
            "Missed",
            "Missed calls and voicemail, one row for each caller's call",
            CALLS,
            _MISSED_COLUMNS,
            _CALL_EXTRAS,
            calls=CallFilter(outcome="not_talked"),
            own_table=True,
            newest_first=True,
        ),
        Preset(
            "cdr-details",
            "CDRs",
            "Call detail records with names, local times and cost",
            resource("cdrs"),
            (
                "id", "calldate", "calldate_local", "type", "type_label", "src", "src_name", "dst",
                "dst_name", "user_id", "user_name", "duration", "duration_hms", "billsec", "billsec_hms",
                "disposition", "destination", "context", "t_cause", "rate", "charge", "currency", "live_id",
                "call_link", "recording_files", "recording_links",
            ),
        ),
        Preset(
            "recordings",
            "Recordings",
            "Recordings with their files",
            resource("monitors"),
            (
                "id", "timestamp", "timestamp_local", "call_id", "live_id", "type", "caller", "called",
                "user_id", "user_name", "dst_name", "duration", "duration_hms", "size", "file_state", "file",
                "link",
            ),
        ),
        Preset(
            "voicemail",
            "Voicemail",
            "Voice messages with their files",
            resource("voicemessages"),
            (
                "id", "origtime", "origtime_local", "call_id", "live_id", "caller", "callerid", "dialled",
                "extension_id", "folder", "is_new", "duration", "duration_hms", "transcript", "file_state",
                "file", "link",
            ),
        ),
        Preset(
            "messages",
            "Messages",
            "Text messages",
            resource("sms"),
            (
                "id", "created_at", "created_local", "type", "from", "from_name", "to", "to_name", "message",
                "result", "user_id", "user_name",
            ),
        ),
    )
}  # fmt: skip
"""By the name in `/exports/<name>.csv` and `switchroom export <name>`."""
