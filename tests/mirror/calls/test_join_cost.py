"""Work per webhook at a busy ring group whose callers withhold their numbers."""

from __future__ import annotations

from pathlib import Path

from integration.sqlite.transaction import Transaction
from tests.mirror.calls.scripts.facts import ANN, BOB, SUPPORT, T0, Leg, Webhook
from tests.mirror.calls.scripts.player import Player
from tests.support.application import running_app

MAX_GROWTH = 1.5
"""Largest ratio between the work for a webhook after many calls and after few calls."""


def ring_two_phones(call: int) -> list[Webhook]:
    """Return the webhooks of a missed call that starts `call` seconds after T0."""
    legs = [
        Leg(1000 + 2 * call + n, user, call, context=SUPPORT, src="", root=1000 + 2 * call)
        for n, user in enumerate((ANN, BOB))
    ]
    return [
        *(leg.ringing() for leg in legs),
        legs[0].missed(call + 10, final=False),
        legs[1].missed(call + 10, final=True),
    ]


def count_steps(player: Player, webhook: Webhook) -> int:
    """Add the webhook. Returns the instructions of SQLite in tens."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    def job(tx: Transaction) -> None:
        tx.connection.set_progress_handler(count, 10)
        try:
            player.add(tx, webhook)
        finally:
            tx.connection.set_progress_handler(None, 0)

    player.app.mirror_db.write(job)
    return steps


def test_work_per_webhook_does_not_grow_with_calls_of_withheld_callers(tmp_path: Path) -> None:
    with running_app(tmp_path / "data", dashboard__country="GB") as app:
        player = Player(app)
        app.clock.freeze(float(T0 + 3600))

        def measure(begin: int, end: int) -> int:
            """Add a call per second.

            Return the work for the first webhook of the last call.
            """
            *calls, last = [ring_two_phones(call) for call in range(begin, end)]
            app.mirror_db.write(lambda tx: [player.add(tx, each) for call in calls for each in call])
            return count_steps(player, last[0])

        few, many = measure(0, 40), measure(40, 100)
        assert many < MAX_GROWTH * few
