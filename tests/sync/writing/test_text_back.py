"""Text back: which missed callers get a text, when, and how often."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from integration.access import audit
from integration.core import clock
from integration.maintenance import restore
from integration.maintenance.backup import create
from integration.mirror.page_queries import messages
from integration.mirror.page_queries.messages import SmsReceived
from integration.sync.writing import text_back_sending
from integration.workspace import opening_hours
from tests.support.application import TestApp
from tests.support.clock import ago
from tests.support.fake_exchange import FakeExchange
from tests.support.page_text import text
from tests.support.people import BOB
from tests.support.scripted_server import Request, Server

# The ranges for fiction are no mobile numbers to phonenumbers, so these are assigned ones.
MOBILE, FRENCH, AMERICAN = "447400123101", "33612345678", "12015550123"
LINE, OTHER_LINE = "442079460002", "442079460003"
RULE = {
    "line": "", "while": "always", "delay": "2", "sender": f"+{LINE}", "countries": "", "template": "",
    "text": "Sorry we missed you. {line}",
}  # fmt: skip
PATH = "/settings/text-back"


@pytest.fixture
def app(app: TestApp) -> TestApp:
    """An application on a Monday noon, with a rule that sends for a day."""
    app.clock.set("2026-11-23 12:00:00")
    app.put(
        "ddis",
        {"id": "1", "e164": LINE, "name": "Main", "sms_enabled": True},
        {"id": "2", "e164": OTHER_LINE, "name": "Shop", "sms_enabled": False},
    )
    app.put("users", {"id": 11, "first_name": "Ann", "last_name": "Example", "ext": "1001", "cli": LINE})
    app.platform.routes["/sms"] = lambda request, reply: reply.json(
        {"data": {"id": 900 + len(sent(app)), "type": "O", "created_at": clock.utc_text(), "result": "OK",
                  **json.loads(request.body)}, "links": {}}, 201,
    )  # fmt: skip
    app.clock.advance(days=-1)
    start_rule(app)
    app.clock.advance(days=1)
    return app


def start_rule(app: TestApp, **values: str) -> None:
    browser = app.log_in()
    assert "Saved." in browser.post(PATH, **{**RULE, **values}).text
    number = max(
        int(part.split("/")[0]) for part in browser.get(PATH).text.split(f"{PATH}/")[1:] if part[0].isdigit()
    )
    assert "sending" in text(browser.post(f"{PATH}/{number}/start"))


def change_rule(app: TestApp, **values: str) -> None:
    """Replace the rule. It sends since the day before."""
    change(app, "DELETE FROM text_back_rules")
    app.clock.advance(days=-1)
    start_rule(app, **values)
    app.clock.advance(days=1)


def miss(app: TestApp, number: int = 1, minutes: float = 3, **values: Any) -> None:
    """Add a missed call that ended `minutes` ago."""
    party = values.pop("party", MOBILE)
    values = {"party": party, "party_e164": f"+{party}" if party else None, "outcome": "missed", **values}
    app.call(number, ago(60 * minutes + 30), ended_at=ago(60 * minutes), **values)


def list_posts(platform: FakeExchange | Server) -> list[Request]:
    return [request for request in platform.requests if (request.method, request.path) == ("POST", "/sms")]


def sent(app: TestApp) -> list[dict[str, str]]:
    return [json.loads(request.body) for request in list_posts(app.platform)]


def run(app: TestApp) -> list[tuple[str, str]]:
    """Run the job. Returns receiver and sender of all texts."""
    text_back_sending.run(app.context)
    return [(body["to"], body["from"]) for body in sent(app)]


def decided(app: TestApp) -> list[tuple[str, str]]:
    with app.app_db.read() as connection:
        return [
            tuple(row)
            for row in connection.execute("SELECT state, reason FROM text_back_calls ORDER BY call_id")
        ]


def opt_out(app: TestApp, text: str = "STOP", sender: str = MOBILE, at: str | None = None) -> None:
    """Receive an SMS by webhook."""
    event = SmsReceived(f"{text} {at}", at or clock.utc_text(), 11, f"+{sender}", LINE, text, "{}")
    app.mirror_db.write(lambda tx: messages.add_event(tx, event))


def add_sms(app: TestApp, minutes: float, **values: Any) -> None:
    sms = {"id": 1, "type": "O", "from": LINE, "to": MOBILE, "message": "Hello", **values}
    app.put("sms", {**sms, "created_at": ago(minutes=minutes)}, complete=False)


def set_hours(app: TestApp, *usual_hours: str) -> None:
    for table in ("opening_hours", "opening_hours_source"):
        change(app, f"DELETE FROM {table}")
    opening_hours.seed(app.app_db, usual_hours)


def add_text(app: TestApp, state: str, **age: float) -> None:
    change(app, "INSERT INTO text_back_calls VALUES (7, ?, ?, ?, '')", ago(**age), f"+{MOBILE}", state)


def put(app: TestApp, collection: str, record: dict[str, Any]) -> None:
    app.put(collection, record)


def close_item(app: TestApp) -> None:
    sql = (
        "INSERT INTO callbacks (party, party_name, opened_at, last_at, attempts, last_call_id, reason, state,"
        " closed_at) VALUES (?, '', '', '', 1, 1, 'missed', 'closed', ?)"
    )
    change(app, sql, f"+{MOBILE}", ago(60))


def add_templates(app: TestApp, *texts: str) -> None:
    app.put(
        "sms/cannedresponses",
        *({"id": number, "name": f"T{number}", "text": text} for number, text in enumerate(texts, 5)),
    )


def use_template(app: TestApp, *texts: str) -> None:
    add_templates(app, "Call you later")
    change_rule(app, template="5", text="")
    add_templates(app, *texts)
    if not texts:
        app.mirror_db.write(lambda tx: tx.execute("DELETE FROM sms_cannedresponses"))


def add_call(app: TestApp, seconds: float, **values: Any) -> None:
    """Add an answered call with the same caller."""
    party = {"party": MOBILE, "party_e164": f"+{MOBILE}", "answered_at": ago(seconds - 5)}
    app.call(2, ago(seconds), **{**party, **values})


def change(app: TestApp, sql: str, *values: object) -> None:
    app.app_db.write(lambda tx: tx.execute(sql, values))


SENT, WAITS = "", None
"""Nothing is decided yet (None)."""
OWN = "Number of the account or its people"
NO_RULE = "No rule for this line at this time"
REACHED = "Reached in the meantime"
SMS_SINCE = "Received an SMS since the call"
TEXTED = "Received a text in the last 24 hours"
NO_TEXT = "The text cannot be written: its template was removed, or the next opening is unknown"
WHILE_OPEN, WHILE_CLOSED = ({"while": value} for value in ("open", "closed"))


def P(step: Callable[..., object], *values: Any, **named: Any) -> Callable[[TestApp], object]:
    """Return a step with values."""
    return lambda app: step(app, *values, **named)


CONDITIONS: dict[str, tuple[Any, ...]] = {
    "missed": (miss, SENT),
    "voice message": (P(miss, outcome="voicemail"), WAITS),
    "hung up early": (P(miss, outcome="abandoned"), WAITS),
    "answered": (P(miss, outcome="answered"), WAITS),
    "end not confirmed": (P(miss, unconfirmed=1), WAITS),
    "delay not over": (P(miss, minutes=1.9), WAITS),
    "more than an hour ago": (P(miss, minutes=61), WAITS),
    "less than an hour ago": (P(miss, minutes=59), SENT),
    "withheld": (P(miss, party=""), "Number withheld or unknown"),
    "extension": (P(miss, party="1001", party_e164=None), "Number withheld or unknown"),
    "line of the account": (P(miss, party=OTHER_LINE), OWN),
    "mobile of a colleague": (miss, P(put, "users", {"id": 12, "mobile": f"00{MOBILE}"}), OWN),
    "colleague as a contact": (miss, P(put, "contacts", {"id": 3, "mobile": MOBILE, "internal": True}), OWN),
    "customer as a contact": (miss, P(put, "contacts", {"id": 3, "mobile": MOBILE}), SENT),
    "landline": (P(miss, party="442079460999"), "Not a mobile number"),
    "mobile range for fiction": (P(miss, party="447700900101"), "Not a mobile number"),
    "landline or mobile": (P(change_rule, countries="US"), P(miss, party=AMERICAN), SENT),
    "other country": (P(miss, party=FRENCH), "Number of another country"),
    "named country": (P(change_rule, countries="fr, GB"), P(miss, party=FRENCH), SENT),
    "not the named country": (P(change_rule, countries="FR"), miss, "Number of another country"),
    "other line": (P(change_rule, line=f"+{OTHER_LINE}"), miss, NO_RULE),
    "same line": (P(change_rule, line=f"+{LINE}"), miss, SENT),
    "opted out": (miss, opt_out, "Opted out of texts"),
    "other reply": (miss, P(opt_out, "Stop by at noon"), SENT),
    "called again and reached": (miss, P(add_call, 60), REACHED),
    "answered before": (miss, P(add_call, 600), SENT),
    "called back": (miss, P(add_call, 60, direction="out", talk_seconds=15), REACHED),
    "called back, mailbox": (miss, P(add_call, 60, direction="out", talk_seconds=14), SENT),
    "being called back": (
        miss,
        P(add_call, 60, direction="out", state="talking", outcome=None, talk_seconds=None),
        REACHED,
    ),
    "marked as done": (miss, close_item, REACHED),
    "SMS since": (miss, P(add_sms, 1), SMS_SINCE),
    "SMS since, national": (miss, P(add_sms, 1, to="07400123101"), SMS_SINCE),
    "SMS before": (miss, P(add_sms, 5), SENT),
    "SMS from them": (miss, P(add_sms, 1, **{"type": "I", "from": MOBILE, "to": LINE}), SENT),
    "text a day ago": (miss, P(add_text, "sent", hours=23.9), TEXTED),
    "text without a response": (miss, P(add_text, "claimed", hours=2), TEXTED),
    "refused text": (miss, P(add_text, "refused", hours=2), SENT),
    "text before the clock was set back": (P(add_text, "sent", hours=-0.2), miss, TEXTED),
    "text longer ago": (miss, P(add_text, "sent", hours=24.1), SENT),
    "closed, rule while open": (P(change_rule, **WHILE_OPEN), P(set_hours, "Mon 13:00-17:00"), miss, NO_RULE),
    "closed, rule while closed": (
        P(change_rule, **WHILE_CLOSED),
        P(set_hours, "Mon 13:00-17:00"),
        miss,
        SENT,
    ),
    "open, rule while closed": (
        P(change_rule, **WHILE_CLOSED),
        P(set_hours, "Mon 09:00-17:00"),
        miss,
        NO_RULE,
    ),
    "open, rule while open": (P(change_rule, **WHILE_OPEN), P(set_hours, "Mon 09:00-17:00"), miss, SENT),
    "opened during the delay": (
        *(P(change_rule, **WHILE_CLOSED), P(set_hours, "Mon 11:58-17:00"), miss),
        "The line had opened",
    ),
    "closed during the delay": (
        *(P(change_rule, **WHILE_OPEN), P(set_hours, "Mon 09:00-11:58"), miss),
        "The line had closed",
    ),
    "no next opening": (P(change_rule, text="We open at {opens}"), miss, NO_TEXT),
    "template": (P(use_template, "Soon"), miss, SENT),
    "template removed": (use_template, miss, NO_TEXT),
    "template too long": (P(use_template, "a" * 481), miss, "The text is longer than 480 characters"),
    "SMS switched off": (
        *(miss, P(put, "ddis", {"id": "1", "e164": LINE, "sms_enabled": False})),
        "No number that can send SMS",
    ),
    "called before the start": (
        *(P(miss, minutes=5), P(change, "UPDATE text_back_rules SET sending_since = '2026-11-23 11:56:00'")),
        "Called before sending was started",
    ),
    "dry run": (miss, P(change, "UPDATE text_back_rules SET sending_since = NULL"), WAITS),
}


@pytest.mark.parametrize("row", CONDITIONS.values(), ids=CONDITIONS)
def test_a_missed_caller_gets_a_text_only_if_every_condition_holds(
    app: TestApp, row: tuple[Any, ...]
) -> None:
    *steps, reason = row
    for step in steps:
        step(app)
    texts = run(app)
    assert len(texts) == (reason == SENT)
    assert decided(app)[:1] == ([] if reason is None else [("left out" if reason else "sent", reason)])
    # Nothing is decided or sent twice.
    assert run(app) == texts


def test_the_text_is_sent_once_from_the_called_line_and_shown_with_its_call(app: TestApp) -> None:
    add_sms(app, 60, type="I", **{"from": MOBILE, "to": LINE})
    change_rule(app, text="Missed on {line}. We open {opens}.", **WHILE_CLOSED)
    set_hours(app, "Tue 09:00-17:00")
    miss(app, our_number=OTHER_LINE, our_e164=f"+{OTHER_LINE}")
    miss(app, 2, minutes=2)
    # The shop's number cannot send SMS, so the rule's number does.
    assert run(app) == [(MOBILE, LINE)]
    assert sent(app)[0]["message"] == "Missed on 020 7946 0003. We open Tuesday 09:00."
    assert decided(app) == [("sent", ""), ("left out", TEXTED)]
    browser = app.log_in(BOB)
    assert "Text sent back to the caller: 12:00" in text(browser.get("/calls/1"))
    assert "Text sent back" not in text(browser.get("/calls/2"))
    assert re.search(
        r"Missed on 020 7946 0003.*Sent 12:00 · by text back", text(browser.get(f"/messages?with={MOBILE}"))
    )
    page = text(app.log_in().get(PATH))
    assert "Texts sent this month: 1" in page
    assert [entry for entry in audit.list_newest(app.app_db) if entry.what == "text sent back"] == [
        audit.AuditEntry(ANY, ANY, "text back", "text sent back", "call 1", "requested", "")
    ]
    app.clock.set("2026-12-01 00:00:01")
    assert "Texts sent this month: 0" in text(app.log_in().get(PATH))


def test_a_refused_text_and_one_without_a_response_are_not_repeated(app: TestApp) -> None:
    app.platform.respond("/sms", {"message": "Not enough credit", "errors": []}, 402)
    miss(app)
    run(app)
    assert decided(app) == [("refused", "Phone system: Not enough credit.")]
    del app.platform.routes["/sms"]
    miss(app, 2)
    run(app)
    assert decided(app)[1] == ("claimed", "")
    page = text(app.log_in().get(PATH))
    assert "Refused Phone system: Not enough credit." in page
    assert "Texts sent this month: 1" in page
    assert len(run(app)) == 2
    # A gateway that fails may have passed the text on.
    app.platform.respond("/sms", {"message": "Bad gateway"}, 502)
    miss(app, 3, party="447400123103")
    run(app)
    assert decided(app)[2] == ("claimed", "")


@pytest.mark.parametrize("response", [None, {"data": {"id": 555}}])
def test_an_sms_of_messages_counts_before_the_mirror_has_it(
    app: TestApp, response: dict[str, Any] | None
) -> None:
    if response is None:
        del app.platform.routes["/sms"]
    else:
        app.platform.respond("/sms", response, 201)
    miss(app)
    app.log_in().post("/messages", to=MOBILE, message="We call you at 5", **{"from": LINE})
    assert run(app) == [(MOBILE, LINE)]
    assert decided(app) == [("left out", SMS_SINCE)]
    # A refused SMS does not count.
    app.platform.respond("/sms", {"message": "Not enough credit", "errors": []}, 402)
    miss(app, 2, party="447400123102")
    app.log_in().post("/messages", to="447400123102", message="We call you at 5", **{"from": LINE})
    app.platform.respond("/sms", {"data": {"id": 556}}, 201)
    run(app)
    assert decided(app)[1] == ("sent", "")


@pytest.mark.parametrize(
    ("limits", "hours_between", "expected"),
    [
        ({"text_back__per_hour": "3"}, 0.2, 3),
        ({"text_back__per_hour": "3"}, 0.5, 8),
        ({"text_back__per_day": "5"}, 2, 5),
        ({"text_back__per_day": "5"}, 6, 8),
    ],
)
def test_at_a_limit_all_rules_pause_until_an_administrator_resumes_them(
    app: TestApp, limits: dict[str, str], hours_between: float, expected: int
) -> None:
    app.restart(**limits)
    for number in range(8):
        app.clock.advance(hours=hours_between)
        miss(app, number + 1, party=f"44740012320{number}")
        run(app)
    assert len(sent(app)) == expected
    check = app.context.health.report()["checks"]["text back rules"]
    if expected == 8:
        assert check["error"] is None
        return
    ((key, limit),) = limits.items()
    assert f"{key.replace('__', '.')} = {limit} would be sent. Resume the rules on" in check["error"]
    assert audit.list_newest(app.app_db)[0].what == "text back paused"
    browser = app.log_in()
    assert "All rules are paused." in text(browser.get(PATH))
    browser.post(f"{PATH}/resume")
    # Callers of the pause get none, later ones do.
    assert len(run(app)) == expected
    app.clock.advance(minutes=10)
    miss(app, 20, party="447400123300")
    assert len(run(app)) == expected + 1


def test_more_texts_than_the_limit_at_once_send_none(app: TestApp) -> None:
    for number in range(31):
        miss(app, number + 1, party=f"4474001232{number:02d}")
    assert run(app) == []
    assert "more than text_back.per_hour = 30 would be sent" in text(app.log_in().get(PATH))


def test_after_a_restore_or_with_an_older_database_all_rules_pause(app: TestApp, tmp_path: Path) -> None:
    backup = create(tmp_path, tmp_path.with_name("backups")).path
    miss(app)
    assert len(run(app)) == 1
    # An older house.db beside the newer mirror.db.
    app.product.stop()
    shutil.copy(backup / "house.db", tmp_path / "house.db")
    app.restart()
    miss(app, 2, party="447400123102")
    assert len(run(app)) == 1
    browser = app.log_in()
    assert "All rules are paused. house.db is older than the last text" in text(browser.get(PATH))
    browser.post(f"{PATH}/resume")
    app.clock.advance(minutes=10)
    miss(app, 3, party="447400123103")
    assert len(run(app)) == 2
    # Both databases of the backup.
    app.product.stop()
    restore.restore(backup, tmp_path, replace=True)
    app.restart()
    assert run(app) == [(MOBILE, LINE), ("447400123103", LINE)]
    assert "All rules are paused. A backup was restored" in text(app.log_in().get(PATH))
