"""What the platform answered with 202 is only accepted: looked at again until it is done."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

import orjson

from integration.catalogue import resource
from integration.context import House
from integration.core import clock
from integration.core.errors import PlatformError
from integration.core.json_records import read_page
from integration.mirror.records import single_record as records
from integration.mirror.sync_state import pending_deletions as accepted
from integration.mirror.sync_state.pending_deletions import Accepted
from integration.platform_api.budget import BACKGROUND, PEOPLE, Who
from integration.sqlite.transaction import Transaction

log = logging.getLogger(__name__)

EVERY_SECONDS = 1.0


def follow_up(house: House) -> None:
    """One round over what is due. A platform that is away counts as a look that found nothing done."""
    with house.mirror.read() as connection:
        entries = accepted.due(connection, clock.unix())
    _look(house, entries, BACKGROUND)


def look_at_once(house: House, collection: str) -> None:
    """What was just accepted of `collection`, for somebody who waits: most of it is done by now, and who
    deletes looks next whether it worked. Never waits for the scheduler's turn."""
    with house.mirror.read() as connection:
        entries = [e for e in accepted.due(connection, clock.unix()) if e.collection == collection]
    _look(house, entries, PEOPLE)


def _look(house: House, entries: Iterable[Accepted], who: Who) -> None:
    for entry in entries:
        try:
            left = _left(house, entry, who)
        except PlatformError as error:
            log.info("/%s: whether the deletion is done is not known yet: %s", entry.collection, error)
            house.mirror.write(partial(accepted.later, entry=entry, left=entry.keys))
            continue
        _note(house, entry, left)


def _left(house: House, entry: Accepted, who: Who) -> list[int]:
    """The keys that are still there; of a whole collection one of them."""
    target = resource(entry.collection)
    params: dict[str, object] = {"limit": 1}
    if entry.keys is not None:
        condition = [{"property": target.key, "operator": "in", "value": entry.keys}]
        params = {"filter": orjson.dumps(condition).decode(), "limit": len(entry.keys)}
    page = read_page(house.platform.get(f"/{target.collection}", params, who=who, tries=1).body)
    return [document.values[target.key or "id"] for document in page.documents]


def _note(house: House, entry: Accepted, left: list[int]) -> None:
    target = resource(entry.collection)

    def work(tx: Transaction) -> None:
        if entry.keys is not None:
            gone = [key for key in entry.keys if key not in left]
            records.mark_missing(tx, target, gone, clock.stamp())
        elif not left:
            records.mark_all_missing(tx, target, clock.stamp())
        if left:
            accepted.later(tx, entry, None if entry.keys is None else left)
        else:
            accepted.done(tx, entry)

    house.mirror.write(work)
