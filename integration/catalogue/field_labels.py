"""Labels, groups and order of fields on pages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from integration.catalogue.shapes import Field, Resource


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


IMPLIED_REFERENCES: Mapping[str, str] = {
    "src_id": "users", "dst_id": "users", "from_id": "users", "to_id": "users", "extension_id": "users",
    "users": "users", "ivr": "ivrs", "user_id": "users",
}  # fmt: skip
"""Collections of references that the specification only implies.

A page shows a link if the record exists, else the value.
"""
DESTINATION_TYPE_FIELDS: Mapping[str, str] = {
    "final_dst_id": "final_dst_type",
    "fm_final_dst_id": "fm_final_dst_type",
    "target_id": "target_type",
}
"""Fields with the referenced record's type, by fields with its id."""
DESTINATION_TYPES: Mapping[str, tuple[str, str]] = {
    "U": ("users", "user"),
    "V": ("users", "voicemail"),
    "R": ("ringgroups", "ring group"),
    "I": ("ivrs", "IVR"),
    "Q": ("queues", "queue"),
    "C": ("conferences", "conference"),
    "H": ("", "hang up"),
}
"""Collection and label of each final_dst_type in the specification."""

_DIGIT_WORDS = _split_names("one two three four five six seven eight nine star zero hash")

_FIELD_LABELS = {
    "id": "Id", "_name": "Internal name", "cw": "Call waiting", "dnd": "Do not disturb",
    "fm": "Follow Me", "nun": "Number when offline", "cc": "Country code", "cli": "Caller ID",
    "ext": "Extension", "pos": "Position", "liaf": "LIAF", "t_cause": "Ended because",
    "billsec": "Connected time", "calldate": "Time", "src": "From", "dst": "To", "clid": "Caller ID",
    "origtime": "Time", "e164": "Number", "confno": "Conference number", "confno_pstn": "Dial-in number",
    "rec_allowed": "Ad-hoc recording", "ann_freq": "Announcement interval",
    "ann_join_leave": "Announce who joins and leaves", "cnam": "Caller name look-up",
    "fm_cli": "Caller ID", "active": "Active", "is_root": "Root", "is_initial": "Created the account",
    "moh": "Hold music", "pos_ann": "Announce the position", "hold_ann": "Announce the wait",
    "nb_sip_locations": "SIP clients", "nb_notes": "Notes", "nb_call_attempts": "Call attempts",
    "esc_cli": "Emergency caller ID", "transfer_cli": "Caller ID of transfers",
    "cli_hide": "Hide the caller ID", "cli_prefix": "Prefix the caller ID", "vm_tts": "Transcript",
    "vm_pin": "PIN", "pin": "PIN", "pin_pstn": "PIN from outside", "hash_to_exit": "# leaves",
    "email_missed": "E-mail missed calls", "customer_id_id": "Customer id", "live_id": "Call",
    "call_id": "Call id", "tel": "Telephone", "parent_live_id": "Parent call",
    "root_live_id": "First leg", "vm_new": "New messages", "vm_old": "Old messages", "is_new": "New",
    "fm_only_direct": "Only direct calls", "monitor": "Recording", "nun_only_direct": "Only direct calls",
    "rel_user_id": "Related user", "join_empty": "Join when empty", "tel_verified": "Verified",
    "random_dst": "Random destination", "two_factor_auth": "Second factor",
    "rec_never_internal": "Never record internal calls", "monitor_transcript": "Transcripts",
    "fm_init_ring_time": "Ring before forwarding", "timezone": "Time zone",
}  # fmt: skip
_WORD_LABELS = {
    "id": "id", "ddi": "DDI", "ddis": "numbers", "sip": "SIP", "ivr": "IVR", "vm": "voicemail",
    "fm": "Follow Me", "dst": "destination", "src": "source", "ua": "user agent", "moh": "hold music",
    "cli": "caller ID", "sms": "SMS", "url": "URL", "uri": "URI", "tts": "text to speech",
    "nb": "number of", "ip": "IP address", "ext": "extension", "cx": "CX", "pstn": "outside", "iso": "",
    "rec": "recording", "e164": "number", "no": "number", "mobile": "mobile", "geo": "place",
    "esc": "emergency", "pos": "position", "max": "most", "email": "e-mail", "emails": "e-mails",
    "api": "API", "dtmf": "DTMF", "info": "info",
}  # fmt: skip
_PREFIX_HEADINGS = {
    "fm": "Follow Me", "vm": "Voicemail", "nun": "When the phone is offline", "src": "From", "dst": "To",
    "rec": "Recording", "monitor": "Recording", "wrap": "Wrap-up", "visitor": "Visitor",
    "mobile": "Numbers", "tel": "Numbers", "sms": "SMS and fax", "fax": "SMS and fax", "cli": "Caller ID",
    "from": "From", "to": "To",
}  # fmt: skip
_RINGING_FIELDS = _split_names(
    "ring_time ring_strategy strategy retry skip_busy cw dnd final_dst_type final_dst_id auto_answer_header "
    "log_missed_calls email_missed pickup_group_id call_barge_allowed timeout repeats"
)
_DIALLING_FIELDS = _split_names("cli esc_cli cc area_code transfer_cli mobile mobile_activated cnam")
_CODE_PATTERN = re.compile(r"\b([A-Z]) (?:\(([^()]+)\)|is ([a-z ]+\b))")


UNDOCUMENTED_HEADING = "Not in the specification"
"""Heading of fields that only records have."""


def label_field(name: str, *, heading_prefix: str = "") -> str:
    """Return the label of a field: 'Follow Me ring time' for `fm_ring_time`.

    Under a heading, `heading_prefix` is omitted: 'Ring time' for the prefix `fm`.
    """
    if name in _FIELD_LABELS:
        return _FIELD_LABELS[name]
    segments = [segment for segment in name.split("_") if segment]
    if heading_prefix and len(segments) > 1 and segments[0] == heading_prefix:
        segments = segments[1:]
    if len(segments) > 1 and segments[-1] == "id":
        segments = segments[:-1]
    text = " ".join(filter(None, (_WORD_LABELS.get(segment, segment) for segment in segments))) or name
    return text[0].upper() + text[1:]


def _field_prefix(name: str) -> str:
    first_segment = name.split("_")[0]
    return "keys" if first_segment in _DIGIT_WORDS else first_segment


def group_fields(resource: Resource, names: Iterable[str]) -> list[tuple[str, str, list[str]]]:
    """Group field names by their heading, as (heading, prefix, field names).

    Fields without a heading come first, and undocumented fields last.
    """
    names = list(names)
    heading_sizes = Counter(_field_heading(name) for name in names)
    ungrouped: list[str] = []
    undocumented: list[str] = []
    by_heading: dict[str, tuple[str, list[str]]] = {}
    for name in names:
        heading = _field_heading(name)
        if resource.fields and resource.field(name) is None and len(resource.fields) > 1:
            undocumented.append(name)
        elif heading is not None and heading_sizes[heading] > 2:
            by_heading.setdefault(heading, (_field_prefix(name), []))[1].append(name)
        else:
            ungrouped.append(name)
    field_groups = [("", "", ungrouped)] if ungrouped else []
    field_groups += [(heading, prefix, field_names) for heading, (prefix, field_names) in by_heading.items()]
    if undocumented:
        field_groups.append((UNDOCUMENTED_HEADING, "", undocumented))
    return field_groups


def _field_heading(name: str) -> str | None:
    if name in _RINGING_FIELDS:
        return "Ringing, and when nobody answers"
    if name in _DIALLING_FIELDS:
        return "Dialling"
    prefix = _field_prefix(name)
    return "Keys" if prefix == "keys" else _PREFIX_HEADINGS.get(prefix)


def parse_codes(field: Field | None, name: str) -> dict[str, str]:
    """Parse one-letter codes from the description of a field: {'O': 'outbound', …}."""
    if name in DESTINATION_TYPE_FIELDS.values():
        return {code: word for code, (_, word) in DESTINATION_TYPES.items()}
    matches = _CODE_PATTERN.findall(field.about) if field is not None else ()
    return {code: first or second.strip() for code, first, second in matches}


_PARAMETER_WORDS = re.compile(r"(; objects \{.*\}|,) with include=\w+")


def describe(field: Field | None) -> str:
    """Return the description of a field for users, without backquotes and parameters of the API."""
    if field is None or field.about == "object id":
        return ""
    return _PARAMETER_WORDS.sub("", field.about).replace("`", "")


def order_fields(resource: Resource, names: Iterable[str]) -> list[str]:
    """Sort `names` for a record's page.

    Id and names come first, then documented fields in order, then the rest.
    """
    all_names = list(names)
    documented = [field.name for field in resource.fields if field.name in all_names]
    leading = [name for name in (resource.key, *_NAME_FIELDS) if name in documented]
    return list(dict.fromkeys([*leading, *documented, *all_names]))


def is_time_field(resource: Resource, name: str) -> bool:
    field = resource.field(name)
    if field is not None:
        return field.type == "timestamp" or name == resource.date or name.endswith("_at")
    return name.endswith("_at") or name in ("calldate", "timestamp", "date")


def fallback_title(resource: Resource, key: int | str) -> str:
    """Return the title of a nameless record: its id, else its position."""
    return str(key) if resource.key else f"no. {key}"


def remove_hidden(values: Mapping[str, Any], hidden_fields: Collection[str]) -> dict[str, Any]:
    """Return the fields of a record without the hidden fields."""
    return {name: value for name, value in values.items() if name not in hidden_fields}


def record_title(values: Mapping[str, object]) -> str:
    """Return the name of a record, its most descriptive text, or ''."""

    def get_text(name: str) -> str:
        value = values.get(name)
        return str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""

    full_name = f"{get_text('first_name')} {get_text('last_name')}".strip()
    if full_name:
        return full_name
    return next((title for name in _TITLE_FIELDS if (title := get_text(name))), "")


_NAME_FIELDS = _split_names("name first_name last_name title company description")
_TITLE_FIELDS = _split_names("name title company description filename visitor_name label text email _name")

_PREFERRED_COLUMNS = _split_names(
    "ext number confno e164 state type direction disposition status src dst caller called from to "
    "visitor_name visitor_email message text duration billsec pages user_id charge email company tel mobile "
    "group_name target_id cli active dnd is_root two_factor_auth is_new transcript users strategy "
    "ring_strategy ring_time action source destination description context product_code color frequency "
    "next_run_at result"
)
_EXCLUDED_COLUMNS = _split_names("is_initial visited_apps customer")
MAX_COLUMNS = 7


def choose_columns(
    resource: Resource, undocumented_fields: Iterable[str], filled_fields: Collection[str]
) -> tuple[str, ...]:
    """Choose the default columns of a list, at most MAX_COLUMNS.

    Preferred fields, which distinguish records best, come first. The other scalar fields follow in the order
    of the specification. The record's name and time are excluded, because they have separate columns. Fields
    without a value in any record (not in `filled_fields`) are omitted, unless `filled_fields` is empty.
    """
    documented = [
        field.name for field in resource.fields if not field.item_only and field.meaning != "secret"
    ]
    documented_set = set(documented)
    title_fields = {"first_name", "last_name", "name", resource.key, resource.date}
    preferred = [name for name in _PREFERRED_COLUMNS if name in documented_set and name not in title_fields]
    scalar_fields = {field.name for field in resource.fields if field.actual_type not in ("array", "object")}
    excluded = {*title_fields, *_EXCLUDED_COLUMNS}
    remaining = [
        name
        for name in documented
        if name in scalar_fields and name not in excluded and not name.endswith("_id")
    ]
    undocumented = (
        [name for name in undocumented_fields if name not in title_fields] if len(resource.fields) < 4 else []
    )
    column_names = dict.fromkeys([*preferred, *undocumented, *remaining])
    return tuple(name for name in column_names if name in filled_fields or not filled_fields)[:MAX_COLUMNS]
