"""Calls and SMS in one list.

The specification lacks this collection, but a real client reads it.
See docs/platform.md#7-resources.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from integration.simulator.records.account_state import AccountState
from integration.simulator.records.store import make_owner_test

Record = dict[str, Any]


def add_collections(state: AccountState) -> None:
    state.add_collection(
        "conversations", read_test=make_owner_test("user_id"), derive=lambda: _iterate_rows(state)
    )


def _iterate_rows(state: AccountState) -> Iterator[Record]:
    for sms in state.collections["sms"].records.values():
        yield _make_row("sms", sms, sms["created_at"], sms["from"], sms["to"], 0)
    for cdr in state.collections["cdrs"].records.values():
        if cdr["is_root"]:
            yield _make_row("call", cdr, cdr["calldate"], cdr["src"], cdr["dst"], cdr["duration"])


def _make_row(channel: str, record: Record, created_at: str, src: str, dst: str, duration: int) -> Record:
    return {
        "id": record["id"],
        "created_at": created_at,
        "channel": channel,
        "src": src,
        "dst": dst,
        "duration": duration,
        "type": record["type"],
        "user_id": record["user_id"],
    }
