"""Polls of `/calls`: ghosts are closed, and calls that no webhook told are seen."""

from __future__ import annotations

from integration.catalogue import resource
from integration.core import clock
from integration.core.errors import PlatformError, PlatformRefused
from integration.core.json_records import Document
from integration.mirror.page_queries import open_legs as presence
from integration.mirror.records.upsert import delete_rows, upsert, usable_key
from integration.mirror.sync_state import collection_state as walks
from integration.mirror.sync_state import lookup_queue as lookups
from integration.sqlite.transaction import Transaction
from integration.sync.context import Parts
from integration.sync.plan import SETTINGS_SECONDS
from integration.sync.reading.pages import by_pages

SILENCE_SECONDS = 3600.0
"""A call that REST showed within this time and no webhook told means that webhooks are silent."""

YOUNG_SECONDS = 3.0
"""A leg a webhook told of just now may not be listed yet."""

MOST_ASKED = 20
"""Missing legs asked for by their own path after one poll."""


def needed(parts: Parts) -> bool:
    """Whether calls are open, webhooks silent, or the last poll is as old as a list may be."""
    since = clock.stamp(clock.unix() - SILENCE_SECONDS)
    oldest = clock.stamp(clock.unix() - SETTINGS_SECONDS)
    with parts.mirror.read() as connection:
        polled = walks.state_of(connection, "calls").last_success_at
        if polled is None or not oldest < polled <= clock.stamp():
            return True
        return bool(presence.open_legs(connection)) or presence.untold(connection, since)


def poll(parts: Parts) -> int:
    """One poll; returns how many legs are alive. Raises PlatformError.

    A leg that is known to be open and missing from the list is asked for by its own path: 404 ends it by
    inference; anything else leaves it unconfirmed.
    """
    calls = resource("calls")
    asked_at = clock.stamp()
    listed = [
        document for window in by_pages(parts.platform, calls, tries=1) for document in window.documents
    ]
    alive = {usable_key(calls, document) for document in listed}
    before = clock.stamp(clock.unix() - YOUNG_SECONDS)
    with parts.mirror.read() as connection:
        missing = [leg for leg in presence.open_legs(connection, before) if leg not in alive]
    found, gone = _ask_for(parts, missing[:MOST_ASKED])

    def job(tx: Transaction) -> None:
        walks.polled(tx, "calls", len(listed))
        documents = [*listed, *found]
        upsert(tx, calls, documents, source="sync", asked_at=asked_at)
        parts.calls.poll(tx, documents, asked_at)
        if gone:
            parts.calls.gone(tx, gone, asked_at)
            delete_rows(tx, calls, gone)
            for leg in gone:
                # Its CDR settles how it ended; nothing else will have asked for it.
                lookups.want(tx, leg, asked_at)
        # A hang-up may have come by webhook while the list was on its way.
        delete_rows(tx, calls, presence.ended_legs(tx))

    parts.mirror.write(job)
    return len(alive) + len(found)


def _ask_for(parts: Parts, legs: list[int]) -> tuple[list[Document], list[int]]:
    """Legs by their own path: the records of those alive, the ids of those gone."""
    found: list[Document] = []
    gone: list[int] = []
    for leg_id in legs:
        try:
            found.append(parts.platform.item(f"/calls/{leg_id}", tries=1))
        except PlatformRefused as error:
            if error.status == 404:
                gone.append(leg_id)
        except PlatformError:
            # Not known; it stays unconfirmed, and the next poll asks again.
            break
    return found, gone
