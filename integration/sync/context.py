"""Services that sync jobs use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from integration.core.health import Health
    from integration.mirror.calls.store import CallStore
    from integration.platform_api.client import Platform
    from integration.settings.model import Settings
    from integration.sqlite.database import Database


@dataclass(frozen=True, slots=True)
class SyncContext:
    """Services without an application; `AppContext` has more."""

    settings: Settings
    mirror_db: Database
    platform: Platform
    health: Health
    call_store: CallStore
