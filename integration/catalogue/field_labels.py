"""How fields are named and grouped for people, and which of them are numbers, times, durations.

The catalogue gives names and types as the specification has them; that `ring_time` is seconds and `cli` a
telephone number is told by its prose alone, so it stands here, by name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from integration.catalogue.shapes import Field, Resource


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


PHONES = _names(
    "src dst caller called dialled from to e164 cli esc_cli mobile mobile_1 mobile_2 tel tel_1 tel_2 nun "
    "fm_targets from_no to_no phone phone_number confno_pstn ddis"
)
"""Fields that hold telephone numbers, where they are numbers at all."""

DURATIONS = _names("duration billsec from_duration to_duration")
SECONDS = _names(
    "ring_time fm_ring_time fm_init_ring_time nun_ring_time wrap_up_time max_wait_time "
    "wrap_up_panel_timeout retry timeout ann_freq"
)
UNIX_TIMES = _names("connected_at start_time dst_connection")
"""Live calls carry these as Unix seconds (observed.md §4)."""
BYTES = _names("size")
LONG = _names("transcript transcript_speakers summary message notes description text")
"""Prose, which keeps its lines."""
SOFT: Mapping[str, str] = {
    "src_id": "users", "dst_id": "users", "from_id": "users", "to_id": "users", "extension_id": "users",
    "users": "users", "ivr": "ivrs", "user_id": "users",
}  # fmt: skip
"""References the specification only hints at: a link where the record exists, else just the value."""
DESTINATIONS: Mapping[str, str] = {
    "final_dst_id": "final_dst_type",
    "fm_final_dst_id": "fm_final_dst_type",
    "target_id": "target_type",
}
"""Ids of whatever their type says."""
DESTINATION_TYPES: Mapping[str, tuple[str, str]] = {
    "U": ("users", "user"),
    "V": ("users", "voicemail"),
    "R": ("ringgroups", "ring group"),
    "I": ("ivrs", "IVR"),
    "Q": ("queues", "queue"),
    "C": ("conferences", "conference"),
    "H": ("", "hang up"),
}
"""final_dst_type of the specification: the collection it leads to, and the word."""

_DIGITS = _names("one two three four five six seven eight nine star zero hash")

_WHOLE = {
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
_WORDS = {
    "id": "id", "ddi": "DDI", "ddis": "numbers", "sip": "SIP", "ivr": "IVR", "vm": "voicemail",
    "fm": "Follow Me", "dst": "destination", "src": "source", "ua": "user agent", "moh": "hold music",
    "cli": "caller ID", "sms": "SMS", "url": "URL", "uri": "URI", "tts": "text to speech",
    "nb": "number of", "ip": "IP address", "ext": "extension", "cx": "CX", "pstn": "outside", "iso": "",
    "rec": "recording", "e164": "number", "no": "number", "mobile": "mobile", "geo": "place",
    "esc": "emergency", "pos": "position", "max": "most", "email": "e-mail", "emails": "e-mails",
    "api": "API", "dtmf": "DTMF", "info": "info",
}  # fmt: skip
_PREFIXES = {
    "fm": "Follow Me", "vm": "Voicemail", "nun": "When the phone is offline", "src": "From", "dst": "To",
    "rec": "Recording", "monitor": "Recording", "wrap": "Wrap-up", "visitor": "Visitor",
    "mobile": "Numbers", "tel": "Numbers", "sms": "SMS and fax", "fax": "SMS and fax", "cli": "Caller ID",
    "from": "From", "to": "To",
}  # fmt: skip
_RINGING = _names(
    "ring_time ring_strategy strategy retry skip_busy cw dnd final_dst_type final_dst_id auto_answer_header "
    "log_missed_calls email_missed pickup_group_id call_barge_allowed timeout repeats"
)
_DIALLING = _names("cli esc_cli cc area_code transfer_cli mobile mobile_activated cnam")
_CODE = re.compile(r"\b([A-Z]) (?:\(([^()]+)\)|is ([a-z ]+\b))")
_SOURCE = re.compile(r"\s*\((?:[^()]*\b)?observed\.md[^()]*\)")


def label(name: str, *, within: str = "") -> str:
    """'Follow Me ring time' for `fm_ring_time`; under the heading of its prefix (`within`) 'Ring time'."""
    if name in _WHOLE:
        return _WHOLE[name]
    parts = [part for part in name.split("_") if part]
    if within and len(parts) > 1 and parts[0] == within:
        parts = parts[1:]
    if len(parts) > 1 and parts[-1] == "id":
        parts = parts[:-1]
    words = " ".join(filter(None, (_WORDS.get(part, part) for part in parts))) or name
    return words[0].upper() + words[1:]


def _prefix(name: str) -> str:
    first = name.split("_")[0]
    return "keys" if first in _DIGITS else first


def groups(resource: Resource, names: Iterable[str]) -> list[tuple[str, str, list[str]]]:
    """(heading, prefix, field names): what shares a known prefix together, the rest before it, fields nobody
    documented behind."""
    names = list(names)
    sizes = Counter(_heading(name) for name in names)
    general: list[str] = []
    strange: list[str] = []
    shared: dict[str, tuple[str, list[str]]] = {}
    for name in names:
        heading = _heading(name)
        if resource.fields and resource.field(name) is None and len(resource.fields) > 1:
            strange.append(name)
        elif heading is not None and sizes[heading] > 2:
            shared.setdefault(heading, (_prefix(name), []))[1].append(name)
        else:
            general.append(name)
    found = [("", "", general)] if general else []
    found += [(heading, prefix, members) for heading, (prefix, members) in shared.items()]
    if strange:
        found.append(("Not in the specification", "", strange))
    return found


def _heading(name: str) -> str | None:
    if name in _RINGING:
        return "Ringing, and when nobody answers"
    if name in _DIALLING:
        return "Dialling"
    prefix = _prefix(name)
    return "Keys" if prefix == "keys" else _PREFIXES.get(prefix)


def codes(field: Field | None, name: str) -> dict[str, str]:
    """What the specification's prose says of a field's one-letter codes: {'O': 'outbound', …}."""
    if name in DESTINATIONS.values():
        return {letter: word for letter, (_, word) in DESTINATION_TYPES.items()}
    found = _CODE.findall(field.about) if field is not None else ()
    return {letter: first or second.strip() for letter, first, second in found}


def about(field: Field | Resource | None) -> str:
    """What the catalogue says of a field or a collection, without its sources."""
    if field is None or field.about == "object id":
        return ""
    return _SOURCE.sub("", field.about).replace("`", "")


def ordered(resource: Resource, names: Iterable[str]) -> list[str]:
    """`names` in the order of a record's page: id and names first, the catalogue's order, then the rest."""
    present = list(names)
    known = [field.name for field in resource.fields if field.name in present]
    first = [name for name in (resource.key, *_NAMES) if name in known]
    return list(dict.fromkeys([*first, *known, *present]))


def is_time(resource: Resource, name: str) -> bool:
    field = resource.field(name)
    if field is not None:
        return field.type == "timestamp" or name == resource.date or name.endswith("_at")
    return name.endswith("_at") or name in ("calldate", "timestamp", "date")


def numbered(resource: Resource, key: int | str) -> str:
    """What a record without a name is called: its id, else its place."""
    return str(key) if resource.key else f"no. {key}"


def without(values: Mapping[str, Any], hidden: Collection[str]) -> dict[str, Any]:
    """A record's fields but those that are hidden."""
    return {name: value for name, value in values.items() if name not in hidden}


def title_of(values: Mapping[str, object]) -> str:
    """What a record is called: its name, else what tells it best; '' if nothing does."""

    def text(name: str) -> str:
        value = values.get(name)
        return str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""

    person = f"{text('first_name')} {text('last_name')}".strip()
    if person:
        return person
    return next((found for name in _TITLES if (found := text(name))), "")


_NAMES = _names("name first_name last_name title company description")
_TITLES = _names("name title company description filename visitor_name label text email _name")

_PREFERRED = _names(
    "ext number confno e164 state type direction disposition status src dst caller called from to "
    "visitor_name visitor_email message text duration billsec pages user_id charge email company tel mobile "
    "group_name target_id cli active dnd is_root two_factor_auth is_new transcript users strategy "
    "ring_strategy ring_time action source destination description context product_code color frequency "
    "next_run_at result"
)
_DULL = _names("is_initial visited_apps customer")
MOST_COLUMNS = 7


def columns(resource: Resource, strange: Iterable[str], filled: Collection[str]) -> tuple[str, ...]:
    """The fields a list shows unless asked otherwise: what people tell records apart by, then the rest in
    the specification's order, scalars only; the record's name and time stand in columns of their own. What no
    record fills (is not in `filled`) is left out, unless nothing is filled."""
    given = [field.name for field in resource.fields if not field.item_only and not field.secret]
    known = set(given)
    named = {"first_name", "last_name", "name", resource.key, resource.date}
    chosen = [name for name in _PREFERRED if name in known and name not in named]
    plain = {field.name for field in resource.fields if field.real_type not in ("array", "object")}
    dull = {*named, *_DULL}
    rest = [name for name in given if name in plain and name not in dull and not name.endswith("_id")]
    extra = [name for name in strange if name not in named] if len(resource.fields) < 4 else []
    found = dict.fromkeys([*chosen, *extra, *rest])
    return tuple(name for name in found if name in filled or not filled)[:MOST_COLUMNS]
