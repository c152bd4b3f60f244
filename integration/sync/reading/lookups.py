"""Looking up at once what a webhook announced: CDRs and recordings of legs that ended, by live_id."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from integration.catalogue import resource
from integration.core import clock
from integration.core.errors import PlatformRefused
from integration.mirror.records.upsert import upsert
from integration.mirror.sync_state import lookup_queue as lookups
from integration.mirror.sync_state.lookup_queue import Due
from integration.platform_api.paging import Condition
from integration.sqlite.transaction import Transaction
from integration.sync.context import Parts
from integration.sync.reading.pages import Window, by_key
from integration.sync.reading.windows import matching

log = logging.getLogger(__name__)

BATCH = 50
"""Ids in one `in` filter: a URL of some two thousand characters."""


def look_up(parts: Parts) -> int:
    """Ask for what is due, in batches; returns how many were asked for.

    Raises PlatformError; what was not answered stays due, and no try is counted.
    """
    done, now = 0, clock.unix()
    with parts.mirror.read() as connection:
        set_back = lookups.ahead(connection, now)
    if set_back:
        parts.mirror.write(lambda tx: lookups.set_right(tx, now))
    while True:
        with parts.mirror.read() as connection:
            batch = lookups.due(connection, clock.unix(), BATCH)
        if not batch:
            return done
        _settle(parts, batch, _ask(parts, batch))
        done += len(batch)


def _ask(parts: Parts, batch: Sequence[Due]) -> list[tuple[str, Window]]:
    legs = [entry.id for entry in batch if entry.kind == "leg"]
    monitors = [entry.id for entry in batch if entry.kind == "monitor"]
    found: list[tuple[str, Window]] = []
    if legs:
        found += _read(parts, "cdrs", "live_id", legs)
        found += _read(parts, "monitors", "live_id", legs)
    if monitors:
        found += _read(parts, "monitors", "id", monitors)
    return found


def _read(parts: Parts, collection: str, name: str, ids: list[int]) -> list[tuple[str, Window]]:
    try:
        return _by_condition(parts, collection, (name, "in", ids))
    except PlatformRefused as error:
        if error.status != 400 or len(ids) == 1:
            raise
        # `in` is in the specification, but only `eq` was seen at work for sure (observed.md §3).
        log.info("%s; asking for each by itself", error)
        return [found for number in ids for found in _by_condition(parts, collection, (name, "eq", number))]


def _by_condition(parts: Parts, collection: str, condition: Condition) -> list[tuple[str, Window]]:
    of = resource(collection)
    found = matching(parts.platform, of, [condition], tries=1)
    if found is not None:
        return [(collection, found)]
    return [(collection, window) for window in by_key(parts.platform, of, [condition], tries=1)]


def _settle(parts: Parts, batch: Sequence[Due], found: Sequence[tuple[str, Window]]) -> None:
    def job(tx: Transaction) -> list[int]:
        for collection, window in found:
            upsert(tx, resource(collection), window.documents, source="sync", asked_at=window.asked_at)
        return lookups.looked(tx, batch, clock.unix())

    unlearnt = parts.mirror.write(job)
    if unlearnt:
        log.warning("a day after their end there is no CDR of legs %s", unlearnt)
