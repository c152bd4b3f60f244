"""Labels and icons of call states and directions, for pages and exports."""

from __future__ import annotations

from collections.abc import Mapping

STATE_LABELS: Mapping[str, tuple[str, str]] = {
    "ringing": ("Ringing", "bell"),
    "dialling": ("Dialling", "dial"),
    "talking": ("Talking", "handset"),
    "on_hold": ("On hold", "pause"),
    "unconfirmed": ("Unconfirmed", "question"),
    "answered": ("Answered", "check"),
    "voicemail": ("Voicemail", "voicemail"),
    "missed": ("Missed", "missed"),
    "abandoned": ("Abandoned", "missed"),
    "not_answered": ("No answer", "stop"),
    "internal": ("Internal", "internal"),
    "ended": ("Ended", "check"),
    "idle": ("Free", "user"),
    "dnd": ("Do not disturb", "stop"),
}
"""(Label, icon) by state. The class of the same name in app.css has the colour."""

DIRECTION_LABELS: Mapping[str, tuple[str, str]] = {
    "in": ("Inbound", "in"),
    "out": ("Outbound", "out"),
    "internal": ("Internal", "internal"),
}
"""(Label, icon) by direction."""
