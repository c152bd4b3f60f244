"""Live polls: end ghost calls, find and complete new calls."""

from __future__ import annotations

import logging

from integration.catalogue import get_resource
from integration.context import SyncContext
from integration.core import clock
from integration.core.errors import (
    PlatformBroken,
    PlatformError,
    PlatformRefused,
    UnreadableRecords,
    UnusableBody,
)
from integration.core.json_records import JsonRecord
from integration.mirror.calls import live_table
from integration.mirror.page_queries import live
from integration.mirror.records.upsert import delete_rows, get_usable_key
from integration.mirror.sync_state import collection_state, lookup_queue
from integration.sqlite.transaction import Transaction
from integration.sync.plan import LIST_REFRESH_SECONDS, WEBHOOK_SILENCE_SECONDS, is_due
from integration.sync.reading.collection_reader import CollectionReader

log = logging.getLogger(__name__)

MIN_LEG_AGE_SECONDS = 3.0
"""Seconds after a webhook in which its leg may be unlisted."""

MAX_LEG_REQUESTS = 20
"""Maximum number of missing legs requested by their own paths after one poll."""

MAX_NEW_LEG_REQUESTS = 10
"""Maximum number of new legs requested by their own paths.

One poll reads a larger number with fewer requests.
"""


def needed(context: SyncContext) -> bool:
    """Return whether a live poll is due.

    It is due while calls are open or webhooks are silent, and every LIST_REFRESH_SECONDS.
    """
    since = clock.utc_text(clock.unix() - WEBHOOK_SILENCE_SECONDS)
    with context.mirror_db.read() as connection:
        last_poll_at = collection_state.get_state(connection, "calls").last_success_at
        if is_due(last_poll_at, LIST_REFRESH_SECONDS):
            return True
        return bool(
            live_table.list_open_legs(connection) or live.count_calls_without_webhook(connection, since)
        )


def poll(context: SyncContext) -> int:
    """Poll `/calls` once. Returns the number of legs in progress. Raises PlatformError.

    An open leg that is missing from the list is requested by its own path: a 404 ends the leg by inference,
    any other failure leaves it unconfirmed.
    """
    calls = get_resource("calls")
    started_at = clock.unix()
    requested_at = clock.utc_text(started_at)
    windows = list(CollectionReader(context.platform, calls, tries=1).by_pages())
    for window in windows:
        if window.unreadable:
            # An unreadable call would count as missing from the list.
            raise UnreadableRecords(window.unreadable[0])
    listed_records = [record for window in windows for record in window.records]
    listed_legs = {get_usable_key(calls, record) for record in listed_records}
    seen_before = clock.utc_text(clock.unix() - MIN_LEG_AGE_SECONDS)
    with context.mirror_db.read() as connection:
        missing_legs = [
            leg for leg in live_table.list_open_legs(connection, seen_before) if leg not in listed_legs
        ]
    found_records, ended_legs = _request_legs(context, missing_legs[:MAX_LEG_REQUESTS])

    def job(tx: Transaction) -> None:
        collection_state.record_poll(tx, "calls", len(listed_records), requested_at)
        records = [*listed_records, *found_records]
        # First the facts: a poll that lists a leg again reverts an end by inference.
        context.call_store.apply_poll(tx, records, requested_at)
        live_table.store_records(tx, records, source="sync", requested_at=started_at)
        if ended_legs:
            context.call_store.end_missing_legs(tx, ended_legs, requested_at)
            delete_rows(tx, calls, ended_legs)
            for leg in ended_legs:
                # The CDR has the outcome, and no hang-up event has requested it.
                lookup_queue.enqueue_leg(tx, leg, requested_at)
        # A webhook may have reported a hang-up while the list was in transit.
        live_table.remove_ended_legs(tx)

    context.mirror_db.write(job)
    return len(listed_legs) + len(found_records)


def read_new_legs(context: SyncContext) -> int:
    """Request each live call once that only webhooks reported.

    Their rows then have all fields of the platform. Returns the number of requests. Raises PlatformError
    during an outage; the next poll then completes the rows.
    """
    with context.mirror_db.read() as connection:
        new_legs = live_table.list_unread_legs(connection, MAX_NEW_LEG_REQUESTS + 1)
    if len(new_legs) > MAX_NEW_LEG_REQUESTS:
        poll(context)
        return 1
    for leg_id in new_legs:
        try:
            _read_new_leg(context, leg_id)
        except (PlatformRefused, UnusableBody) as error:
            # Not a line of the usual log: a busy office has several such calls a second.
            log.debug("live call %s has no record yet: %s", leg_id, error)
    return len(new_legs)


def _read_new_leg(context: SyncContext, leg_id: int) -> None:
    """Request a live call that only webhooks reported.

    Raises PlatformRefused or PlatformBroken. A 404 ends no leg here: the webhook may be ahead of the
    platform's list. Polls decide.
    """
    requested_at = clock.unix()
    try:
        record = context.platform.item(f"/calls/{leg_id}", tries=1)
    except (PlatformRefused, PlatformBroken):
        context.mirror_db.write(lambda tx: context.call_store.record_leg_request(tx, leg_id))
        raise

    def job(tx: Transaction) -> None:
        live_table.store_read(tx, context.call_store, [record], source="sync", requested_at=requested_at)
        # The response may name another leg.
        context.call_store.record_leg_request(tx, leg_id)

    context.mirror_db.write(job)


def _request_legs(context: SyncContext, legs: list[int]) -> tuple[list[JsonRecord], list[int]]:
    """Request legs by their own paths.

    Returns the records of open legs and the ids of ended legs.
    """
    found_records: list[JsonRecord] = []
    ended_legs: list[int] = []
    for leg_id in legs:
        try:
            found_records.append(context.platform.item(f"/calls/{leg_id}", tries=1))
        except PlatformRefused as error:
            if error.status == 404:
                ended_legs.append(leg_id)
        except PlatformError:
            # The state of the leg is unknown: it stays unconfirmed until the next poll.
            break
    return found_records, ended_legs
