"""Script injection by webhook and REST: pages run none of 20 payloads.

A script that only the CSP blocks is a console error and fails the test too, because received text must be
escaped.
"""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from playwright.sync_api import expect
from werkzeug.test import Client

from integration.catalogue import get_resource
from integration.core import clock
from integration.core.json_records import read_page
from integration.inbox.receive import Receiver
from integration.mirror.records.upsert import upsert
from integration.workspace import notes, wallboards
from tests.browser.test_accessibility import PAGES

pytestmark = pytest.mark.exhaustive

CALL = "window.pwned&&pwned(1)"
PAYLOADS = (
    f"<script>{CALL}</script>",
    f"</script><script>{CALL}</script>",
    f"</title><script>{CALL}</script>",
    f"</textarea><script>{CALL}</script>",
    f"<img src=x onerror={CALL}>",
    f'"><img src=x onerror={CALL}>',
    f'" onmouseover="{CALL}" x="',
    f"' onfocus='{CALL}' autofocus x='",
    f'" autofocus onfocus={CALL} tabindex=1 x="',
    f"<svg onload={CALL}>",
    f"<svg><script>{CALL}</script></svg>",
    f"<details open ontoggle={CALL}>",
    f"<iframe srcdoc='<script>parent.{CALL}</script>'></iframe>",
    f"<a href=javascript:{CALL} id=evil>x</a>",
    f"javascript:{CALL}",
    f"data:text/html,<script>{CALL}</script>",
    f"{{{{constructor.constructor('{CALL}')()}}}}",
    f"${{{CALL}}}",
    f"&lt;script&gt;{CALL}&lt;/script&gt;&#60;img src=x onerror={CALL}&#62;",
    f"<math><mi xlink:href=javascript:{CALL}>x</mi><style><img src=x onerror={CALL}></style>",
)
FIRST = 5000


def webhook(number: int, name: str, payload: str) -> dict[str, object]:
    """A call event with `payload` in every text field."""
    now = clock.utc_text(clock.unix() - 5)
    return {
        "id": f"t.{number}.{name}", "event_time": now, "event_name": f"call.{name}", "call_id": FIRST + number,
        "state": {"ringing": "RINGING", "hangup": "HANGUP"}[name], "connected_at": None, "start_time": now,
        "context": "LOCAL_USER" if number % 2 else payload, "destination": "in", "duration": 0,
        "t_cause": payload, "src": payload if number % 3 == 0 else f"44770090{number:04}", "src_id": "0",
        "src_name": payload, "src_hash": payload, "dst": payload if number % 4 == 0 else "442079460002",
        "dst_id": "10002", "dst_name": payload, "terminated_by": payload,
    }  # fmt: skip


class Outside:
    """Inputs from the platform: webhooks and records of the REST API."""

    def __init__(self, app) -> None:
        self.app = app
        self.receiver = Client(Receiver(app.context.inbox, app.context.settings.webhooks, ["s" * 43]))

    def receive(self, event: dict[str, object]) -> None:
        assert self.receiver.post("/webhooks/" + "s" * 43, json=event).status_code == 200
        with self.app.context.inbox.database.read() as connection:
            seqs = [row[0] for row in connection.execute("SELECT seq FROM inbox ORDER BY seq DESC LIMIT 1")]
        self.app.context.applier.reapply(seqs)

    def mirror(self, collection: str, *records: dict[str, object]) -> None:
        page = read_page(json.dumps({"data": records, "total": len(records)}).encode())
        self.app.mirror_db.write(
            lambda tx: upsert(
                tx, get_resource(collection), page.records, source="sync", requested_at=clock.utc_text()
            )
        )


@pytest.fixture
def outside(app):
    """Webhooks and records with every payload, already stored."""
    outside = Outside(app)
    now = clock.utc_text(clock.unix() - 60)
    for number, evil in enumerate(PAYLOADS, 1):
        outside.mirror(
            "users",
            {"id": number, "first_name": evil, "last_name": evil, "ext": f"{1000 + number}", "email": evil},
        )
        outside.mirror(
            "contacts",
            {
                "id": number,
                "first_name": evil,
                "last_name": evil,
                "company": evil,
                "tel": f"44770090{number:04}",
                "notes": evil,
                "email": evil,
            },
        )
        outside.mirror("queues", {"id": number, "name": evil, "number": evil})
        outside.mirror("ringgroups", {"id": number, "name": evil, "number": evil})
        outside.mirror("ddis", {"id": number, "e164": f"4420794600{number:02}", "name": evil, "uri": evil})
        outside.mirror(
            "calllabels", {"id": number, "name": evil, "label": evil, "action_url": evil, "colour": evil}
        )
        outside.mirror("cdrs", {"id": number, "live_id": number, "calldate": now, "duration": 9, "billsec": 5,
                               "src": evil if number % 5 == 0 else f"44770090{number:04}", "src_name": evil, "clid": evil,
                               "dst": "442079460002", "dst_name": evil, "disposition": evil, "destination": "in",
                               "context": evil, "t_cause": evil, "info": evil, "labels": [{"name": evil, "action_url": evil}],
                               "metadata": {evil: evil}, "user_id": number, "type": evil})  # fmt: skip
        outside.mirror("monitors", {"id": number, "live_id": number, "duration": 9, "size": 9, "user_id": number, "caller": evil,
                                   "called": evil, "summary": evil, "transcript": evil, "sentiment": evil, "timestamp": now,
                                   "dst_name": evil, "transcript_speakers": evil})  # fmt: skip
        outside.mirror("voicemessages", {"id": number, "live_id": number, "caller": evil, "callerid": evil, "dialled": evil,
                                        "transcript": evil, "folder": evil, "origtime": 1, "duration": 9})  # fmt: skip
        outside.mirror(
            "sms",
            {
                "id": number,
                "created_at": now,
                "from": f"44770090{number:04}",
                "to": "442079460002",
                "message": evil,
                "type": "I",
                "result": evil,
            },
        )
        outside.mirror("faxes", {"id": number, "created_at": now, "from": evil if number % 2 else "442079460002",
                                "to": evil, "filename": evil, "status": evil, "pages": evil, "charge": evil})  # fmt: skip
        outside.mirror("sms/cannedresponses", {"id": number, "name": evil, "text": evil})
        app.app_db.write(lambda tx, evil=evil, number=number: notes.add_label(tx, number, evil, evil[:40]))
        app.app_db.write(lambda tx, evil=evil, number=number: notes.add_note(tx, number, evil, evil))
        outside.receive({"id": f"t.sms.{number}", "event_time": now, "event_name": "sms.received", "customer_id": 1,
                       "user_id": None, "from_no": evil, "to_no": evil, "text": evil})  # fmt: skip
        outside.receive(webhook(number, "ringing", evil))
        outside.receive({"id": evil, "event_name": evil, "call_id": evil})
    return outside


@pytest.fixture
def ran(page):
    """URLs of pages that ran a payload, and texts of dialogs.

    An entry fails the test.
    """
    runs: list[str] = []
    page.context.expose_binding("pwned", lambda source, *_: runs.append(source["page"].url))
    page.on("dialog", lambda dialog: (runs.append(dialog.message), dialog.dismiss()))
    yield runs
    assert runs == []


def provoke(page) -> None:
    """Fire the events and open the elements that payloads wait for."""
    page.evaluate(
        """() => { for (const el of document.querySelectorAll('main *')) {
            for (const name of ['mouseover', 'focus', 'toggle', 'error', 'load']) el.dispatchEvent(new Event(name));
            if (el.matches('details')) el.open = true; } }"""
    )


DEEP = ("/calls/1", "/calls/5003", "/account/contacts", "/account/contacts/3", "/account/calllabels", "/account/cdrs",
        "/account/cdrs/2", "/account/monitors/2", "/messages?with=447700900003", "/contacts/3",
        "/contacts/of/447700900003", "/calls/3/beside", "/system/events/3", "/messages/faxes", "/calls/labels",
        "/calls?label=x", "/account/sms/cannedresponses/3?edit=1", "/account/ringgroups/3?edit=1", "/messages?new=1",
        "/docs", "/live", "/missed?state=all", "/reports/labels?range=week", "/export/cdrs", "/export/call-history/sets",
        "/setup/x", "/login/reset")  # fmt: skip

REFLECTING = (
    "/calls?range=all&q=",
    "/contacts?find=",
    "/messages?find=",
    "/dial?to=",
    "/export/call-history?q=",
)
"""Pages that show text of their address, which follows here."""
UPDATED = ("/missed", "/calls?range=all", "/messages", "/contacts/3", "/notifications", "/reports?range=week")
"""Pages besides Live that refresh their regions while they are open."""

# Elements and attributes that no page of ours has.
FOREIGN = """() => [...document.querySelectorAll('*')].filter(el =>
    [...el.attributes].some(({ name, value }) => /^on/i.test(name)
        || (/^(href|src|srcdoc|data|xlink:href|action|formaction)$/.test(name) && value.includes('pwned')
            && !/^(https?:|tel:|mailto:|[/?#])/.test(value)))
    || el.matches('iframe, object, embed, math, marquee, base, #evil, main script, main style, main img, main animate')
    ).map(el => el.outerHTML.slice(0, 200))"""


def test_no_payload_runs_or_makes_an_element(browse, outside, app, page, ran, problems):
    watch_live_updates(browse, outside, page)
    wallboard = "/wall/" + wallboards.add(app.app_db, PAYLOADS[0])
    # Each page would hold one of the few streams of this server.
    page.route(
        "**/live/stream**",
        lambda route: route.fulfill(body="retry: 600000\n\n", content_type="text/event-stream"),
    )
    for path in (*PAGES, *DEEP, wallboard):
        browse(path)
        provoke(page)
        assert page.evaluate(FOREIGN) == [], path
        protocols = page.evaluate(
            "[...document.links].map(a => a.protocol).filter(p => !/^(https?|tel|mailto):$/.test(p))"
        )
        assert protocols == [], path
        assert ran == [], path
        assert [problem for problem in problems if "404" not in problem] == [], path
        problems.clear()


def test_no_payload_of_an_address_or_a_search_runs(browse, outside, page, ran, problems):
    page.route(
        "**/live/stream**",
        lambda route: route.fulfill(body="retry: 600000\n\n", content_type="text/event-stream"),
    )
    for number, evil in enumerate(PAYLOADS):
        path = REFLECTING[number % len(REFLECTING)]
        browse(path + quote(evil, safe=""))
        assert page.evaluate(FOREIGN) == [], (path, evil)
        browse("/")
        with page.expect_response(lambda response: "more=1" in response.url):
            page.get_by_role("combobox").fill(evil)
        page.evaluate(
            "document.querySelectorAll('#palette *').forEach(el => el.dispatchEvent(new Event('mouseover')))"
        )
        assert page.evaluate(FOREIGN) == [], evil
    assert [problem for problem in problems if "40" not in problem] == []
    problems.clear()


def test_no_payload_runs_in_a_page_that_refreshes(browse, outside, page, ran, problems):
    for step, path in enumerate(UPDATED):
        browse(path)
        expect(page.locator("body[data-flowing]")).to_be_attached()
        with page.expect_event("requestfinished", lambda request, path=path: request.url.endswith(path)):
            for number, evil in enumerate(PAYLOADS, 200 + 100 * step):
                outside.receive(webhook(number, "ringing", evil))
                outside.receive(webhook(number, "hangup", evil))
                outside.receive(
                    {"id": f"t.sms.{number}", "event_time": clock.utc_text(), "event_name": "sms.received",
                     "customer_id": 1, "user_id": None, "from_no": evil, "to_no": evil, "text": evil}
                )  # fmt: skip
        provoke(page)
        assert page.evaluate(FOREIGN) == [], path
        assert ran == [], path
    assert problems == []


def watch_live_updates(browse, outside, page) -> None:
    browse("/")
    expect(page.locator(f"#call-{FIRST + 1}")).to_be_visible()
    for number, evil in enumerate(PAYLOADS, 1):
        outside.receive(webhook(100 + number, "ringing", evil))
    expect(page.locator(f"#call-{FIRST + 100 + len(PAYLOADS)}")).to_be_visible()
    provoke(page)
    page.locator(f"#call-{FIRST + 101} .state").click()
    expect(page.locator("#drawer h2")).to_be_visible()
    for number in (101, 109, 111, 113):
        outside.receive(webhook(number, "hangup", PAYLOADS[number - 101]))
    expect(page.locator(f"#group-ended #call-{FIRST + 113}")).to_be_visible()
    provoke(page)
    assert page.evaluate(FOREIGN) == []
