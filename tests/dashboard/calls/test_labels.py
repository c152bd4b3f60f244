"""Labels of the platform and local labels, together on calls."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from integration.workspace import notes
from tests.support.application import Browser, TestApp
from tests.support.applications.shared_app import SharedApp, module_app  # noqa: F401
from tests.support.clock import ago
from tests.support.fake_exchange import read_fixture
from tests.support.page_text import call_ids
from tests.support.people import DAVE

AS_SCRIPT = {"Accept": "application/json"}
CDR = read_fixture("response-cdrs-list-200")["data"][0]


def make_cdr(number: int, **values: object) -> dict[str, Any]:
    return {**CDR, "id": 700 + number, "live_id": number, "root_live_id": number, **values}


def put_call(app: TestApp, number: int, labels: object = None, **values: object) -> None:
    """The CDR 700 + `number` of an ended call with the id `number`."""
    record = make_cdr(number, calldate=ago(hours=number), labels=labels, **values)
    app.put("cdrs", record, complete=False)


def add_local(app: TestApp, leg_id: int, label: str) -> None:
    app.app_db.write(lambda tx: notes.add_label(tx, leg_id, "ann@example.com", label))


def read_tags(html: str) -> list[str]:
    """Text of each label on a page, with the name of its icon."""
    return [
        " ".join(re.sub(r"<[^>]+>", " ", re.sub(r'<svg [^>]*aria-label="([^"]+)"', r"\1<svg", tag)).split())
        for tag in re.findall(r'<(?:a|span) class="tag"[^>]*>(.*?)</(?:a|span)>', html, re.DOTALL)
    ]


@pytest.fixture
def labelled(app: TestApp) -> TestApp:
    put_call(app, 1, ["Order"])
    put_call(app, 2, [])
    put_call(app, 3, ["Order", "Complaint"])
    add_local(app, 2, "VIP")
    add_local(app, 3, "Order")
    return app


def test_labels_of_both_sources_are_shown_and_found_with_their_origins(
    labelled: TestApp, client: Browser
) -> None:
    page = client.get("/calls").text
    assert read_tags(page) == [
        "Order phone system",
        "VIP only here",
        "Complaint phone system",
        "Order phone system and here",
    ]
    for path in ("/calls/3", "/calls/3/beside"):
        assert read_tags(client.get(path).text) == ["Complaint phone system", "Order phone system and here"]
    for query, found in (
        ("label=Order", [1, 3]),
        ("label=VIP", [2]),
        ("label=Compl", []),
        ("q=complai", [3]),
    ):
        assert call_ids(client.get(f"/calls?{query}")) == found, query
    offered = re.findall(r'<option value="([^"]+)">([^<]+)</option>', page.partition("labels-known")[2])
    assert offered[:3] == [
        ("Complaint", "phone system"),
        ("Order", "phone system and here"),
        ("VIP", "only here"),
    ]


def test_undocumented_forms_of_labels_are_read_or_ignored(app: TestApp, client: Browser) -> None:
    app.put("calllabels", {"id": 6001, "name": "Urgent", "color": "#d33"})
    forms = ([{"id": 6001, "name": "Sales"}], [6001], "Order", ["", "  ", None, 9999], None)
    for number, labels in enumerate(forms, 1):
        put_call(app, number, labels)
    page = client.get("/calls")
    assert call_ids(page) == [1, 2, 3, 4, 5]
    assert read_tags(page.text) == ["Sales phone system", "Urgent phone system"]


class Cdrs:
    """The platform's /cdrs: records that PATCH changes."""

    def __init__(self, app: TestApp, *records: dict[str, Any], refusal: int | None = None) -> None:
        self.records = {record["id"]: record for record in records}
        self.refusal = refusal
        self.bodies: list[Any] = []
        app.platform.routes["/cdrs"] = self.respond

    def respond(self, request: Any, reply: Any) -> None:
        if request.method == "PATCH":
            self.bodies.append(json.loads(request.body))
            if self.refusal is not None:
                reply.json({"message": "Validation error", "errors": ["labels: unknown"]}, self.refusal)
                return
            for change in self.bodies[-1]:
                self.records[change["id"]] |= change
            reply.json({"message": "Updated"})
            return
        (condition,) = json.loads(request.query["filter"][0])
        assert (condition["property"], condition["operator"]) == ("id", "in")
        found = [self.records[number] for number in condition["value"] if number in self.records]
        reply.json({"data": found, "total": len(found)})


def test_label_of_an_ended_call_is_written_to_its_cdr(app: TestApp, client: Browser) -> None:
    put_call(app, 1, ["Order"])
    # The platform has a label that the mirror lacks: PATCH replaces all labels.
    platform = Cdrs(app, make_cdr(1, calldate=ago(hours=1), labels=["Order", "New"]))
    added = client.post("/calls/1/labels", label=" VIP  customer ", headers=AS_SCRIPT).json()
    assert platform.bodies == [[{"id": 701, "labels": ["Order", "New", "VIP customer"]}]]
    present = ["New phone system", "Order phone system"]
    assert read_tags(client.get("/calls/1").text) == [*present, "VIP customer phone system and here"]
    client.post("/calls/1/labels", label="Order")
    assert len(platform.bodies) == 1, "the CDR has the label"
    client.post(added["undo"]["action"], headers=AS_SCRIPT)
    assert platform.bodies[1] == [{"id": 701, "labels": ["Order", "New"]}]
    assert "VIP" not in client.get("/calls/1").text
    app.call(5, ago(minutes=3))
    app.leg(5)
    client.post("/calls/5/labels", label="VIP")
    assert read_tags(client.get("/calls/5").text) == [
        "VIP only here (the phone system has no record of the call yet)"
    ]
    assert len(platform.bodies) == 2


def test_label_that_the_platform_refuses_stays_here_with_the_reason(app: TestApp, client: Browser) -> None:
    put_call(app, 1, ["Order"])
    Cdrs(app, make_cdr(1, labels=["Order"]), refusal=400)
    message = client.post("/calls/1/labels", label="VIP", headers=AS_SCRIPT).json()["message"]
    assert message == "Label added here only. Phone system: Validation error: labels: unknown."
    assert read_tags(client.get("/calls/1").text) == [
        "Order phone system",
        "VIP only here (refused by the phone system)",
    ]
    assert call_ids(client.get("/calls?label=VIP")) == [1]
    app.platform.fail()
    client.post("/calls/1/labels", label="VIP")
    assert "VIP only here (phone system unreachable)" in read_tags(client.get("/calls/1").text)
    message = client.post("/calls/1/labels", remove="Order", headers=AS_SCRIPT).json()["message"]
    assert message.startswith("Label removed here, not on the phone system. ")
    assert "Order phone system" in read_tags(client.get("/calls/1").text)


def test_call_labels_of_the_account_are_offered_with_their_colours(app: TestApp, client: Browser) -> None:
    put_call(app, 1, ["Order"])
    app.put(
        "calllabels",
        {"id": 6001, "name": "Urgent", "color": "#d33c3c"},
        {"id": 6002, "name": "Order", "color": "#0a0"},
        {"id": 6003, "name": "Odd", "color": 'red"/><script>'},
    )
    Cdrs(app, make_cdr(1, labels=["Order"]))
    for path in ("/calls/1", "/calls/1/beside"):
        page = client.get(path).text
        offers = re.findall(r'<button class="chip" name="label" value="([^"]+)"[^>]*>(.*?)</button>', page)
        assert [name for name, _ in offers] == ["Odd", "Urgent"], path
        assert 'fill="#d33c3c"' in offers[1][1]
        assert "fill" not in offers[0][1]
        assert '<option value="Order">' in page
        assert 'fill="#0a0"' in page, "the label of the call has its colour"
    client.post("/calls/1/labels", label="Urgent")
    assert read_tags(client.get("/calls/1").text) == ["Order phone system", "Urgent phone system and here"]
    viewer = app.log_in(DAVE)
    assert 'name="label"' not in viewer.get("/calls/1").text
    assert 'name="label"' not in viewer.get("/calls/1/beside").text


def test_label_of_a_live_call_keeps_those_that_the_platform_has(app: TestApp, client: Browser) -> None:
    app.event("call.initial", 4278000101, ago(minutes=1))
    record = {"id": 4278000101, "state": "INITIAL", "labels": ["Order"]}
    app.platform.respond("/calls", {"data": [record], "total": 1})
    app.context.sync_jobs.poll()
    app.platform.respond("/calls/4278000101", {"data": {**record, "labels": ["Order", "VIP"]}, "links": {}})
    client.post("/calls/4278000101/labels", label="VIP")
    (body,) = [json.loads(request.body) for request in app.platform.requests if request.method == "PATCH"]
    assert body == {"labels": ["Order", "VIP"]}
    assert read_tags(client.get("/calls/4278000101").text) == ["VIP here, sent to the phone system"]
