"""Calls and SMS in one list: not in the specification, but read by a real client (observed.md §7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from integration.simulator.records.store import owned_by

if TYPE_CHECKING:
    from integration.simulator.world import World

Record = dict[str, Any]

FIELDS = ("id", "created_at", "channel", "src", "dst", "duration", "type", "user_id")


def lay_out(world: World) -> None:
    world.collect("conversations", fields=FIELDS, mine=owned_by("user_id"), derive=lambda: _all(world))


def _all(world: World) -> Iterator[Record]:
    for sms in world.collections["sms"].records.values():
        yield _row("sms", sms, sms["created_at"], sms["from"], sms["to"], 0)
    for cdr in world.collections["cdrs"].records.values():
        if cdr["is_root"]:
            yield _row("call", cdr, cdr["calldate"], cdr["src"], cdr["dst"], cdr["duration"])


def _row(channel: str, record: Record, at: str, src: str, dst: str, duration: int) -> Record:
    return {
        "id": record["id"],
        "created_at": at,
        "channel": channel,
        "src": src,
        "dst": dst,
        "duration": duration,
        "type": record["type"],
        "user_id": record["user_id"],
    }
