"""Alerts page: rules are created, changed, tested and audited; notices are shown."""

from __future__ import annotations

import re

import pytest

from integration.access import audit
from integration.alerts import notification_log
from integration.alerts import rules as alert_rules
from integration.alerts.conditions import CONDITIONS
from integration.alerts.evaluate import RuleEvaluator
from integration.core import clock
from tests.support.application import running_app
from tests.support.page_text import text
from tests.support.people import BOB, CAROL, ERIN

URL = "https://hooks.example.net/services/canary-token?token=canary-token"
FORM = {"name": "Long waits", "condition": "waiting", "threshold": "45", "notice": "1", "cooldown": "15"}
WEEK = {"day": "0"}


def rules(app) -> list[alert_rules.Rule]:
    with app.app_db.read() as connection:
        return alert_rules.list_all(connection)


def audited(app) -> list[str]:
    return [f"{entry.what}: {entry.about}" for entry in audit.list_newest(app.app_db)]


def ring(app, number: int = 1) -> None:
    app.call(
        number,
        clock.utc_text(clock.unix() - 90),
        state="ringing",
        outcome=None,
        party_name="<img src=x onerror=alert(1)>",
    )
    RuleEvaluator(app.context, lambda: None).run()


def test_a_rule_is_created_changed_paused_and_removed(app, client):
    assert "No rules yet" in text(client.get("/system/alerts"))
    saved = client.post("/system/alerts", **FORM, **WEEK, begins="09:00", ends="17:30")
    assert "Saved." in text(saved)
    (rule,) = rules(app)
    assert (rule.threshold, rule.notice, rule.days, rule.begins, rule.cooldown) == (
        45,
        True,
        "0",
        "09:00",
        15,
    )
    assert "When a caller waits longer than 45 s in any queue or number" in text(client.get("/system/alerts"))
    assert 'value="Long waits"' in client.get(f"/system/alerts?edit={rule.id}").text
    client.post("/system/alerts", **{**FORM, **WEEK, "id": str(rule.id), "threshold": "", "name": "Waits"})
    (rule,) = rules(app)
    assert (rule.name, rule.threshold) == ("Waits", 60)
    client.post(f"/system/alerts/{rule.id}/pause", paused="1")
    assert rules(app)[0].paused_at
    client.post(f"/system/alerts/{rule.id}/pause", paused="0")
    assert rules(app)[0].paused_at is None
    client.post(f"/system/alerts/{rule.id}/remove")
    assert rules(app) == []
    assert audited(app)[:5] == [
        "alert rule removed: Waits",
        "alert rule resumed: Waits",
        "alert rule paused: Waits",
        "alert rule changed: Waits, Long wait",
        "alert rule added: Long waits, Long wait",
    ]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"name": "n" * 61}, "Enter a name"),
        ({"condition": "earthquake"}, "This condition does not exist"),
        ({"threshold": "4"}, "The number of seconds must be from 5 to 3,600"),
        ({"threshold": "many"}, "The number of seconds must be from 5 to 3,600"),
        ({"cooldown": "-1"}, "The minutes of “Repeat every” must be a number"),
        ({"condition": "service_level", "threshold": "101"}, "The number of percent must be from 1 to 100"),
        ({"condition": "many_missed", "threshold": "5", "minutes": "1"}, "minutes must be from 5 to 1,440"),
        ({"day": ""}, "at least one day"),
        ({"begins": "09:00"}, "a start and an end"),
        ({"quiet_from": "9", "quiet_to": "10"}, "a start and an end"),
        ({"notice": ""}, "Choose at least one target"),
        ({"url": "http://hooks.example.net/"}, "The URL must begin with https://"),
        ({"url": "https://ann:secret@example.net/"}, "The URL must not contain credentials"),
        ({"emails": "ann@example.com"}, "E-mail isn’t set up"),
        (
            {"url": URL, "secret": "Bearer ü"},
            "The Authorization header contains characters that are not allowed",
        ),
    ],
)
def test_an_invalid_rule_gets_400_and_stays_in_the_form(shared_app, shared_client, changed, why):
    answer = shared_client.post("/system/alerts", **{**FORM, **WEEK, "quiet_to": "", **changed})
    assert answer.status_code == 400
    assert why in text(answer)
    assert rules(shared_app) == []
    if changed.get("name") is None:
        assert 'value="Long waits"' in answer.text


def test_a_secret_is_not_shown_and_not_sent_to_another_url(app, client):
    client.post("/system/alerts", **FORM, **WEEK, url=URL, secret="Bearer canary-secret")
    (rule,) = rules(app)
    pages = [client.get("/system/alerts").text, client.get(f"/system/alerts?edit={rule.id}").text]
    assert "canary-secret" not in "".join(pages)
    assert "canary-token" not in pages[0]
    client.post("/system/alerts", **{**FORM, **WEEK, "id": str(rule.id), "url": URL})
    assert rules(app)[0].secret == "Bearer canary-secret"
    other = "https://elsewhere.example.net/"
    answer = client.post("/system/alerts", **{**FORM, **WEEK, "id": str(rule.id), "url": other})
    assert (answer.status_code, rules(app)[0].url) == (400, URL)
    assert "The URL has changed. Enter its Authorization header again." in text(answer)
    assert not any("canary" in line for line in audited(app))


def test_the_test_button_shows_the_result_of_each_target(app, client):
    client.post(
        "/system/alerts", **FORM, **WEEK, url="http://127.0.0.1:9/", quiet_from="00:00", quiet_to="23:59"
    )
    (rule,) = rules(app)
    results = text(client.post(f"/system/alerts/{rule.id}/test"))
    assert "shown Alerts of this rule are shown at the top of every page" in results
    assert "failed Test to http://127.0.0.1:9/: 127.0.0.1: it refuses connections" in results
    with app.app_db.read() as connection:
        lines = notification_log.list_newest(connection, 9)
        assert notification_log.find_due(connection, "post") is None
    assert {(line.kind, line.state) for line in lines} == {("test", "sent"), ("test", "failed")}
    assert "alert rule tested: Long waits" in audited(app)


def test_every_kind_is_a_sentence_with_its_defaults(app, client):
    app.put("queues", {"id": 5, "name": "Support"})
    app.put("me", {"id": 1, "currency_iso": "GBP"})
    fields = {"service_level": {"threshold": "80", "minutes": "60", "calls": "10"}}
    for kind, condition in CONDITIONS.items():
        page = client.get(f"/system/alerts?kind={kind}").text
        form = page.split('<form class="rule"')[1].split("</form>")[0]
        numbers = dict(re.findall(r' type="number" name="([a-z]+)" [^>]*value="(\d+)"', form))
        numbers.pop("cooldown", None)
        assert numbers == {name: str(number.default) for name, number in condition.numbers.items()}
        assert numbers == fields.get(kind, numbers)
        assert ('<option value="5">Support' in form) == bool(condition.any_queue)
        added = text(client.post("/system/alerts", condition=kind, notice="1", **WEEK))
        assert condition.label in added
    listed = text(client.get("/system/alerts"))
    assert "When the service level is under 80 % in 60 min, with at least 10 calls" in listed
    assert "When the cost of today, known so far, is over 50 GBP" in listed
    assert len(rules(app)) == len(CONDITIONS)


def test_a_rule_can_be_limited_to_a_queue(app, client):
    app.put("queues", {"id": 5, "name": "Support"})
    client.post("/system/alerts", **FORM, **WEEK, queue="5")
    (rule,) = rules(app)
    assert (rule.queue_id, rule.threshold) == (5, 45)
    assert "When a caller waits longer than 45 s in Support" in text(client.get("/system/alerts"))
    form = client.get(f"/system/alerts?edit={rule.id}").text
    assert '<option value="5" selected>Support' in form


def test_five_suggestions_are_tested_and_switched_on_with_one_click(app, client):
    page = client.get("/system/alerts").text
    kinds = re.findall(r'action="/system/alerts/suggestions/([a-z_]+)"', page)
    assert kinds == ["waiting", "not_called_back", "many_missed", "behind", "disk"]
    assert "shown Alerts of this rule are shown at the top of every page" in text(
        client.post("/system/alerts/suggestions/waiting/test")
    )
    assert rules(app) == []
    for kind in kinds:
        assert "Switched on." in text(client.post(f"/system/alerts/suggestions/{kind}"))
    assert [(rule.condition, rule.threshold, rule.minutes, rule.cooldown) for rule in rules(app)] == [
        ("waiting", 60, 0, 15),
        ("disk", 5, 0, 15),
        ("many_missed", 5, 60, 15),
        ("not_called_back", 30, 0, 15),
        ("behind", 15, 0, 15),
    ]
    assert all(rule.notice and rule.days == "0123456" for rule in rules(app))
    assert "/suggestions/" not in client.get("/system/alerts").text
    assert "alert rule added: Long wait" in audited(app)
    assert client.post("/system/alerts/suggestions/sms").status_code == 404


def test_a_notice_is_shown_on_every_page_until_the_alert_ends(app, client):
    alert_rules.save(app.app_db, alert_rules.Rule(0, "Long <b>waits", "waiting", 60, notice=True))
    ring(app)
    page = client.get("/contacts").text
    assert "Long &lt;b&gt;waits" in page
    assert "<img src=x" not in page
    assert app.log_in(ERIN).get("/").text.count("has been waiting") == 1
    for number in range(2, 6):
        ring(app, number)
    assert client.get("/").text.count("has been waiting") == 1
    assert "and 4 more" in client.get("/").text
    for number in range(3):
        alert_rules.save(app.app_db, alert_rules.Rule(0, f"Rule {number}", "waiting", 60, notice=True))
    RuleEvaluator(app.context, lambda: None).run()
    assert client.get("/").text.count("has been waiting") == 3
    assert "More active alerts" in client.get("/").text
    app.mirror_db.write(lambda tx: tx.execute("UPDATE _calls SET state = 'ended'"))
    RuleEvaluator(app.context, lambda: None).run()
    assert "has been waiting" not in client.get("/").text


def test_agents_limited_to_own_calls_see_no_alerts_of_other_calls(tmp_path):
    with running_app(tmp_path / "data", dashboard__agents_see="own") as app:
        alert_rules.save(app.app_db, alert_rules.Rule(0, "Long waits", "waiting", 60, notice=True))
        ring(app)
        assert "Long waits" not in app.log_in(CAROL.as_user(1)).get("/").text
        assert "Long waits" in app.log_in(BOB).get("/").text
