"""What the clockwork's jobs work with. `AppContext` has all of it; so has `StandaloneSyncContext`, for a
clockwork on its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from integration.core.health import Health
from integration.core.json_records import JsonRecord
from integration.platform_api.client import Platform
from integration.settings.model import Settings
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction


class CallUpdater(Protocol):
    """What reading tells about calls, beside the records themselves (mirror/calls/store.py)."""

    def apply_poll(self, tx: Transaction, live_calls: Sequence[JsonRecord], requested_at: str) -> object: ...

    def end_missing_legs(self, tx: Transaction, leg_ids: Sequence[int], requested_at: str) -> object: ...

    def refresh(self, tx: Transaction, leg_ids: Sequence[int]) -> object: ...

    def assemble_backlog(self, tx: Transaction, limit: int) -> int: ...

    def refresh_contacts(self, tx: Transaction, contact_ids: Sequence[int]) -> object: ...


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
    def call_store(self) -> CallUpdater: ...


@dataclass(frozen=True, slots=True)
class StandaloneSyncContext:
    settings: Settings
    mirror_db: Database
    platform: Platform
    health: Health
    call_store: CallUpdater
