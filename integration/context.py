"""What routes, jobs and commands work with: the parts of one running product, made by `factory.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flask import current_app

from integration.settings.model import Settings
from integration.sqlite.database import Database

if TYPE_CHECKING:
    from integration.core.health import Health
    from integration.core.phone_numbers import Numbers
    from integration.inbox.store import Inbox
    from integration.live.hub import Hub
    from integration.mirror.calls.store import CallStore
    from integration.mirror.sync_state.media_files import Kind
    from integration.platform_api.client import Platform
    from integration.sync.jobs import Clockwork

EXTENSION = "switchroom"


@dataclass(frozen=True, slots=True)
class House:
    """The parts by name. `mirror`, `house` are databases; `inbox` wraps the third."""

    settings: Settings
    health: Health
    mirror: Database
    house: Database
    inbox: Inbox
    platform: Platform
    clockwork: Clockwork
    calls: CallStore
    numbers: Numbers
    hub: Hub
    fetch_file: Callable[[Kind, int], Path]
    """Path of a recording's or voicemail's file, fetched first where it is missing; raises PlatformError."""


def this_house() -> House:
    """The parts behind the application that serves the present request."""
    house = current_app.extensions[EXTENSION]
    assert isinstance(house, House)
    return house
