"""Block a caller: the form of a routing rule, filled with the number. No rule is sent without a source."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest
import requests

from tests.support.applications.account_office import run_account_office
from tests.support.page_text import text
from tests.support.people import BOB

SAMPLE = Path(__file__).parents[2] / "fixtures" / "platform" / "webhook-call.ringing.json"
RULES = "/account/routingrules"
CALLER = "447700900321"


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    with run_account_office(tmp_path_factory.mktemp("office") / "data") as office:
        yield office


def ring(office, leg: int, number: str) -> int:
    office.receive(json.loads(SAMPLE.read_text()) | {"id": f"x.{leg}", "call_id": leg, "src": number})
    return leg


def find_link(client, call: int) -> str | None:
    found = re.search(r'href="([^"]*block=[^"]*)"', client.get(f"/calls/{call}/beside").text)
    return unescape(found[1]) if found else None


def test_the_drawer_opens_the_form_filled_with_the_number_for_administrators(office):
    call, admin = ring(office, 4_300_000_001, CALLER), office.log_in()
    assert find_link(office.log_in(BOB), call) is None
    link = find_link(admin, call)
    page = admin.get(link)
    assert "can only be removed in the panel of the phone system" in text(page)
    entries = {
        name: unescape(re.search(rf'<(?:input|option)[^>]* name="{name}" value="([^"]*)"', page.text)[1])
        for name in ("action", "direction", "source", "block", "once", "csrf_token")
    }
    assert (entries["source"], entries["action"], entries["direction"]) == ("07700 900321", "block", "I")
    for number, reason in (
        ("anonymous", "can’t be blocked"), ("999", "can’t be blocked"), ("112", "can’t be blocked"),
        ("1001", "can’t be blocked"), ("60300", "can’t be blocked"),
        (office.list_records("ddis")[0]["e164"], "is a number of this account"),
    ):  # fmt: skip
        refused = admin.get(RULES, params={"edit": 1, "block": number})
        assert (refused.status_code, reason in text(refused)) == (400, True), number
        sent = admin.post(RULES, **{**entries, "source": number})
        assert (sent.status_code, reason in text(sent)) == (400, True), number
        assert (
            find_link(
                admin, ring(office, 4_300_000_000 + int(re.sub(r"\D", "", number) or 5) % 10**6, number)
            )
            is None
        )
    assert office.sent("POST", "/routingrules") == []
    assert admin.post(RULES, **entries).status_code == 200
    rule = max(office.list_records("routingrules"), key=lambda one: one["id"])
    assert (rule["source"], rule["action"], rule["direction"]) == (CALLER, "block", "I")
    assert office.log_in(BOB).get(link).status_code == 403


def test_no_form_and_no_client_sends_a_rule_with_an_empty_source(office):
    admin, rule = office.log_in(), office.first_id("routingrules")
    sent = len(office.sent("POST", "/routingrules"))
    for path, entries in (
        (RULES, {"direction": "I"}),
        (f"{RULES}/{rule}", {"version": read_version(admin, rule)}),
    ):
        refused = admin.post(path, action="block", source=" ", **entries)
        assert refused.status_code == 400
        assert "Source is empty. Enter at least one number or person." in text(refused)
    headers = office.add_key("clients", "write")
    for source in ([], "", None, ["", " "]):
        body = {"action": "block", "direction": "I", "source": source}
        for method, path in (("POST", "/routingrules"), ("PATCH", f"/routingrules/{rule}")):
            answer = requests.request(
                method, f"{office.url}/v1.2{path}", json=body, headers=headers, timeout=20
            )
            assert answer.status_code == 403, answer.text
            assert "An empty source" in answer.text
    assert len(office.sent("POST", "/routingrules")) == sent
    assert office.sent("PATCH", f"/routingrules/{rule}") == []


def read_version(client, rule: int) -> str:
    return re.search(r'name="version" value="([^"]*)"', client.get(f"{RULES}/{rule}?edit=1").text)[1]
