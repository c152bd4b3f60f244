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
    from integration.access.authenticator import Authenticator
    from integration.core.health import Health
    from integration.core.phone_numbers import PhoneNumbers
    from integration.core.scheduler import Scheduler
    from integration.inbox.store import Inbox
    from integration.live.hub import Hub
    from integration.mirror.calls.store import CallStore
    from integration.mirror.sync_state.media_files import MediaKind
    from integration.platform_api.client import Platform
    from integration.sync.jobs import SyncJobs

EXTENSION = "switchroom"


@dataclass(frozen=True, slots=True)
class AppContext:
    """The parts by name. `mirror_db`, `app_db` are databases; `inbox` wraps the third."""

    settings: Settings
    health: Health
    mirror_db: Database
    app_db: Database
    inbox: Inbox
    platform: Platform
    scheduler: Scheduler
    sync_jobs: SyncJobs
    call_store: CallStore
    phone_numbers: PhoneNumbers
    live_hub: Hub
    authenticator: Authenticator
    fetch_file: Callable[[MediaKind, int], Path]
    """Path of a recording's or voicemail's file, fetched first where it is missing; raises PlatformError."""


def app_context() -> AppContext:
    """The parts behind the application that serves the present request."""
    context = current_app.extensions[EXTENSION]
    assert isinstance(context, AppContext)
    return context
