"""An application in front of a simulated account whose settings are mirrored.

The tests of a module share it, and each changes records of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from integration.catalogue import get_resource
from integration.core import clock as clock_module
from integration.mirror.records.upsert import upsert
from integration.simulator import embed
from tests.support.clock import Clock
from tests.support.simulated_app import SimulatedApp

MIRRORED = (
    "users", "ddis", "contacts", "queues", "ringgroups", "ivrs", "conferences", "routingrules", "usergroups",
    "usergrouppolicies", "queuegroups", "vmannouncements", "calltracking/campaigns", "calltracking/ddis",
    "callmeback/settings", "reportschedules", "monitors", "voicemessages", "calllabels",
    "sms/cannedresponses", "ringgroups/dictionaries", "reportschedules/dictionaries",
)  # fmt: skip


class AccountOffice(SimulatedApp):
    """Application with the account's settings in its mirror."""

    def mirror(self, *collections: str) -> None:
        """Store the platform's records of these collections."""
        for name in collections:
            found = self.context.platform.page(name)
            self.mirror_db.write(
                lambda tx, name=name, found=found: upsert(
                    tx,
                    get_resource(name),
                    found.records,
                    source="sync",
                    requested_at=clock_module.utc_text(),
                )
            )

    def first_id(self, collection: str) -> int:
        return int(next(iter(self.records(collection).values()))["id"])

    def sent(self, method: str, path: str) -> list[int]:
        """Statuses of the requests with this path that the platform received."""
        log = self.simulator.context.request_log
        return [one["status"] for one in log if one["method"] == method and one["path"].endswith(path)]

    def on_platform(self, path: str) -> dict[str, Any]:
        """Record that the platform returns at its own path."""
        return dict(self.context.platform.item(path).values)

    def listed(self, page_path: str) -> list[dict[str, Any]]:
        """The record of a page in the platform's list and in the mirror's table."""
        collection, _, number = page_path.removeprefix("/account/").rpartition("/")
        on_platform = next(one for one in self.list_records(collection) if str(one["id"]) == number)
        rows = self.rows(f"SELECT _doc FROM {get_resource(collection).table} WHERE id = ?", number)
        return [on_platform, json.loads(rows[0][0])]


@contextmanager
def run_account_office(folder: Path) -> Iterator[AccountOffice]:
    simulator = embed.start(seed=5, cdrs=20)
    office = AccountOffice(folder, Clock(), simulator, dashboard__country="GB")
    try:
        office.control("calls", script="voicemail", instant=True)
        office.mirror(*MIRRORED)
        yield office
    finally:
        office.close()
        simulator.stop()
