"""Meanings of codes: `/<collection>/dictionaries`.

Only the paths are specified. The form (one record per code with `property`, `id`, `name`) and most names are
invented. The codes are those that records of this simulator use.
"""

from __future__ import annotations

from typing import Any

from integration.simulator.http.forms import REPORT_FORMATS, REPORTS

Record = dict[str, Any]

_DESTINATIONS = {
    "U": "User",
    "V": "Voicemail",
    "R": "Ring group",
    "I": "IVR",
    "Q": "Queue",
    "C": "Conference room",
    "H": "Hang up",
}
_CODES: dict[str, dict[str, dict[Any, str]]] = {
    "cdrs": {
        "type": {"O": "Outbound", "I": "Inbound", "M": "Missed"},
        "disposition": {
            "INITIAL": "Not rung",
            "RINGING": "Not answered",
            "CONNECTED": "Answered",
            "ON_HOLD": "Ended on hold",
            "VM": "Voicemail",
        },
        "destination": {
            "in": "Incoming",
            "out": "Outgoing",
            "webcall": "Web call",
            "callmeback": "Call me back",
        },
        "context": {
            "LOCAL_USER": "Call to a user",
            "USER_LOCAL": "Call between users",
            "PSTN_CALL": "Call to the public network",
            "CLICK_TO_CALL": "Click to call",
            "Queue": "Queue",
            "VOICEMAIL": "Voicemail",
        },
    },
    "sms": {"type": {"I": "Inbound", "O": "Outbound"}, "result": {"OK": "Sent"}},
    "ddis": {
        "status": {"A": "Active"},
        "flag": {"N": "None"},
        "target_type": _DESTINATIONS,
    },
    "ringgroups": {"strategy": {"A": "Ring all", "H": "Hunt"}, "final_dst_type": _DESTINATIONS},
    "mediasessions": {"status": {"ACTIVE": "Going on", "ENDED": "Ended"}, "type": {"audio": "Audio"}},
    "msdrs": {"type": {"audio": "Audio"}},
    "reportschedules": {
        "report_id": REPORTS,
        "format": {word: word.upper() for word in REPORT_FORMATS},
        "status": {"A": "Active", "P": "Paused"},
        "frequency": {"D": "Daily", "W": "Weekly", "M": "Monthly"},
    },
}

FIELDS = ("property", "id", "name")
COLLECTIONS = tuple(_CODES)


def list_codes(collection: str) -> list[Record]:
    """List the codes of one collection as records."""
    return [
        {"property": name, "id": code, "name": label}
        for name, labels in _CODES[collection].items()
        for code, label in labels.items()
    ]
