"""Settings › Text back: the form, the dry run and the rights."""

from __future__ import annotations

import re

import pytest

from integration.access import audit
from integration.workspace import text_back
from tests.support.application import TestApp
from tests.support.applications.shared_app import SharedApp
from tests.support.clock import ago
from tests.support.page_text import text

LINE, SHOP, MOBILE = "+442079460002", "+442079460003", "447400123101"
PATH = "/settings/text-back"
FORM = {
    "line": "", "while": "closed", "delay": "2", "sender": LINE, "countries": "", "template": "",
    "text": "Sorry. {line} opens {opens}.",
}  # fmt: skip


@pytest.fixture
def filled(module_app: SharedApp) -> TestApp:
    module_app.clear()
    fill(module_app)
    return module_app


def fill(app: TestApp) -> None:
    app.put(
        "ddis",
        {"id": "1", "e164": LINE[1:], "name": "Main", "sms_enabled": True},
        {"id": "2", "e164": SHOP[1:], "name": "Shop"},
    )
    app.put("sms/cannedresponses", {"id": 5, "name": "Soon", "text": "We call you soon."})


def list_rules(app: TestApp) -> list[text_back.TextRule]:
    with app.app_db.read() as connection:
        return text_back.list_rules(connection)


def list_audit(app: TestApp) -> list[str]:
    return [f"{entry.what}: {entry.about}" for entry in audit.list_newest(app.app_db)]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"line": "+442079460009"}, "The account has no line +442079460009."),
        ({"sender": SHOP}, "Choose a number that can send and receive SMS."),
        ({"sender": ""}, "Choose a number that can send and receive SMS."),
        ({"delay": "31"}, "The delay must be a whole number of minutes from 0 to 30."),
        ({"delay": "-1"}, "The delay must be a whole number of minutes from 0 to 30."),
        ({"countries": "GB UK"}, "Countries: 'UK' is not a country code; use GB for the United Kingdom."),
        ({"text": " "}, "Enter a text or choose a template."),
        ({"template": "6"}, "This template was removed."),
        ({"text": "Hi {name}"}, "The placeholder {name} does not exist. Use {line} or {opens}."),
        ({"while": "later"}, "Choose when the rule applies."),
        ({"while": "open"}, "{opens} is for callers while closed."),
        # {line} is '020 7946 0002' and {opens} at most '30 September 09:00'.
        ({"text": "a" * 450 + "{line}{opens}"}, "this one has 481 (7-bit)."),
        ({"text": "a" * 449 + "{line}{opens}"}, None),
        ({"text": "a" * 479 + "€"}, "this one has 481 (7-bit)."),
        ({"text": "ж" * 480}, None),
        ({"text": "ж" * 481}, "this one has 481 (UCS-2)."),
    ],
)
def test_a_rule_with_a_mistake_is_refused_and_stays_in_the_form(
    filled: TestApp, changed: dict[str, str], reason: str | None
) -> None:
    response = filled.log_in().post(PATH, **{**FORM, **changed})
    assert len(list_rules(filled)) == (reason is None)
    assert response.status_code == (200 if reason is None else 400)
    if reason is not None:
        assert reason in text(response)
        assert f'placeholder="GB" value="{changed.get("countries", "")}"' in response.text


def test_a_rule_is_a_dry_run_until_it_is_started_with_the_password(app: TestApp) -> None:
    fill(app)
    browser = app.log_in()
    assert "Text back an SMS to missed callers Texts sent this month: 0" in text(browser.get(PATH))
    page = text(browser.post(PATH, **FORM))
    assert "All lines , while closed Sorry. {line} opens {opens}. 46 characters (7-bit), 1 part 2 min" in page
    assert "dry run" in page
    app.clock.advance(minutes=11)
    refused = browser.post(f"{PATH}/1/start")
    assert (refused.status_code, "Confirm that it’s you" in refused.text) == (403, True)
    assert list_rules(app)[0].sending_since is None
    browser = app.log_in()
    assert "sending" in text(browser.post(f"{PATH}/1/start"))
    assert list_rules(app)[0].sending_since is not None
    # A changed rule is a dry run again.
    template = {**FORM, "id": "1", "template": "5", "line": SHOP, "while": "always", "countries": "fr ie"}
    page = text(browser.post(PATH, **template))
    assert "020 7946 0003 · Shop , always We call you soon. 17 characters (7-bit), 1 part" in page
    assert "to FR IE" in page
    assert "dry run" in page
    edited = browser.get(f"{PATH}?edit=1").text
    assert '<option value="5" selected>' in edited
    assert f'<option value="{SHOP}" selected>' in edited
    browser.post(f"{PATH}/1/start")
    assert "dry run" in text(browser.post(f"{PATH}/1/stop"))
    browser.post(f"{PATH}/1/remove")
    assert list_rules(app) == []
    assert [entry for entry in list_audit(app) if entry.startswith("text back")] == [
        f"text back rule removed: {SHOP}, always",
        f"text back stopped: {SHOP}, always",
        f"text back started: {SHOP}, always",
        f"text back rule changed: {SHOP}, always",
        "text back started: all lines, while closed",
        "text back rule added: all lines, while closed",
    ]
    assert browser.post(f"{PATH}/1/start").status_code == 400


def test_a_dry_run_lists_the_last_seven_days_with_the_reason_for_each_caller(filled: TestApp) -> None:
    app = filled
    for number, days, values in (
        (1, 8, {}),
        (2, 3, {}),
        (3, 2.5, {}),
        (4, 1.9, {"party_name": "Nora Lind"}),
        (5, 1, {"outcome": "voicemail"}),
        (6, 0.9, {"outcome": "abandoned"}),
        (7, 0.8, {"party": "", "party_e164": None}),
        (8, 0.001, {"party": "447400123102", "party_e164": "+447400123102"}),
    ):
        app.call(
            number,
            ago(days=days),
            **{"outcome": "missed", "party": MOBILE, "party_e164": f"+{MOBILE}", **values},
        )
    browser = app.log_in()
    page = text(browser.post(PATH, **{**FORM, "while": "always", "text": "Sorry!"}))
    rows = re.findall(
        r'<tr><th scope="row" class="nowrap"><a href="/calls/(\d)">.*?</a>(.*?)</tr>',
        browser.get(PATH).text,
        re.DOTALL,
    )
    found = {number: " ".join(re.sub("<[^>]+>", " ", cells).split()) for number, cells in rows}
    assert found.keys() == set("234567")
    assert re.fullmatch(r"07400 123101 020 7946 0002 Would be sent \d\d:\d\d Sorry!", found["2"])
    assert found["3"].endswith("No text Received a text in the last 24 hours")
    assert re.match(r"Nora Lind .* Would be sent .* Sorry!", found["4"])
    assert found["5"].endswith("No text Left a voice message")
    assert found["6"].endswith("No text Hung up early")
    assert found["7"] == "Withheld 020 7946 0002 No text Number withheld or unknown"
    assert "Would be sent: 2. No text: 4." in page
    with app.app_db.read() as connection:
        assert connection.execute("SELECT count(*) FROM text_back_calls").fetchone()[0] == 0


def test_at_most_twenty_rules(app: TestApp) -> None:
    fill(app)
    browser = app.log_in()
    for _ in range(20):
        assert browser.post(PATH, **FORM).ok
    assert "At most 20 rules are possible." in text(browser.post(PATH, **FORM))


def test_without_a_number_that_can_send_sms_there_is_no_form(app: TestApp) -> None:
    page = text(app.log_in().get(PATH))
    assert "None of your numbers can send SMS." in page
    assert "Add rule" not in page
