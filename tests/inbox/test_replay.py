"""`replay` applies what the inbox holds once more, in order, wherever the writer is."""

from __future__ import annotations

import sqlite3
from types import SimpleNamespace

import pytest

from integration.core.commands import Progress, Unfinished
from integration.core.phone_numbers import PhoneNumbers
from integration.inbox import replay as replay_module
from integration.inbox.apply import Applier
from integration.inbox.replay import replay
from integration.inbox.store import Inbox
from integration.mirror import hooks
from integration.mirror.calls.rules import CallRules
from integration.mirror.calls.store import CallStore
from integration.mirror.schema import open_mirror
from tests.support.applications.data_dir import webhook


def run(inbox, applier, progress=None, **arguments):
    """The command, with nothing but an inbox and what applies it."""
    context = SimpleNamespace(inbox=inbox, applier=applier)
    return replay(context, arguments, progress or Progress(lambda _: None, lambda: True))


class Counts:
    """Notes what it is given; `broken` seqs fail."""

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


def test_without_options_everything_is_applied_in_order(inbox):
    applier = Counts()
    assert run(inbox, applier) == {"applied": 10, "failed": 0}
    assert applier.seen == list(range(1, 11))


def test_only_what_failed(inbox):
    applier = Counts()
    applier.broken = {8}
    assert run(inbox, applier, failed=True) == {"applied": 1, "failed": 1}
    assert applier.seen == [3, 8]


def test_only_what_came_since(inbox):
    applier = Counts()
    run(inbox, applier, since="2026-03-01 12:00:01")
    assert applier.seen == [7, 8, 9, 10]
    applier.seen.clear()
    run(inbox, applier, since="2026-03-01 12:00:00")
    assert applier.seen == list(range(1, 11))


def test_a_successor_goes_on_where_it_ended_early_and_sums_up(inbox, monkeypatch):
    monkeypatch.setattr(replay_module, "BATCH_SIZE", 3)
    applier = Counts()
    applier.broken = {2, 9}
    told = []
    with pytest.raises(Unfinished) as ended:
        run(inbox, applier, Progress(told.append, lambda: len(applier.seen) < 6), failed=False, since=None)
    assert applier.seen == [1, 2, 3, 4, 5, 6]
    result = run(inbox, applier, Progress(told.append, lambda: True), **ended.value.arguments)
    assert applier.seen == list(range(1, 11))
    assert result == {"applied": 8, "failed": 2}
    assert told[0] == {"done": 0, "total": 10}


def test_a_mirror_that_was_lost_is_rebuilt_from_the_inbox(tmp_path, inbox):
    """What mirror.db derives from webhooks, and which of them it applied, is the same as before."""

    def told(mirror):
        with mirror.read() as connection:
            calls = connection.execute("SELECT id, state, outcome, party, started_at FROM _calls ORDER BY id")
            applied = connection.execute("SELECT seq, result FROM _applied ORDER BY seq")
            return [tuple(row) for row in (*calls, *applied)]

    before = None
    for name in ("mirror.db", "rebuilt.db"):
        mirror = open_mirror(tmp_path / name)
        calls = CallStore(CallRules(), PhoneNumbers("GB"))
        hooks.register_hooks(mirror, calls)
        applier = Applier(inbox, mirror, calls, lambda: None)
        result = run(inbox, applier)
        assert result == {"applied": 10, "failed": 0}
        # Once more changes nothing.
        seen = told(mirror)
        run(inbox, applier)
        assert told(mirror) == seen
        mirror.close()
        before = before or seen
    assert seen == before
    assert len(seen) == 20
    with sqlite3.connect(tmp_path / "inbox.db") as connection:
        assert connection.execute("SELECT DISTINCT status FROM inbox").fetchall() == [("done",)]
    connection.close()


@pytest.mark.parametrize("time", ["yesterday", "12:00", "2026-13-01"])
def test_a_time_that_is_none_is_wrong_usage(home, time):
    done = home.run("replay", "--since", time)
    assert done.returncode == 2
    assert "is no time" in done.stderr
