"""What a complete walk did not see: confirmed, aged out, or too much to be believed (interface.md §6).

Every engine of this kind has wiped rows by mistake once. So a record is gone only if its own path says 404,
or, where it has none, if a second complete walk misses it too; the old end of a history may age out, if
samples of it are 404; and more than BRAKE at once stop everything until a person has looked.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence

from integration.core import clock
from integration.core.errors import PlatformError, PlatformRefused
from integration.mirror.hooks import LEG_FIELDS
from integration.mirror.records import missing_records as missing
from integration.mirror.records.rows import Key
from integration.mirror.records.upsert import delete_rows
from integration.mirror.sync_state import collection_state as walks
from integration.sqlite.transaction import Transaction
from integration.sync.context import Parts
from integration.sync.plan import Policy
from integration.sync.reading.page_store import Tally

log = logging.getLogger(__name__)

BRAKE, SHARE = 20, 0.02
"""More than both – records, share of the collection – at once are not believed."""

SAMPLES = 5
"""Records at the old end that are asked for before it is taken to have aged out."""

SLICE = 500
"""Records marked in one transaction."""


def settle(parts: Parts, policy: Policy, tally: Tally) -> None:
    """Settle what the last complete walk of a collection with keys did not see.

    Raises nothing of the platform's: what could not be asked for stays as it is until the next walk.
    """
    resource = policy.resource
    with parts.mirror.read(whole=True) as connection:
        state = walks.state_of(connection, policy.collection)
        walked_from = state.walked_from
        if walked_from is None:
            return
        found = missing.unseen(connection, resource, walked_from)
    parts.mirror.write(lambda tx: missing.seen_again(tx, resource, walked_from))
    aged = _aged_out(parts, policy, walked_from, found) if found.unseen else []
    left = found.unseen - len(aged)
    _mark(parts, policy, aged, walked_from, "aged", tally)
    # Who accepted a hundred did not mean the empty list that came after.
    if left > state.accepted + max(BRAKE, SHARE * found.present):
        _stop(parts, policy, left, found.present)
        return
    release(parts, policy, state)
    if not left:
        return
    with parts.mirror.read() as connection:
        keys = missing.keys(connection, resource, walked_from)
        suspected = missing.suspected_before(connection, resource, walked_from)
    if state.accepted:
        _mark(parts, policy, keys, walked_from, "accepted", tally)
    elif own_path(policy):
        _ask(parts, policy, keys, walked_from, tally)
    else:
        _mark(parts, policy, [key for key in keys if key in suspected], walked_from, "walk", tally)
        parts.mirror.write(lambda tx: missing.suspect(tx, resource, keys, walked_from))


def may_be_empty(parts: Parts, policy: Policy, state: walks.WalkState) -> bool:
    """Whether an empty list of records without keys may take the place of the last: none of them can be asked
    for, or brought back. More than BRAKE wait for a person."""
    if state.rows <= state.accepted + BRAKE:
        return True
    _stop(parts, policy, state.rows, state.rows)
    return False


def release(parts: Parts, policy: Policy, state: walks.WalkState) -> None:
    """Nothing is held: what a walk missed is believed."""
    if state.held is not None or state.accepted:
        parts.mirror.write(lambda tx: walks.hold(tx, policy.collection, None))
    parts.health.unwatch(alarm(policy.collection))


def undo(parts: Parts, policy: Policy) -> int:
    """Bring back what was taken to be deleted; returns how many records. They stay, whatever walks miss."""

    def job(tx: Transaction) -> int:
        back = missing.bring_back(tx, policy.resource)
        _tell(parts, tx, policy, back)
        walks.hold(tx, policy.collection, None)
        return len(back)

    parts.health.unwatch(alarm(policy.collection))
    return parts.mirror.write(job)


def accepted(parts: Parts, policy: Policy) -> None:
    """A person says that what the brake holds is gone: the next complete walk marks what it, too, misses, but
    not many more; where nothing is held, whatever it misses."""
    parts.mirror.write(lambda tx: walks.accept(tx, policy.collection))


def alarm(collection: str) -> str:
    """The name under which Health tells that the brake holds a collection's deletions."""
    return f"deletions in {collection}"


def raise_alarms(parts: Parts) -> None:
    """At the start: what the brake holds since an earlier run is still held."""
    with parts.mirror.read() as connection:
        for state in walks.all_states(connection):
            if state.held is not None:
                parts.health.fail(alarm(state.collection), _said(state.collection, state.held, state.rows))


def own_path(policy: Policy) -> bool:
    """Whether a record can be asked for by its key."""
    return policy.resource.item and policy.own_form in (None, policy.resource.key)


def _aged_out(parts: Parts, policy: Policy, walked_from: str, found: missing.Unseen) -> list[Key]:
    """The unseen records below everything that was seen, if they are really gone: the platform's own
    ageing-out takes the oldest."""
    if not policy.history or found.lowest_seen is None:
        return []
    with parts.mirror.read() as connection:
        keys = missing.keys(connection, policy.resource, walked_from, below=found.lowest_seen)
        suspected = missing.suspected_before(connection, policy.resource, walked_from)
    if not own_path(policy):
        # Two complete walks that both end above them tell as much as a record's own path.
        return keys if keys and suspected.issuperset(keys) else []
    samples = {*keys[:1], *keys[-1:], *random.sample(keys, min(len(keys), SAMPLES - 2))}
    try:
        return keys if all(_is_gone(parts, policy, key) for key in samples) else []
    except PlatformError as error:
        log.info("/%s: whether its oldest records aged out is not known: %s", policy.collection, error)
        return []


def _ask(parts: Parts, policy: Policy, keys: Sequence[Key], walked_from: str, tally: Tally) -> None:
    """Each by its own path. One that answers was left out of the list by mistake, and stays."""
    gone: list[Key] = []
    alive: list[Key] = []
    asked_at = clock.stamp()
    for key in keys:
        tally.check()
        try:
            (gone if _is_gone(parts, policy, key) else alive).append(key)
        except PlatformError as error:
            log.info("/%s/%s: whether it was deleted is not known: %s", policy.collection, key, error)
            if error.retryable:
                break
    if alive:
        log.warning("/%s lists %s no longer, but their own paths answer", policy.collection, alive)
        parts.mirror.write(lambda tx: missing.alive(tx, policy.resource, alive, asked_at))
    _mark(parts, policy, gone, walked_from, "404", tally)


def _is_gone(parts: Parts, policy: Policy, key: Key) -> bool:
    """Raises PlatformError where the platform's answer settles nothing."""
    try:
        parts.platform.item(f"/{policy.collection}/{key}")
    except PlatformRefused as error:
        if error.status == 404:
            return True
        # 403 is "access denied to an existing resource" (specification, Errors).
        if error.status != 403:
            raise
    return False


def _mark(
    parts: Parts, policy: Policy, keys: Sequence[Key], walked_from: str, how: missing.How, tally: Tally
) -> None:
    delete = parts.settings.sync.on_platform_delete == "delete"
    for begin in range(0, len(keys), SLICE):
        some = keys[begin : begin + SLICE]

        def job(tx: Transaction, some: Sequence[Key] = some) -> int:
            marked = missing.confirm(tx, policy.resource, some, walked_from, how)
            if delete:
                _delete(parts, tx, policy, marked)
            else:
                _tell(parts, tx, policy, marked)
            return len(marked)

        tally.missing += parts.mirror.write(job)
    if keys:
        log.info("/%s: %d records are no longer on the platform (%s)", policy.collection, len(keys), how)


def _tell(parts: Parts, tx: Transaction, policy: Policy, keys: Sequence[Key]) -> None:
    """Settings are hidden, and names on calls come from contacts."""
    if policy.collection == "contacts" and keys:
        parts.calls.contacts_changed(tx, [key for key in keys if isinstance(key, int)])


def _delete(parts: Parts, tx: Transaction, policy: Policy, keys: Sequence[Key]) -> None:
    """sync.on_platform_delete = delete: the rows go, and what was derived from them is derived anew. What is
    under legal hold stays, as by `keep`."""
    gate = tx.gates.get("deletions")
    keys = keys if gate is None else gate((tx.connection, policy.resource, keys))
    legs = missing.legs(tx, policy.resource, LEG_FIELDS.get(policy.resource.table, ()), keys)
    delete_rows(tx, policy.resource, keys)
    _tell(parts, tx, policy, keys)
    if legs:
        parts.calls.refresh(tx, legs)


def _stop(parts: Parts, policy: Policy, left: int, present: int) -> None:
    parts.mirror.write(lambda tx: walks.hold(tx, policy.collection, left))
    parts.health.fail(alarm(policy.collection), _said(policy.collection, left, present))


def _said(collection: str, held: int, present: int) -> str:
    return (
        f"the platform lists {held:,} of {present:,} {collection} no longer, too many to be believed; "
        f"they stay until `sync {collection} --accept-deletions`"
    )
