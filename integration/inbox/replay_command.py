"""Work of this room that only the process that writes may do, as handlers of the private channel."""

from __future__ import annotations

from collections.abc import Mapping

from integration.inbox.replay import Applies, replay
from integration.inbox.store import Inbox
from integration.server.control_channel import Arguments, Handler, Progress, Result, Unfinished

REPLAY = "replay"


def handlers(inbox: Inbox, applier: Applies) -> Mapping[str, Handler]:
    """`replay`, with arguments `failed`, `since`, and what an earlier process left: `after`, `applied`,
    `refused`. Its result: `applied` and `failed`, numbers of webhooks."""

    def apply_again(arguments: Arguments, progress: Progress) -> Result:
        outcome = replay(
            inbox,
            applier,
            failed=bool(arguments.get("failed")),
            since=arguments.get("since"),
            after=int(arguments.get("after", 0)),
            told=lambda done, total: progress(done=done, total=total),
            wanted=lambda: progress.wanted,
        )
        applied = int(arguments.get("applied", 0)) + outcome.applied
        refused = int(arguments.get("refused", 0)) + outcome.failed
        if outcome.left is not None:
            raise Unfinished({**arguments, "after": outcome.left, "applied": applied, "refused": refused})
        return {"applied": applied, "failed": refused}

    return {REPLAY: apply_again}
