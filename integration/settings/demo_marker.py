"""Marker of the data folder of a demo, which `switchroom demo` creates."""

from __future__ import annotations

from integration.settings.model import Settings

MARKER_FILE = "demo.json"
"""File that marks the data folder of a demo. Only marked folders are emptied at the next start."""
EMAIL = "demo@example.com"
"""E-mail address of the login of a demo."""


def is_demo(settings: Settings) -> bool:
    return (settings.storage.data_dir / MARKER_FILE).is_file()
