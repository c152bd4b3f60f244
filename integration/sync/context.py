"""What the clockwork's jobs work with. `House` has all of it; so has `Gear`, for a clockwork on its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from integration.core.health import Health
from integration.core.json_records import Document
from integration.platform_api.client import Platform
from integration.settings.model import Settings
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction


class Calls(Protocol):
    """What reading tells about calls, beside the records themselves (mirror/calls/store.py)."""

    def poll(self, tx: Transaction, live_documents: Sequence[Document], asked_at: str) -> object: ...

    def gone(self, tx: Transaction, leg_ids: Sequence[int], asked_at: str) -> object: ...

    def refresh(self, tx: Transaction, leg_ids: Sequence[int]) -> object: ...

    def catch_up(self, tx: Transaction, limit: int) -> int: ...

    def contacts_changed(self, tx: Transaction, contact_ids: Sequence[int]) -> object: ...


class Parts(Protocol):
    @property
    def settings(self) -> Settings: ...
    @property
    def mirror(self) -> Database: ...
    @property
    def platform(self) -> Platform: ...
    @property
    def health(self) -> Health: ...
    @property
    def calls(self) -> Calls: ...


@dataclass(frozen=True, slots=True)
class Gear:
    settings: Settings
    mirror: Database
    platform: Platform
    health: Health
    calls: Calls
