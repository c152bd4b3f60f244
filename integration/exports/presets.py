"""Ready-made exports with names, labels and local times.

They are available in addition to plain collections. A preset reads one table: a collection's, or the derived
table of calls. `columns` is the documented default order (docs/exports.md). All other fields of the table and
its derived columns can be requested too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from integration.catalogue import get_resource
from integration.catalogue.shapes import Resource
from integration.exports.columns import DerivedColumn, derive_recordings
from integration.mirror.calls.schema import CALLS
from integration.mirror.page_queries import platform_labels
from integration.mirror.page_queries.call_labels import DIRECTION_LABELS, STATE_LABELS
from integration.mirror.page_queries.history import CallFilter
from integration.mirror.records import subresources

ACCOUNTANT = "For the accountant"
"""Name of a ready-made column set: time, numbers, names, duration and cost, without ids and codes."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A ready-made export.

    Without `columns` the export has the columns of the table, then the fields found in the records.
    `call_filter` limits the calls. `line` states what one line of the file is.
    `column_sets` are the columns of ready-made column sets by name.
    """

    name: str
    title: str
    resource: Resource
    columns: tuple[str, ...]
    line: str
    call_filter: CallFilter | None = None
    column_sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def _build_case_sql(column: str, labels: Mapping[str, tuple[str, str]], default: str) -> str:
    cases = " ".join(f"WHEN '{code}' THEN '{label}'" for code, (label, _) in labels.items())
    return f"CASE {column} {cases} ELSE {default} END"


_LABEL_ROWS = f"""SELECT label, max(on_platform) AS on_platform, max(here) AS here FROM (
  SELECT {platform_labels.ENTRY_NAME} AS label, 1 AS on_platform, 0 AS here
    FROM _legs AS leg JOIN cdrs ON cdrs.live_id = +leg.leg_id, {platform_labels.ENTRIES}
   WHERE leg.call_id = c.id AND {platform_labels.LABELLED}
  UNION ALL SELECT entry.value, 0, 1
    FROM (SELECT leg_id FROM _legs WHERE call_id = c.id UNION SELECT c.id) AS leg,
         json_each(local_labels(leg.leg_id)) AS entry
   WHERE :has_local_labels)
 WHERE label <> '' GROUP BY label ORDER BY label"""
"""SQL for the labels of a call with their origins. `local_labels` is registered by `exports/query.py`."""


def _derive_from_labels(name: str, value_sql: str) -> DerivedColumn:
    """Return a column with one value for each label of a call.

    It is NULL without labels. Accounts without labels do not pay for the search in every row.
    """
    has_labels = f":has_local_labels OR EXISTS (SELECT 1 FROM cdrs WHERE {platform_labels.LABELLED})"
    return DerivedColumn(
        name,
        "text",
        f"CASE WHEN {has_labels} THEN (SELECT group_concat({value_sql}, '; ') FROM ({_LABEL_ROWS})) END",
    )


_CALL_DERIVED_COLUMNS = (
    DerivedColumn("started_local", "local", "started_at"),
    DerivedColumn("answered_local", "local", "answered_at"),
    DerivedColumn("ended_local", "local", "ended_at"),
    DerivedColumn("direction_label", "text", _build_case_sql("direction", DIRECTION_LABELS, "direction")),
    DerivedColumn(
        "outcome_label",
        "text",
        _build_case_sql("coalesce(outcome, state)", STATE_LABELS, "coalesce(outcome, state)"),
    ),
    DerivedColumn(
        "group_kind_label",
        "text",
        "CASE group_kind WHEN 'queue' THEN 'Queue' WHEN 'ringgroup' THEN 'Ring group' WHEN 'ivr' THEN 'IVR'"
        " ELSE group_kind END",
    ),
    DerivedColumn("wait", "duration", "wait_seconds"),
    DerivedColumn("ivr", "duration", "ivr_seconds"),
    DerivedColumn("talk", "duration", "talk_seconds"),
    DerivedColumn("hold", "duration", "hold_seconds"),
    DerivedColumn(
        "currency", "text", "CASE WHEN charge IS NOT NULL THEN (SELECT currency_iso FROM me LIMIT 1) END"
    ),
    *derive_recordings(
        "FROM _legs AS leg JOIN monitors ON monitors.live_id = +leg.leg_id WHERE leg.call_id = c.id",
        "recordings > 0",
    ),
    _derive_from_labels("labels", "label"),
    _derive_from_labels(
        "label_origins",
        "CASE WHEN on_platform AND here THEN 'platform+local' WHEN here THEN 'local' ELSE 'platform' END",
    ),
    DerivedColumn("call_link", "text", ":base || '/calls/' || c.id"),
)
CALL_DERIVED_COLUMNS = {column.name: column for column in _CALL_DERIVED_COLUMNS}
"""Columns of calls in addition to their own. The table of calls has the alias `c`, and no `_doc`."""
_TEXTS = " || ".join(f"coalesce({field.name}, '')" for field in CALLS.fields if field.type == "string")
CALLS_NUL_CONDITION = f"instr({_TEXTS}, char(0))"
"""SQL that is true for each call whose text contains a NUL."""
_CALL_COLUMNS = (
    "id", "started_at", "started_local", "direction", "direction_label", "outcome", "outcome_label",
    "party", "party_e164", "party_name", "our_number", "our_e164", "group_kind", "group_id", "group_name",
    "user_id", "user_name", "extension", "answered_at", "ended_at", "wait_seconds", "wait", "talk_seconds",
    "talk", "hold_seconds", "hold", "ended_by", "t_cause", "charge", "currency", "recordings",
    "recording_files", "recording_links", "voicemails", "legs", "labels", "label_origins",
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
            CALLS,
            _CALL_COLUMNS,
            "one row per call",
            column_sets={
                ACCOUNTANT: (
                    "started_local", "direction_label", "party", "party_name", "our_number", "user_name",
                    "talk", "charge", "currency",
                )
            },
        ),
        Preset(
            "missed",
            "Missed calls",
            CALLS,
            _MISSED_COLUMNS,
            "one row per missed call or voicemail",
            call_filter=CallFilter(outcome="not_talked"),
        ),
        Preset(
            "cdr-details",
            "Call detail records",
            get_resource("cdrs"),
            (
                "id", "calldate", "calldate_local", "type", "type_label", "src", "src_name", "dst",
                "dst_name", "user_id", "user_name", "duration", "duration_hms", "billsec", "billsec_hms",
                "disposition", "destination", "context", "t_cause", "rate", "charge", "currency", "live_id",
                "call_link", "recording_files", "recording_links",
            ),
            "one row per leg: each phone of a call that rang or talked",
            column_sets={
                ACCOUNTANT: (
                    "calldate_local", "type_label", "src", "src_name", "dst", "dst_name", "user_name",
                    "billsec_hms", "rate", "charge", "currency",
                )
            },
        ),
        Preset(
            "recordings",
            "Recordings",
            get_resource("monitors"),
            (
                "id", "timestamp", "timestamp_local", "call_id", "live_id", "type", "caller", "called",
                "user_id", "user_name", "dst_name", "duration", "duration_hms", "size", "file_state", "file",
                "link",
            ),
            "one row per recording",
        ),
        Preset(
            "voicemail",
            "Voicemail",
            get_resource("voicemessages"),
            (
                "id", "origtime", "origtime_local", "call_id", "live_id", "caller", "callerid", "dialled",
                "extension_id", "folder", "is_new", "duration", "duration_hms", "transcript", "file_state",
                "file", "link",
            ),
            "one row per voice message",
        ),
        Preset(
            "messages",
            "Messages",
            get_resource("sms"),
            (
                "id", "created_at", "created_local", "type", "from", "from_name", "to", "to_name", "message",
                "result", "user_id", "user_name",
            ),
            "one row per text message",
        ),
        Preset("notes", "Notes", subresources.NOTE_ROWS, (), "one row per note"),
        Preset("chat-messages", "Chat messages", subresources.MESSAGE_ROWS, (), "one row per chat message"),
    )
}  # fmt: skip
"""Presets by the name in `/exports/<name>.csv` and `switchroom export <name>`."""
