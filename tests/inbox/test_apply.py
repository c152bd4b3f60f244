"""Application of webhooks: exactly once, in any order, after failures."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from integration.core import clock
from integration.inbox import apply
from tests.support.application import DEFAULTS, TestApp
from tests.support.clock import Clock
from tests.support.fake_exchange import FIXTURES, FakeExchange, read_fixture


class WebhookApp(TestApp):
    """An application that counts the jobs that it nudges."""

    nudges = 0

    def build(self) -> None:
        super().build()
        self.context.scheduler.nudge = self.count_nudge

    def count_nudge(self, _name: str) -> None:
        self.nudges += 1

    def receive(self, *payloads) -> None:
        for payload in payloads:
            body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
            self.context.inbox.receive(body).result(30)

    def status(self):
        with self.context.inbox.database.read() as connection:
            return [
                tuple(row) for row in connection.execute("SELECT event_name, status FROM inbox ORDER BY seq")
            ]

    def rows(self, sql, *parameters):
        with self.mirror_db.read() as connection:
            return [dict(row) for row in connection.execute(sql, parameters)]


def make_webhook_app(folder: Path) -> WebhookApp:
    return WebhookApp({**DEFAULTS, "storage__data_dir": str(folder)}, FakeExchange(), Clock())


@pytest.fixture
def applied(tmp_path):
    applied = make_webhook_app(tmp_path)
    yield applied
    applied.close()


def sample(name, **changes):
    return {**read_fixture(f"webhook-{name}"), **changes}


PLAIN = ("call.initial", "call.ringing", "call.connected", "call.hold", "call.unhold", "call.hangup")


def test_the_applier_pauses_in_a_burst_until_a_webhook_has_waited_for_long(frozen_clock):
    now = clock.utc_text()
    burst = apply.BURST_WEBHOOKS + 1
    assert apply.get_pause(burst, 0.01, now) == pytest.approx(0.01 * apply.PAUSE_FACTOR)
    assert apply.get_pause(burst, 5.0, now) == apply.MAX_PAUSE_SECONDS
    assert apply.get_pause(apply.BURST_WEBHOOKS, 5.0, now) == 0
    frozen_clock.advance(apply.MAX_YIELD_SECONDS)
    assert apply.get_pause(burst, 5.0, now) == 0


def test_every_sample_is_applied_and_marked_done(applied):
    paths = sorted(FIXTURES.glob("webhook-*.json"))
    applied.receive(*(path.read_bytes() for path in paths))
    applied.apply_webhooks()
    assert {status for _, status in applied.status()} == {"done"}
    assert len(applied.rows("SELECT * FROM _applied WHERE result = 'done'")) == len(paths)


def test_a_plain_call_becomes_one_answered_call_and_leaves_the_live_table(applied):
    applied.receive(*map(sample, PLAIN[:3]))
    applied.apply_webhooks()
    assert [(row["id"], row["state"]) for row in applied.rows("SELECT id, state FROM calls")] == [
        (4278000101, "CONNECTED")
    ]
    applied.receive(*map(sample, PLAIN[3:]))
    applied.apply_webhooks()
    assert applied.rows("SELECT * FROM calls") == []
    (call,) = applied.rows("SELECT state, outcome, talk_seconds, hold_seconds FROM _calls")
    assert call == {"state": "ended", "outcome": "answered", "talk_seconds": 7, "hold_seconds": 4}


def test_the_end_of_a_leg_queues_a_lookup_and_a_recording_nudges_the_download(applied):
    applied.receive(sample("call.ringing"))
    applied.apply_webhooks()
    assert applied.rows("SELECT * FROM _lookups") == []
    applied.receive(sample("call.hangup"), sample("monitor.audio_ready"))
    applied.apply_webhooks()
    assert applied.rows("SELECT * FROM _lookups") != []
    assert applied.nudges == 4


def test_webhooks_without_an_event_do_not_block_others(applied):
    invalid = {"event_name": "call.ringing", "id": "1", "call_id": "x"}
    unknown = [{"event_name": "queue.wrapup"}, {"hello": 1}, {"event_name": ["call.ringing"], "call_id": 1}]
    applied.receive(*unknown, b"no json", invalid, sample("call.ringing"))
    applied.apply_webhooks()
    assert [status for _, status in applied.status()] == [*["unknown"] * 3, "unreadable", "failed", "done"]
    with applied.context.inbox.database.read() as connection:
        (error,) = connection.execute("SELECT error FROM inbox WHERE status = 'failed'").fetchone()
    assert "has no valid call_id" in error


def test_an_error_in_the_code_fails_one_event_of_a_batch_and_reapply_repairs_it(applied, monkeypatch):
    def fail(tx, event):
        raise RuntimeError("an error in the code")

    applied.receive(sample("call.initial"), sample("sms.received"), sample("call.connected"))
    with monkeypatch.context() as patched:
        patched.setattr(apply.messages, "add_event", fail)
        applied.apply_webhooks()
    assert [status for _, status in applied.status()] == ["done", "failed", "done"]
    assert applied.rows("SELECT state FROM _calls") == [{"state": "talking"}]
    assert applied.context.applier.reapply([2]) == 1
    assert [status for _, status in applied.status()] == ["done"] * 3


def test_webhooks_applied_but_not_marked_before_a_kill_are_marked_at_the_next_start(applied):
    applied.receive(sample("call.initial"), sample("sms.received"), {"event_name": "x.new", "id": "1"})
    applied.apply_webhooks()
    before = applied.rows("SELECT * FROM _leg_events")
    applied.context.inbox.database.write(lambda tx: tx.execute("UPDATE inbox SET status = 'new'"))
    applied.receive(sample("call.connected"))
    applied.restart()
    applied.apply_webhooks()
    assert [status for _, status in applied.status()] == ["done", "done", "unknown", "done"]
    assert applied.rows("SELECT * FROM _leg_events")[:1] == before
    assert len(applied.rows("SELECT * FROM _leg_events")) == 2


def test_an_error_in_the_interpretation_of_a_webhook_does_not_block_others(applied, monkeypatch):
    read = apply.interpret

    def fail(record, *columns):
        if "sms" in record.text:
            raise RecursionError("an error in the code")
        return read(record, *columns)

    monkeypatch.setattr(apply, "interpret", fail)
    applied.receive(sample("sms.received"), sample("call.initial"))
    applied.apply_webhooks()
    assert [status for _, status in applied.status()] == ["failed", "done"]


def test_a_mirror_rolled_back_by_a_power_cut_is_completed_from_the_inbox(tmp_path):
    (tmp_path / "one").mkdir()
    before = make_webhook_app(tmp_path / "one")
    before.receive(sample("call.initial"))
    before.apply_webhooks()
    before.mirror_db.write(lambda tx: None)
    before.close()
    shutil.copytree(tmp_path / "one", tmp_path / "old")
    after = make_webhook_app(tmp_path / "one")
    after.receive(*map(sample, PLAIN[1:]))
    after.apply_webhooks()
    expected = after.rows("SELECT id, state, outcome, talk_seconds FROM _calls")
    after.close()
    shutil.copy(tmp_path / "old" / "mirror.db", tmp_path / "one" / "mirror.db")
    recovered = make_webhook_app(tmp_path / "one")
    assert recovered.rows("SELECT outcome FROM _calls") == [{"outcome": None}]
    recovered.apply_webhooks()
    assert recovered.rows("SELECT id, state, outcome, talk_seconds FROM _calls") == expected
    assert len(recovered.rows("SELECT * FROM _applied")) == len(PLAIN)
    recovered.close()


def test_a_webhook_without_id_is_applied_once(applied):
    payload = sample("call.hangup")
    del payload["id"]
    applied.receive(payload, payload)
    applied.apply_webhooks()
    assert len(applied.rows("SELECT * FROM _leg_events")) == 1


EVENT_TIME = "2021-04-28 08:46:13"
SECOND_BEFORE, SAME_SECOND, SECOND_AFTER = "608920d4", "608920d5", "608920d6"
FIRST_MICROSECOND, LAST_MICROSECOND = "00000", "f423f"


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize(
    ("hold_id", "unhold_id"),
    [
        (SECOND_BEFORE + LAST_MICROSECOND, SAME_SECOND + FIRST_MICROSECOND),
        (SAME_SECOND + LAST_MICROSECOND, SECOND_AFTER + FIRST_MICROSECOND),
    ],
)
def test_event_ids_order_events_across_a_second_boundary(applied, hold_id, unhold_id, is_reversed):
    hold = sample("call.hold", id=f"uk003.{hold_id}3.77053295", event_time=EVENT_TIME)
    unhold = sample("call.unhold", id=f"uk003.{unhold_id}3.77053295", event_time=EVENT_TIME)
    applied.receive(*((unhold, hold) if is_reversed else (hold, unhold)))
    applied.apply_webhooks()
    assert applied.rows("SELECT state FROM _legs") == [{"state": "CONNECTED"}]


def test_absurd_times_of_webhooks_are_no_times_of_a_leg(applied):
    """An end at the receipt at the latest, no wait of centuries, and the payload as received."""
    for leg, absurd in enumerate(("0001-01-01 00:00:00", "1970-01-01 00:00:00", "9999-12-31 23:59:59"), 1):
        ids = {"call_id": leg, "root_call_id": leg}
        times = {"event_time": absurd, "start_time": absurd}
        applied.receive(sample("call.initial", id=f"i{leg}", **ids, **times))
        applied.receive(sample("call.missed", id=f"m{leg}", **ids, **times))
    applied.apply_webhooks()
    with applied.context.inbox.database.read() as connection:
        received = [row[0] for row in connection.execute("SELECT received_at FROM inbox ORDER BY seq")]
    calls = applied.rows("SELECT id, state, started_at, ended_at, wait_seconds FROM _calls ORDER BY id")
    assert [(call["id"], call["state"]) for call in calls] == [(1, "ended"), (2, "ended"), (3, "ended")]
    for call, started_at, ended_at in zip(calls, received[::2], received[1::2], strict=True):
        assert (call["started_at"], call["ended_at"]) == (started_at, ended_at)
        assert 0 <= call["wait_seconds"] <= 1
    assert applied.rows("SELECT DISTINCT json_extract(doc, '$.event_time') AS at FROM _leg_events") == [
        {"at": "0001-01-01 00:00:00"},
        {"at": "1970-01-01 00:00:00"},
        {"at": "9999-12-31 23:59:59"},
    ]
    years = applied.rows("SELECT DISTINCT value FROM _drift WHERE field = 'event_time' ORDER BY value")
    assert [row["value"][:5] for row in years] == ["0001-", "1970-", "9999-"]
