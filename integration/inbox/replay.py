"""`replay`: apply stored webhooks again. Applying is idempotent, so that this may be done at any time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from integration.core.commands import Arguments, Handler, Progress, Result, Unfinished
from integration.inbox.store import Inbox

BATCH_SIZE = 500
"""Webhooks between two reports of progress, and between two chances to end early."""


class Reapplier(Protocol):
    """What is needed of `apply.Applier`."""

    def reapply(self, seqs: Sequence[int]) -> int: ...


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """`applied` webhooks went through, `failed` did not. `resume_after` continues after this seq when it
    ended early, None when all is done."""

    applied: int
    failed: int
    resume_after: int | None = None


def replay(
    inbox: Inbox,
    applier: Reapplier,
    *,
    failed: bool = False,
    since: str | None = None,
    after: int = 0,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
    should_continue: Callable[[], bool] = lambda: True,
) -> ReplayResult:
    """Apply again what inbox.db holds, in the order it was stored.

    `failed`: only what could not be applied; `since`: only what was received at or
    after this UTC text; `after`: only seqs above. `on_progress` is called with done and total. Once
    `should_continue` says no, it ends after the batch at hand. Raises StorageError.
    """
    seqs = inbox.list_seqs(failed=failed, since=since or "", after=after)
    applied = 0
    for start in range(0, len(seqs), BATCH_SIZE):
        on_progress(start, len(seqs))
        if not should_continue():
            return ReplayResult(applied, start - applied, seqs[start] - 1)
        applied += applier.reapply(seqs[start : start + BATCH_SIZE])
    on_progress(len(seqs), len(seqs))
    return ReplayResult(applied, len(seqs) - applied)


REPLAY = "replay"


def make_handlers(inbox: Inbox, applier: Reapplier) -> Mapping[str, Handler]:
    """`replay`, with arguments `failed`, `since`, and what an earlier process left: `after`, `applied`,
    `refused`. Its result: `applied` and `failed`, numbers of webhooks."""

    def handle_replay(arguments: Arguments, progress: Progress) -> Result:
        outcome = replay(
            inbox,
            applier,
            failed=bool(arguments.get("failed")),
            since=arguments.get("since"),
            after=int(arguments.get("after", 0)),
            on_progress=lambda done, total: progress(done=done, total=total),
            should_continue=lambda: progress.can_continue,
        )
        applied = int(arguments.get("applied", 0)) + outcome.applied
        failed = int(arguments.get("refused", 0)) + outcome.failed
        if outcome.resume_after is not None:
            raise Unfinished(
                {**arguments, "after": outcome.resume_after, "applied": applied, "refused": failed}
            )
        return {"applied": applied, "failed": failed}

    return {REPLAY: handle_replay}
