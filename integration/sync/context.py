"""Services that sync jobs use.

`AppContext` implements `SyncContext`. `StandaloneSyncContext` serves jobs without an application.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from integration.core.health import Health
from integration.mirror.calls.store import CallStore
from integration.platform_api.client import Platform
from integration.settings.model import Settings
from integration.sqlite.database import Database


class SyncContext(Protocol):
    @property
    def settings(self) -> Settings: ...
    @property
    def mirror_db(self) -> Database: ...
    @property
    def platform(self) -> Platform: ...
    @property
    def health(self) -> Health: ...
    @property
    def call_store(self) -> CallStore: ...


@dataclass(frozen=True, slots=True)
class StandaloneSyncContext:
    settings: Settings
    mirror_db: Database
    platform: Platform
    health: Health
    call_store: CallStore
