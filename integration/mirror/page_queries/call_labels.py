"""Labels and icons of call states, outcomes and directions, for pages, alerts and exports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Label(NamedTuple):
    """Text of a state, and the name of its icon."""

    text: str
    icon: str


STATE_LABELS: Mapping[str, Label] = {
    "ringing": Label("Ringing", "bell"),
    "dialling": Label("Dialling", "dial"),
    "talking": Label("Talking", "handset"),
    "on_hold": Label("On hold", "pause"),
    "unconfirmed": Label("Unconfirmed", "question"),
    "answered": Label("Answered", "check"),
    "voicemail": Label("Voicemail", "voicemail"),
    "missed": Label("Missed", "missed"),
    "abandoned": Label("Abandoned", "missed"),
    "not_answered": Label("No answer", "stop"),
    "internal": Label("Internal", "internal"),
    "ended": Label("Ended", "check"),
    "idle": Label("Free", "user"),
    "dnd": Label("Do not disturb", "stop"),
}
"""By state. The class of the same name in app.css has the colour."""
OUTCOME_LABELS: Mapping[str, str] = {
    "answered": STATE_LABELS["answered"].text,
    "not_talked": f"{STATE_LABELS['missed'].text} or {STATE_LABELS['voicemail'].text.lower()}",
    **{state: STATE_LABELS[state].text for state in ("missed", "voicemail", "abandoned")},
    "not_answered": f"{STATE_LABELS['not_answered'].text} (outbound)",
    "internal": STATE_LABELS["internal"].text,
    "open": "In progress",
}
"""By value of the filter `outcome` of calls."""

OUTCOMES = tuple(name for name in OUTCOME_LABELS if name not in ("not_talked", "open"))
"""Values of the column `outcome`. The other filters combine or exclude them."""

DIRECTION_LABELS: Mapping[str, Label] = {
    "in": Label("Inbound", "in"),
    "out": Label("Outbound", "out"),
    "internal": Label("Internal", "internal"),
}
"""By direction."""
