"""Evaluation of alert rules on databases: alerts and notifications."""

from __future__ import annotations

import re
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

from integration.alerts import notification_log, rules
from integration.alerts.conditions import make_default_rule
from integration.alerts.evaluate import RuleEvaluationFailed, RuleEvaluator, list_configured_rules
from integration.core import clock
from integration.mirror.page_queries import alert_queries
from integration.mirror.page_queries.reports import Span, compute_totals
from integration.workspace import callbacks
from integration.workspace.callback_following import update_from_mirror
from tests.support.application import running_app
from tests.support.clock import ago
from tests.support.page_text import call_ids, text
from tests.support.people import ALICE


def add(app, condition: str, threshold: int | None = None, **values) -> int:
    """Save a rule created on 1 January 2026."""
    number = {} if threshold is None else {"threshold": threshold}
    rule = make_default_rule(condition, **{"name": f"Rule {condition}", "notice": True, **number, **values})
    id_ = rules.save(app.app_db, rule)
    app.app_db.write(lambda tx: tx.execute("UPDATE alert_rules SET created_at = '2026-01-01 00:00:00'"))
    return id_


@pytest.fixture
def watch(app):
    return RuleEvaluator(app.context, lambda: None)


def now(app) -> list[str]:
    with app.app_db.read() as connection:
        return [one.text for found in rules.list_findings(connection).values() for one in found]


def log(app) -> list[tuple[str, str]]:
    with app.app_db.read() as connection:
        return [(line.kind, line.subject) for line in notification_log.list_newest(connection, 50)]


def test_overdue_call_back_is_an_alert_until_it_is_closed(app, watch):
    add(app, "not_called_back", 30)
    app.call(1, ago(1700), outcome="missed", party_name="Ann Example")
    update_from_mirror(app.app_db, app.mirror_db, 15)
    watch.run()
    assert now(app) == []
    app.call(2, ago(2000), outcome="missed", party="447700900102", party_e164="+447700900102")
    app.mirror_db.write(lambda tx: tx.announce("call", 2, {}))
    app.mirror_db.write(lambda tx: tx.execute("UPDATE _calls SET change_no = 2 WHERE id = 2"))
    update_from_mirror(app.app_db, app.mirror_db, 15)
    watch.run()
    assert now(app) == ["07700 900102 is waiting for a call back"]
    with app.app_db.read() as connection:
        (item,) = [one for one in callbacks.list_items(connection) if one.party.endswith("102")]
    callbacks.record_action(app.app_db, item.id, "ann@example.com", "close")
    watch.run()
    assert [kind for kind, _ in log(app)] == ["recovered", "alert"]


def test_waiting_caller_and_long_queue_are_alerts_of_their_queue(app, watch):
    add(app, "waiting", 60, queue_id=5)
    add(app, "queue_length", 2, queue_id=5)
    for queue, name in ((5, "Support"), (6, "Sales")):
        app.put("queues", {"id": queue, "name": name}, complete=False)
        for number, seconds in ((1, 61), (2, 20)):
            values = {"group_kind": "queue", "group_id": queue, "group_name": name}
            app.call(10 * queue + number, ago(seconds), state="ringing", outcome=None, **values)
    watch.run()
    assert sorted(now(app)) == ["07700 900101 has been waiting on Support", "2 callers waiting in Support"]
    app.mirror_db.write(lambda tx: tx.execute("UPDATE _calls SET state = 'ended', outcome = 'answered'"))
    watch.run()
    assert now(app) == []


def test_a_low_service_level_is_an_alert_from_enough_calls_on(app, watch):
    add(app, "service_level", 80, minutes=60, calls=10)
    for number in range(1, 8):
        app.call(number, ago(60 * number), outcome="answered", wait_seconds=5)
    for number, outcome in ((20, "missed"), (21, "missed"), (22, "abandoned")):
        app.call(number, ago(60 * number), outcome=outcome)
    app.call(30, ago(3700), outcome="missed")
    watch.run()
    assert now(app) == []  # 7 of 9: too few calls
    app.call(23, ago(120), outcome="answered", wait_seconds=500)
    watch.run()
    assert now(app) == ["Service level 70 % of 10 calls in the last 60 min"]
    for number in range(40, 46):
        app.call(number, ago(60), outcome="answered", wait_seconds=5)
    watch.run()
    assert now(app) == []
    assert [kind for kind, _ in log(app)] == ["recovered", "alert"]


def test_many_missed_calls_lead_to_exactly_these_calls(app, watch):
    """Also past midnight. Calls with a message, earlier ones and those of the other hours do not count."""
    add(app, "many_missed", 2, minutes=60)
    app.clock.freeze("2026-11-26 00:20:30")
    for number, at in ((1, "25 23:19:59"), (2, "25 23:20:00"), (3, "26 00:19:00"), (4, "25 00:10:00")):
        app.call(number, f"2026-11-{at}", outcome="missed")
    app.call(5, "2026-11-26 00:00:00", outcome="voicemail")
    watch.run()
    watch.run()
    assert len(log(app)) == 1
    with app.app_db.read() as connection:
        [[finding]] = rules.list_findings(connection).values()
    assert finding.text == "2 calls missed in the last 60 min"
    page = app.log_in(ALICE).get(finding.href)
    assert call_ids(page) == [3, 2]
    assert "from 23:20" in text(page)


def test_the_cost_of_a_day_is_an_alert_once_a_day(app, watch):
    app.put("me", {"id": 1, "currency_iso": "GBP"})
    add(app, "cost", 50)
    app.clock.freeze("2026-11-26 12:00:00")
    app.call(1, "2026-11-25 23:59:59", direction="out", charge=900)
    app.call(2, "2026-11-26 00:00:01", direction="out", charge=30)
    app.call(3, "2026-11-26 08:00:00", direction="in", charge=20)
    watch.run()
    assert now(app) == []
    app.call(4, "2026-11-26 09:00:00", direction="out", charge=0.5)
    watch.run()
    assert now(app) == ["The calls of today cost 50.50 GBP, known so far"]
    assert [kind for kind, _ in log(app)] == ["alert"]
    app.clock.advance(86400)
    watch.run()
    assert now(app) == []
    assert [kind for kind, _ in log(app)] == ["alert"]


def test_missed_call_is_notified_once_and_old_calls_never(app, watch):
    add(app, "missed_call")
    app.call(1, ago(2 * 3600), outcome="missed")
    app.call(2, ago(60), outcome="missed")
    app.call(3, ago(60), outcome="answered")
    watch.run()
    watch.run()
    assert [subject for _, subject in log(app)] == [
        "Rule missed_call: Missed call from 07700 900101 on 020 7946 0002"
    ]
    # The caller gave up after more than an hour.
    app.call(4, ago(2 * 3600), ended_at=ago(30), outcome="missed")
    watch.run()
    assert len(log(app)) == 2


def test_a_call_that_is_missed_in_quiet_hours_is_notified_in_the_morning(app, watch):
    add(app, "missed_call", quiet_from="22:00", quiet_to="07:00")
    app.clock.freeze("2026-11-26 23:30:00")
    app.call(1, ago(60), outcome="missed")
    watch.run()
    assert log(app) == []
    app.clock.freeze("2026-11-27 07:01:00")
    watch.run()
    assert [kind for kind, _ in log(app)] == ["alert"]


def test_silence_of_webhooks_is_measured_from_the_start_of_the_hours(app, watch):
    add(app, "silent_webhooks", 30)
    watch.run()
    assert now(app) == ["The phone system has sent no webhook"]
    app.context.inbox.receive(b'{"event": "call.hangup"}').result()
    watch.run()
    assert now(app) == []
    begins = clock.now() - timedelta(minutes=20)
    here = begins.astimezone(ZoneInfo(app.context.settings.dashboard.timezone))
    add(app, "silent_webhooks", 30, begins=f"{here:%H:%M}", ends=f"{here + timedelta(hours=2):%H:%M}")
    watch.run()
    assert now(app) == []


@pytest.mark.parametrize("requested_path", ["/cdrs/9.trace", "/monitors/7.mp3"])
def test_a_file_that_a_user_requested_once_is_no_problem(tmp_path, requested_path):
    """Only the kinds that are downloaded automatically are waited for."""
    with running_app(tmp_path, recordings__download="false") as app:
        app.put("cdrs", {"id": 9, "calldate": "2026-11-20 09:00:00"})
        app.put("monitors", {"id": 7, "timestamp": "2026-11-20 09:00:00"})
        add(app, "files")
        app.platform.fail()
        assert app.get(requested_path).status_code >= 500
        RuleEvaluator(app.context, lambda: None).run()
        assert now(app) == []
        shown = text(app.log_in().get("/system"))
        assert "could not be downloaded" not in shown
        assert "0 queued · 0 failed" in shown
        metrics = app.client.get("/metrics").text
        waiting = re.findall(r'switchroom_archive_files{.*state="(?:failed|wanted)"} [1-9].*', metrics)
        assert waiting == []
        # The same state of a kind that is downloaded automatically is a problem.
        app.insert("media", kind="fax", record_id=1, path="faxes/1.pdf", state="failed", tries=3,
                   last_error="404", updated_at=ago(60))  # fmt: skip
        RuleEvaluator(app.context, lambda: None).run()
        assert now(app) == ["1 download of recordings, voicemail or faxes failed (404)"]
        assert "1 file could not be downloaded" in text(app.log_in().get("/system"))
        assert 'switchroom_archive_files{kind="fax",state="failed"} 1.0' in app.client.get("/metrics").text


def test_failed_downloads_gaps_and_syncs_are_alerts(app, watch, monkeypatch):
    """A gap counts each record once: the comparison of an entire collection, day '*', contains its days."""
    present = clock.unix()
    monkeypatch.setattr(clock, "unix", lambda: present)  # today has no gap yet, also at midnight
    for condition in ("files", "gap", "behind"):
        add(app, condition)
    app.insert(
        "_walks", collection="cdrs", last_success_at=ago(3600), last_error="timed out", last_error_at=ago(9)
    )
    for record_id, (seconds, error) in enumerate([(60, "404 from the platform"), (3600, "timed out")]):
        app.insert("media", kind="recording", record_id=record_id, path=f"recordings/{record_id}.mp3",
                 state="failed", tries=3, last_error=error, updated_at=ago(seconds))  # fmt: skip
    yesterday = ago(86400)[:10]
    for collection, day, mirrored in (
        ("cdrs", yesterday, 8), ("cdrs", "*", 7), ("monitors", "*", 6), ("sms", ago(2 * 86400)[:10], 9),
        ("sms", yesterday, 9), ("voicemessages", ago(0)[:10], 3),
    ):  # fmt: skip
        app.insert("_coverage", collection=collection, day=day, total=10, ours=mirrored, asked_at=ago(60))
    app.insert("_coverage", collection="faxes", day=yesterday, total=10, ours=9, asked_at=ago(60),
               differs_since=ago(60))  # fmt: skip
    watch.run()
    assert sorted(now(app)) == [
        "2 downloads of recordings, voicemail or faxes failed (the last: 404 from the platform)",
        f"Call detail records: 3 records missing here, the first of {clock.now() - timedelta(1):%-d %b %Y}",
        "Call records are not syncing: timed out",
        "Recordings: 4 records missing here",
        f"SMS: 2 records missing here, the first of {clock.now() - timedelta(2):%-d %b %Y}",
    ]


def test_failed_component_and_full_disk_are_alerts(app, watch, monkeypatch):
    add(app, "trouble", 10)
    add(app, "disk", 100_000)
    app.context.health.fail("search index", "no such table")
    app.context.health.fail("alerts by e-mail", "is not sent by e-mail")
    watch.run()
    assert [text for text in now(app) if "index" in text] == []
    later = clock.unix() + 601
    monkeypatch.setattr(clock, "unix", lambda: later)
    watch.run()
    assert [text for text in now(app) if "GB" not in text] == ["search index: no such table"]
    assert any("GB free on the data disk" in text for text in now(app))


@pytest.mark.parametrize(
    ("sender", "shown"),
    [
        ("ACME Bank", "ACME Bank"),
        ("60300", "60300"),
        ("07700900153", "07700 900153"),
        ("", "a withheld number"),
    ],
)
def test_the_sender_of_an_sms_is_shown_as_sent(app, watch, sender, shown):
    add(app, "sms")
    app.put("sms", {"id": 1, "type": "I", "created_at": ago(60), "message": "Hello", "from": sender})
    watch.run()
    assert now(app) == [f"Message from {shown}: Hello"]
    with app.app_db.read() as connection:
        ((found,),) = rules.list_findings(connection).values()
    assert "Hello" in app.log_in().get(found.href).text


def test_paused_or_removed_rule_has_no_alerts(app, watch):
    number = add(app, "missed_call")
    app.call(1, ago(60), outcome="missed")
    rules.pause(app.app_db, number, paused=True)
    watch.run()
    assert now(app) == []
    rules.pause(app.app_db, number, paused=False)
    watch.run()
    assert len(now(app)) == 1
    app.app_db.write(lambda tx: tx.execute("DELETE FROM alert_rules"))
    watch.run()
    assert now(app) == []


def test_failed_evaluation_of_a_rule_does_not_stop_the_others(app, watch):
    add(app, "missed_call")
    add(app, "queue_length")
    app.call(1, ago(60), outcome="missed")
    app.mirror_db.write(lambda tx: tx.execute("ALTER TABLE queues RENAME TO elsewhere"))
    with pytest.raises(RuleEvaluationFailed, match="Rule queue_length: OperationalError"):
        watch.run()
    assert len(now(app)) == 1
    app.mirror_db.write(lambda tx: tx.execute("ALTER TABLE elsewhere RENAME TO queues"))


def test_configured_events_become_rules_with_the_configured_targets(tmp_path):
    with running_app(
        tmp_path / "data",
        alerts__urls="json://192.0.2.1/a,json://192.0.2.1/b",
        alerts__events="missed_call,sync_failing",
    ) as app:
        assert [(rule.condition, rule.threshold) for rule in list_configured_rules(app.context.settings)] == [
            ("missed_call", 0),
            ("behind", 10),
        ]
        app.call(1, ago(60), outcome="missed")
        RuleEvaluator(app.context, lambda: None).run()
        with app.app_db.read() as connection:
            lines = notification_log.list_newest(connection, 9)
        assert [(line.channel, line.place) for line in lines] == [("apprise", 1), ("apprise", 0)]
        assert "192.0.2.1" not in lines[0].target


def list_scans(connection, read) -> list[str]:
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    read(connection)
    connection.set_trace_callback(None)
    plans = [row for sql in statements for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}")]
    return [
        row["detail"] for row in plans if row["detail"].startswith("SCAN _") or "alert_log" in row["detail"]
    ]


def test_evaluations_read_calls_and_the_log_by_indexes(app):
    with app.mirror_db.read() as connection:
        for read in (
            lambda one: alert_queries.sum_charges(one, ago(86400)),
            lambda one: compute_totals(one, Span(ago(3600), ago(0), 20)),
            lambda one: alert_queries.list_waiting_calls(one, ago(60), 5),
        ):
            assert list_scans(connection, read) == []
    with app.app_db.read() as connection:
        scans = list_scans(connection, lambda one: notification_log.find_last_alert_times(one, [-1, 1]))
    assert scans == ["SEARCH alert_log USING INDEX alert_log_rule (rule_id=?)"]
