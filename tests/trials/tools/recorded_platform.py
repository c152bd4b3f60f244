"""Platform of recorded and hand-written exchanges, as an HTTP server.

It shares no code and no assumption with the simulator. Records begin as those of `tests/fixtures/platform`;
a test changes them by hand.
"""

from __future__ import annotations

from typing import Any

from integration.sync.plan import PLAN
from tests.support.fake_exchange import API_KEY, FIXTURES, add_account, read_fixture
from tests.support.platform_collection import PlatformCollection
from tests.support.scripted_server import Server

USER_ID = "1000001"
EMPTY = {"data": [], "total": 0, "links": {}}


class RecordedPlatform(Server):
    """Server that lists the recorded records of each collection, and no others.

    `collections` holds those with a recorded list. All other paths respond with an empty list.
    """

    def __init__(self) -> None:
        super().__init__(base="/v1.2")
        self.respond("*", EMPTY)
        add_account(self)
        self.collections = {
            name: PlatformCollection(self, name, *read_records(name)) for name in list_recorded()
        }

    @property
    def url(self) -> str:
        """The base URL."""
        return super().url + self.base

    user_id, api_key = USER_ID, API_KEY


def list_recorded() -> list[str]:
    """Collections with a recorded list of records that have an id."""
    return [name for name in PLAN if any("id" in record for record in read_records(name))]


def read_records(collection: str) -> list[dict[str, Any]]:
    """Return the recorded records of a collection; none without a recording."""
    if not (FIXTURES / f"response-{collection}-list-200.json").exists():
        return []
    records: list[dict[str, Any]] = read_fixture(f"response-{collection}-list-200")["data"]
    return records
