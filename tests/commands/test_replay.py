"""`replay` applies what the inbox holds once more, in order, wherever the writer is."""

from __future__ import annotations

import sqlite3

import pytest

from integration.inbox import replay as replay_module
from integration.inbox.replay import replay
from integration.inbox.store import Inbox
from integration.processes.channel import Progress, Unfinished
from integration.upkeep.commands import handlers
from tests.commands.conftest import webhook


class Applier:
    """Notes what it is given; `broken` seqs fail."""

    def __init__(self):
        self.seen: list[int] = []
        self.broken: set[int] = set()

    def again(self, seqs):
        self.seen += seqs
        return len([seq for seq in seqs if seq not in self.broken])


@pytest.fixture
def inbox(tmp_path):
    inbox = Inbox(tmp_path / "inbox.db")
    for number in range(10):
        inbox.receive(webhook(number)).result(10)
    inbox.mark([(3, "failed", "no"), (8, "failed", "no"), (5, "unknown", None)])
    with sqlite3.connect(tmp_path / "inbox.db") as connection:
        connection.execute("UPDATE inbox SET received_at = '2026-03-01 12:00:00' WHERE seq <= 6")
    connection.close()
    yield inbox
    inbox.close()


def test_without_options_everything_is_applied_in_order(inbox):
    applier = Applier()
    assert replay(inbox, applier) == replay_module.Replayed(10, 0)
    assert applier.seen == list(range(1, 11))


def test_only_what_failed(inbox):
    applier = Applier()
    applier.broken = {8}
    assert replay(inbox, applier, failed=True) == replay_module.Replayed(1, 1)
    assert applier.seen == [3, 8]


def test_only_what_came_since(inbox):
    applier = Applier()
    replay(inbox, applier, since="2026-03-01 12:00:01")
    assert applier.seen == [7, 8, 9, 10]
    applier.seen.clear()
    replay(inbox, applier, since="2026-03-01 12:00:00")
    assert applier.seen == list(range(1, 11))


def test_a_successor_goes_on_where_it_ended_early_and_sums_up(inbox, monkeypatch):
    monkeypatch.setattr(replay_module, "BATCH", 3)
    applier = Applier()
    applier.broken = {2, 9}
    work = handlers(inbox, applier)["replay"]
    told = []
    with pytest.raises(Unfinished) as ended:
        work({"failed": False, "since": None}, Progress(told.append, lambda: len(applier.seen) < 6))
    assert applier.seen == [1, 2, 3, 4, 5, 6]
    result = work(ended.value.arguments, Progress(told.append, lambda: True))
    assert applier.seen == list(range(1, 11))
    assert result == {"applied": 8, "failed": 2}
    assert told[0] == {"done": 0, "total": 10}


@pytest.mark.parametrize("time", ["yesterday", "12:00", "2026-13-01"])
def test_a_time_that_is_none_is_wrong_usage(home, time):
    done = home.run("replay", "--since", time)
    assert done.returncode == 2
    assert "is no time" in done.stderr
