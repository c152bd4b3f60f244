"""What else changes when rows change: the hooks between collection tables and what is derived from them.

They run in the transaction of the upsert, so that no reader ever sees one without the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from integration.mirror.calls import backlog
from integration.mirror.calls.store import CallStore
from integration.mirror.page_queries import messages
from integration.mirror.records import schema_drift as drift
from integration.mirror.records.rows import Upserted
from integration.mirror.sync_state import media_files as media
from integration.sqlite.database import Database
from integration.sqlite.transaction import Hook, Transaction

LEG_FIELDS = {"cdrs": ("live_id",), "monitors": ("live_id",), "voicemessages": ("live_id", "parent_live_id")}
"""Collections whose records are facts about legs, and the fields that name those legs."""


def connect(mirror: Database, calls: CallStore) -> None:
    """Give `mirror` its hooks. Once, before the first write."""
    for table, fields in LEG_FIELDS.items():
        mirror.hooks.setdefault(table, []).append(_refresh(calls, fields))
    mirror.hooks.setdefault("contacts", []).append(_contacts(calls))
    messages.follow(mirror)
    media.follow(mirror, media.KINDS)
    drift.follow(mirror)


def _refresh(calls: CallStore, fields: Iterable[str]) -> Hook:
    def hook(tx: Transaction, outcome: Upserted) -> None:
        legs = sorted(set(_legs(outcome, fields)))
        if outcome.later:
            backlog.add(tx, legs)
        else:
            calls.refresh(tx, legs)

    return hook


def _contacts(calls: CallStore) -> Hook:
    def hook(tx: Transaction, outcome: Upserted) -> None:
        calls.contacts_changed(
            tx, [key for key in (*outcome.inserted, *outcome.updated) if isinstance(key, int)]
        )

    return hook


def _legs(outcome: Upserted, fields: Iterable[str]) -> Iterator[int]:
    for document in outcome.changed:
        for name in fields:
            value = document.values.get(name)
            if isinstance(value, str) and value.isascii() and value.isdigit():
                value = int(value)
            if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63:
                yield value
