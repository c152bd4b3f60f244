"""Application context: services shared by routes, jobs and commands. `factory.py` builds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from integration.access.authenticator import Authenticator
    from integration.core.health import Health
    from integration.core.phone_numbers import PhoneNumbers
    from integration.core.scheduler import Scheduler
    from integration.events.deliveries import Deliveries
    from integration.exports.runner import ExportRunner
    from integration.inbox.apply import Applier
    from integration.inbox.store import Inbox
    from integration.live.hub import Hub
    from integration.mirror.calls.store import CallStore
    from integration.mirror.derived.declaration import Rules
    from integration.mirror.privacy.erasure_gate import ErasureGate
    from integration.mirror.privacy.held_records import HeldRecords
    from integration.mirror.sync_state.media_files import MediaKind
    from integration.platform_api.client import Platform
    from integration.settings.model import Settings
    from integration.sqlite.database import Database
    from integration.sync.jobs import SyncJobs

EXTENSION = "switchroom"
"""Key of the AppContext in `Flask.extensions`."""


@dataclass(frozen=True, slots=True)
class SyncContext:
    """Services that sync jobs use."""

    settings: Settings
    mirror_db: Database
    platform: Platform
    health: Health
    call_store: CallStore


@dataclass(frozen=True, slots=True)
class AppContext(SyncContext):
    """Services of the product.

    `mirror_db` and `app_db` are databases; `inbox` wraps the third database.
    """

    app_db: Database
    inbox: Inbox
    scheduler: Scheduler
    sync_jobs: SyncJobs
    phone_numbers: PhoneNumbers
    rules: Rules
    live_hub: Hub
    event_hub: Hub
    """Receives only changes that are events, for requests that wait for them."""
    authenticator: Authenticator
    applier: Applier
    held_records: HeldRecords
    erasure_gate: ErasureGate
    fetch_file: Callable[[MediaKind, int], Path]
    """Return the path of a recording, voicemail or fax, downloaded if missing. Raises PlatformError."""
    export_runner: ExportRunner
    deliveries: Deliveries


def app_context() -> AppContext:
    """Return the services of the application that serves the current request."""
    # Imported on first use: commands without a server do not need Flask, which takes 60 ms.
    from flask import current_app

    context = current_app.extensions[EXTENSION]
    assert isinstance(context, AppContext)
    return context
