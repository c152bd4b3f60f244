"""`replay`: apply stored webhooks again. Applying is idempotent, so that this may be done at any time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from integration.inbox.store import Inbox

BATCH = 500
"""Webhooks between two reports of progress, and between two chances to end early."""


class Applies(Protocol):
    """What is needed of `apply.Applier`."""

    def again(self, seqs: Sequence[int]) -> int: ...


@dataclass(frozen=True, slots=True)
class Replayed:
    """`applied` webhooks went through, `failed` did not. `left` continues after this seq when it ended early,
    None when all is done."""

    applied: int
    failed: int
    left: int | None = None


def replay(
    inbox: Inbox,
    applier: Applies,
    *,
    failed: bool = False,
    since: str | None = None,
    after: int = 0,
    told: Callable[[int, int], None] = lambda _done, _total: None,
    wanted: Callable[[], bool] = lambda: True,
) -> Replayed:
    """Apply again what inbox.db holds, in the order it was stored.

    `failed`: only what could not be applied; `since`: only what was received at or
    after this UTC text; `after`: only seqs above. `told` is called with done and total. Once `wanted` says
    no, it ends after the batch at hand. Raises StorageError.
    """
    seqs = inbox.chosen(failed=failed, since=since or "", after=after)
    applied = 0
    for begin in range(0, len(seqs), BATCH):
        told(begin, len(seqs))
        if not wanted():
            return Replayed(applied, begin - applied, seqs[begin] - 1)
        applied += applier.again(seqs[begin : begin + BATCH])
    told(len(seqs), len(seqs))
    return Replayed(applied, len(seqs) - applied)
