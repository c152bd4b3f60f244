"""Page *Settings › Outgoing webhooks*."""

from __future__ import annotations

import re

from integration.access import audit
from tests.events.conftest import sign, webhooks  # noqa: F401
from tests.support.harness import wait_for
from tests.support.people import BOB

PATH = "/settings/outgoing"


def shown_secret(response) -> str:
    return re.search(r'data-copy="(whsec_[^"]+)"', response.text)[1]


def test_an_administrator_adds_tests_repairs_and_removes_a_receiver(app, client, webhooks):  # noqa: F811
    refused = client.post(PATH, name="crm", url="https://10.0.0.1/hook", kind="call.ended", follow=False)
    assert (refused.status_code, 'value="https://10.0.0.1/hook"' in refused.text) == (400, True)
    secret = shown_secret(client.post(PATH, name="crm", url=f"{webhooks.server.url}/crm", kind="call.ended"))
    assert secret not in client.get(PATH).text
    number = webhooks.find().id
    webhooks.statuses["/crm"] = [500, 200]
    for outcome in ("failed: 127.0.0.1 returned 500", "accepted the test with 200"):
        client.post(f"{PATH}/{number}/test")
        wait_for(lambda outcome=outcome: outcome in client.get(PATH).text, "the outcome of the test", 20)
    assert webhooks.requests()[1].headers["webhook-signature"] == sign(webhooks.requests()[1], secret)
    assert secret != shown_secret(client.post(f"{PATH}/{number}/rotate"))

    webhooks.statuses["/crm"] = [410]
    webhooks.announce(7, 8)
    webhooks.deliver()
    webhooks.text = "<b>thanks</b>"
    page = client.get(PATH).text
    assert ("disabled" in page, f"{webhooks.server.url}/…" in page, "/crm<" in page) == (True, True, False)
    client.post(f"{PATH}/{number}/skip")
    client.post(f"{PATH}/{number}/enable")
    webhooks.deliver()
    page = client.get(PATH).text
    assert "Set aside" in page
    assert "&lt;b&gt;thanks" in page
    attempt = re.search(rf"{PATH}/attempts/(\d+)/replay", page)[1]
    client.post(f"{PATH}/attempts/{attempt}/replay")
    wait_for(lambda: "1 events delivered" in client.get(PATH).text, "the replay of the event", 20)
    assert "Set aside" not in client.get(PATH).text
    client.post(f"{PATH}/replay", webhook=str(number), **{"from": "2026-03-04", "to": "2099-03-05"})
    wait_for(lambda: "2 events delivered" in client.get(PATH).text, "the replay of the days", 20)
    assert [call for _, call in webhooks.calls()][2:] == [7, 8, 7, 7, 8]

    client.post(f"{PATH}/{number}/remove")
    assert "No outgoing webhooks yet" in client.get(PATH).text
    entries = [
        (entry.what, entry.about) for entry in audit.list_newest(app.app_db) if "webhook" in entry.what
    ]
    assert entries[0] == ("outgoing webhook removed", "crm")
    assert not any(secret in str(entry) for entry in audit.list_newest(app.app_db))
    assert app.log_in(BOB).get(PATH).status_code == 403
