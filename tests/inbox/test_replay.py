"""`replay` applies stored webhooks once more, in order."""

from __future__ import annotations

import sqlite3
from types import SimpleNamespace

import pytest

from integration.core.commands import Progress, Unfinished
from integration.inbox import replay as replay_module
from integration.inbox.replay import replay
from integration.inbox.store import Inbox
from tests.support.applications.data_dir import webhook


def run(inbox, applier, progress=None, **arguments):
    """Run the command with an inbox and an applier only."""
    context = SimpleNamespace(inbox=inbox, applier=applier)
    return replay(context, arguments, progress or Progress(lambda _: None, lambda: True))


class RecordingApplier:
    """Applier that records the seqs it receives; those in `broken` fail."""

    def __init__(self):
        self.seen: list[int] = []
        self.broken: set[int] = set()

    def reapply(self, seqs):
        self.seen += seqs
        return len([seq for seq in seqs if seq not in self.broken])


@pytest.fixture
def inbox(tmp_path):
    inbox = Inbox(tmp_path / "inbox.db")
    for number in range(10):
        inbox.receive(webhook(number)).result(30)
    inbox.record_results([(3, "failed", "no"), (8, "failed", "no"), (5, "unknown", None)])
    with sqlite3.connect(tmp_path / "inbox.db") as connection:
        connection.execute("UPDATE inbox SET received_at = '2026-03-01 12:00:00' WHERE seq <= 6")
    connection.close()
    yield inbox
    inbox.close()


@pytest.mark.parametrize(
    ("arguments", "seqs"),
    [
        ({}, range(1, 11)),
        ({"failed": True}, [3, 8]),
        ({"since": "2026-03-01 12:00:01"}, [7, 8, 9, 10]),
        ({"since": "2026-03-01 12:00:00"}, range(1, 11)),
    ],
)
def test_the_selected_webhooks_are_applied_in_order(inbox, arguments, seqs):
    applier = RecordingApplier()
    applier.broken = {8}
    assert run(inbox, applier, **arguments) == {"applied": len(seqs) - 1, "failed": 1}
    assert applier.seen == list(seqs)


def test_an_interrupted_replay_is_continued_and_its_counts_are_summed(inbox, monkeypatch):
    monkeypatch.setattr(replay_module, "BATCH_SIZE", 3)
    applier = RecordingApplier()
    applier.broken = {2, 9}
    reports = []
    with pytest.raises(Unfinished) as ended:
        run(inbox, applier, Progress(reports.append, lambda: len(applier.seen) < 6), failed=False, since=None)
    assert applier.seen == [1, 2, 3, 4, 5, 6]
    result = run(inbox, applier, Progress(reports.append, lambda: True), **ended.value.arguments)
    assert applier.seen == list(range(1, 11))
    assert result == {"applied": 8, "failed": 2}
    assert reports[0] == {"done": 0, "total": 10}


def test_a_deleted_mirror_is_rebuilt_from_the_inbox(app, tmp_path):
    """Calls and results in a new mirror.db are the same as before."""

    def list_results():
        with app.mirror_db.read() as connection:
            calls = connection.execute("SELECT id, state, outcome, party, started_at FROM _calls ORDER BY id")
            applied = connection.execute("SELECT seq, result FROM _applied ORDER BY seq")
            return [tuple(row) for row in (*calls, *applied)]

    for number in range(10):
        app.context.inbox.receive(webhook(number)).result(30)
    results = []
    for _ in range(2):
        result = run(app.context.inbox, app.context.applier)
        assert result == {"applied": 10, "failed": 0}
        results.append(list_results())
        run(app.context.inbox, app.context.applier)
        assert list_results() == results[-1], "a repetition changes nothing"
        app.product.stop()
        for file in tmp_path.glob("mirror.db*"):
            file.unlink()
        app.restart()
    assert results[0] == results[1]
    assert len(results[0]) == 20
    with app.context.inbox.database.read() as connection:
        assert [row[0] for row in connection.execute("SELECT DISTINCT status FROM inbox")] == ["done"]
