"""What the platform answered with 202 is only accepted: looked at again until it is done."""

from __future__ import annotations

import logging
from functools import partial

import orjson

from integration import clock
from integration.catalogue import resource
from integration.context import House
from integration.database import Transaction
from integration.documents import read_page
from integration.errors import PlatformError
from integration.mirror import accepted, records
from integration.mirror.accepted import Accepted

log = logging.getLogger(__name__)

EVERY_SECONDS = 1.0


def follow_up(house: House) -> None:
    """One round over what is due. A platform that is away counts as a look that found nothing done."""
    with house.mirror.read() as connection:
        entries = accepted.due(connection, clock.unix())
    for entry in entries:
        try:
            left = _left(house, entry)
        except PlatformError as error:
            log.info("/%s: whether the deletion is done is not known yet: %s", entry.collection, error)
            house.mirror.write(partial(accepted.later, entry=entry, left=entry.keys))
            continue
        _note(house, entry, left)


def _left(house: House, entry: Accepted) -> list[int]:
    """The keys that are still there; of a whole collection one of them."""
    target = resource(entry.collection)
    params: dict[str, object] = {"limit": 1}
    if entry.keys is not None:
        condition = [{"property": target.key, "operator": "in", "value": entry.keys}]
        params = {"filter": orjson.dumps(condition).decode(), "limit": len(entry.keys)}
    page = read_page(house.platform.get(f"/{target.collection}", params).body)
    return [document.values[target.key or "id"] for document in page.documents]


def _note(house: House, entry: Accepted, left: list[int]) -> None:
    target = resource(entry.collection)

    def work(tx: Transaction) -> None:
        if entry.keys is not None:
            gone = [key for key in entry.keys if key not in left]
            records.mark_missing(tx, target, gone, entry.asked_at)
        elif not left:
            records.mark_all_missing(tx, target, entry.asked_at)
        if left:
            accepted.later(tx, entry, None if entry.keys is None else left)
        else:
            accepted.done(tx, entry)

    house.mirror.write(work)
