"""Numbers as people write them, at each place that reads one."""

from __future__ import annotations

import json
import re
from urllib.parse import urlencode

import pytest

from integration.core import clock
from tests.dashboard.privacy.test_numbers import find
from tests.support.application import TestApp
from tests.support.page_text import text
from tests.support.people import ALICE, BOB

FORMS = {
    "extension": "020 7946 {} x12",
    "extension in words": "020 7946 {} ext. 12",
    "extension of a URI": "+4420 7946 {};ext=12",
    "pause": "020 7946 {},12",
    "URI": "tel:+44-20-7946-{}",
    "label": "020 7946 {} (work)",
    "label before": "[work mobile] 020 7946 {}",
    "embedding": "\u202a+44 20 7946 {}\u202c",
    "direction mark": "\u200e020 7946 {}",
    "zero-width space": "020\u200b7946\u200b{}",
    "soft hyphen": "020\u00ad7946\u00ad{}",
    "non-breaking hyphen": "020\u20117946\u2011{}",
    "en dash": "020\u20137946\u2013{}",
    "full width": "\uff0b\uff14\uff14 \uff12\uff10 \uff17\uff19\uff14\uff16 {}",
    "SIP URI": "sip:+44207946{}@pbx.example;user=phone",
    "callto URI": "callto:+44207946{}",
    "extension in brackets": "+44207946{} (ext 4)",
    "label with a dot": "Tel. 020 7946 {}",
    "label with a colon": "work: 020 7946 {}",
    "word behind": "020 7946 {} mobile",
    "zero in brackets": "+44 (0)20 7946 {}",
}


@pytest.fixture
def settings() -> dict[str, str]:
    return {"dashboard__country": "GB"}


def write(form: str, number: int) -> str:
    return form.format(f"{number:04}")


def ring(app: TestApp, leg: int, caller: str) -> None:
    app.event("call.ringing", leg, clock.utc_text(), state="RINGING", direction="IN", src=caller)


def test_each_written_form_of_a_number_is_that_number_at_every_place(app: TestApp) -> None:
    numbers = dict(enumerate(FORMS.values(), 104))
    contacts = [
        {
            "id": number,
            "first_name": "Ann",
            "last_name": f"No{number}",
            "tel": write(form, number),
        }
        for number, form in numbers.items()
    ]
    app.put("contacts", *contacts)
    app.put("users", {"id": 100, "first_name": "Carol", "last_name": "Greaves", "ext": "201", "active": True})
    app.platform.respond("POST /calls", {"data": {"id": 4270000001}}, 201)
    app.platform.respond("POST /sms", {"data": {"id": 7}}, 201)
    agent, admin = app.log_in(BOB.as_user(100)), app.log_in(ALICE)
    for number, form in numbers.items():
        for path in ("/dial", "/messages"):
            agent.post(path, to=write(form, number), message="Hello", phone="100", follow=False)
            sent = json.loads(app.platform.requests[-1].body)
            assert sent["to"] == f"44207946{number:04}", (path, form)
    for number in numbers:
        ring(app, number, f"44207946{number:04}")
    live = text(agent.get("/live"))
    for number, form in numbers.items():
        written, digits = write(form, number), f"44207946{number:04}"
        assert f"Ann No{number}" in live, form
        found = agent.get(f"/palette?{urlencode({'q': written})}").text
        assert f"/dial?to=%2B{digits}" in found, form
        assert f'href="/contacts/{number}"' in found, form
        assert f'href="/calls/{number}"' in found, form
        assert f'href="/contacts/{number}"' in agent.get(f"/contacts?{urlencode({'find': written})}").text, (
            form
        )
        calls = agent.get(f"/calls?{urlencode({'range': 'all', 'q': written})}").text
        assert f'href="/calls/{number}"' in calls, form
        assert f'href="/calls/{number}"' in agent.get(f"/contacts/{number}").text, form
        assert f"020 7946 {number:04}" in find(admin, written), form
        assert app.get(f"/contacts/{number}").json["data"]["tel"] == written, form


def test_a_form_keeps_the_extension_of_a_number(app: TestApp) -> None:
    app.put("contacts", {"id": 1, "first_name": "Ann", "tel": "020 7946 0104 x12", "mobile": "07700 900101"})
    app.platform.respond("PATCH /contacts/{id}", {"data": {"id": 1}})
    client = app.log_in(ALICE)
    page = client.get("/contacts/1").text
    assert 'value="020 7946 0104 x12"' in page
    fields = {"tel": "020 7946 0104 x13", "mobile": "07700 900101", "first_name": "Ann"}
    version = re.search(r'name="version" value="([^"]+)"', page)
    client.post("/contacts/1", **fields, **({"version": version[1]} if version else {}))
    assert json.loads(app.platform.requests[-1].body) == {"tel": "020 7946 0104 x13"}
