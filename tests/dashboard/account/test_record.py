"""Page of a record: formatted fields and related records."""

from __future__ import annotations

import html
import re

import pytest

from tests.support.page_text import text
from tests.support.payloads.account_records import AT

pytestmark = pytest.mark.exhaustive


def field(page, name: str) -> str:
    """Text of a field's value."""
    assert page.status_code == 200, page.text[:300]
    found = re.search(
        rf'<dt title="{re.escape(name)}">[^<]*</dt><dd>((?:(?!<dd).)*?)</dd><dd class="hint">',
        page.text,
        re.DOTALL,
    )
    assert found, f"no field {name}"
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", found[1])).split())


def markup(page, name: str) -> str:
    """HTML of a field's value."""
    found = re.search(
        rf'<dt title="{re.escape(name)}">[^<]*</dt><dd>((?:(?!<dd).)*?)</dd><dd class="hint">',
        page.text,
        re.DOTALL,
    )
    return html.unescape(found[1])


@pytest.fixture
def office(fill):
    """Two users, a ring group, a queue, a number and a CDR."""
    fill(
        "users",
        {"id": 1000001, "first_name": "Ada", "last_name": "Marlow", "ext": "1001", "roles": ["ROLE_ADMIN"]},
        {"id": 1000002, "first_name": "Ben", "last_name": "Okafor", "ext": "1002"},
    )
    fill.item(
        "users",
        {
            "id": 1000001, "first_name": "Ada", "last_name": "Marlow", "ext": "1001", "vm_pin": "0001",
            "fm": True, "fm_strategy": "H", "fm_targets": ["447700900123"], "ring_time": "25",
            "final_dst_type": "R", "final_dst_id": 80001, "created_at": "2026-07-01 23:30:00",
        },
    )  # fmt: skip
    fill("ringgroups", {"id": 80001, "name": "Sales", "strategy": "A"})
    fill.item(
        "ringgroups",
        {"id": 80001, "name": "Sales", "users": [1000001, 9], "ddis": ["442079460100", "442079460199"]},
    )
    fill("queues", {"id": 80101, "name": "Service line", "users": [{"id": 1000002, "status": False}]})
    fill(
        "ddis",
        {"id": "4001", "e164": "442079460100", "name": "Main", "target_type": "R", "target_id": 80001},
    )
    fill(
        "cdrs",
        {
            "id": 7, "live_id": 4278000001, "parent_live_id": None, "user_id": 1000001, "type": "O",
            "calldate": AT, "src": "1001", "src_id": "1000001", "dst": "447700900101", "dst_id": "0",
            "duration": 3723, "billsec": 0, "charge": 0.012, "labels": ["vip", "late"], "call_id": None,
        },
    )  # fmt: skip


def test_values_are_formatted_by_their_meaning(client, office):
    call, user = client.get("/account/cdrs/7"), client.get("/account/users/1000001")
    assert field(call, "duration") == "1:02:03"
    assert field(call, "billsec") == "0:00"
    assert field(call, "charge") == "0.012"
    assert field(call, "call_id") == "—"
    assert field(call, "labels") == "vip late"
    assert field(call, "dst") == "07700 900101"
    assert 'title="+44 7700 900101"' in markup(call, "dst")
    assert field(call, "src") == "1001"
    assert field(call, "calldate") == "Mon 2 Nov 2026, 09:15:00 GMT"
    assert field(user, "created_at") == "Thu 2 Jul 2026, 00:30:00 BST"
    assert 'title="2026-07-01 23:30:00 UTC"' in markup(user, "created_at")
    assert field(user, "ring_time") == "25 s"
    assert field(user, "fm") == "Yes"
    assert field(user, "fm_targets") == "07700 900123"


def test_ids_are_shown_as_names_that_link_to_their_records(client, office):
    call = client.get("/account/cdrs/7")
    assert '<a class="link" href="/account/users/1000001" title="1000001">Ada Marlow</a>' in markup(
        call, "user_id"
    )
    assert "Ada Marlow" in field(call, "src_id")
    assert field(call, "dst_id") == "0"
    assert 'href="/calls/4278000001"' in markup(call, "live_id")
    assert '<a class="button small" href="/calls/4278000001">' in call.text


def test_members_are_listed_by_name_and_unknown_ones_by_id(client, office):
    group = client.get("/account/ringgroups/80001")
    assert field(group, "users") == "Ada Marlow 1000001 9"
    assert 'href="/account/ddis/4001"' in markup(group, "ddis")
    assert "020 7946 0100" in field(group, "ddis")
    assert "020 7946 0199" in field(group, "ddis")
    assert field(group, "strategy") == "Ring all A"
    assert field(client.get("/account/queues/80101"), "users") == "Ben Okafor (off) 1000002"


def test_a_destination_links_to_the_record_of_its_type(client, office):
    user = client.get("/account/users/1000001")
    assert field(user, "final_dst_type") == "Ring group R"
    assert 'href="/account/ringgroups/80001"' in markup(user, "final_dst_id")
    assert 'href="/account/ringgroups/80001"' in markup(client.get("/account/ddis/4001"), "target_id")


def test_a_record_lists_the_records_that_refer_to_it(client, office):
    user = text(client.get("/account/users/1000001"))
    assert "Ring groups Sales" in user
    assert "Queues Service line" not in user
    assert "Call detail records 1" in user
    assert "Telephone numbers 020 7946 0100" in text(client.get("/account/ringgroups/80001"))
    listed = client.get('/account/cdrs?filter=[{"property":"user_id","operator":"eq","value":1000001}]')
    assert 'href="/account/cdrs/7"' in listed.text


def test_a_code_has_the_word_of_the_dictionary_or_else_of_the_catalogue(client, fill, office):
    assert field(client.get("/account/cdrs/7"), "type") == "Outbound O"
    assert field(client.get("/account/users/1000001"), "fm_strategy") == "Hunt H"
    entries = (
        {"property": "type", "id": "O", "name": "Going out <b>"},
        {"disposition": [{"id": "VM", "name": "Voicemail"}], "destination": {"in": "Incoming"}},
    )
    fill("cdrs/dictionaries", *entries)
    assert field(client.get("/account/cdrs/7"), "type") == "Going out <b> O"
    row = re.search(r'<tr class="row">(.*?)</tr>', client.get("/account/cdrs").text, re.DOTALL)[1]
    assert '<span title="O">Going out &lt;b&gt;</span>' in row


def test_a_secret_is_shown_as_hidden(client, office):
    page = client.get("/account/users/1000001")
    assert field(page, "vm_pin") == "•••• hidden"
    assert '"vm_pin": null' in html.unescape(page.text)
    assert "0001" not in re.sub(r"100000\d|80001", "", page.text)


def test_a_secret_nested_in_an_undocumented_field_is_not_shown(client, fill):
    deep = {"a": [{"b": {"c": [{"d": {"pin": "canary", "kept": "seen"}}]}}]}
    fill("contacts", {"id": 3, "odd": [{"phone": {"sip_password": "canary"}}], "deep": deep, "e": 2**70})
    page = client.get("/account/contacts/3")
    assert "seen" in page.text
    assert "canary" not in page.text


def test_numbers_beyond_double_precision_are_shown_as_received(app, client, fill):
    fill("contacts", {"id": 3})
    exact = '{"id":3,"big":123456789012345678901234567890,"long":0.12345678901234567890123}'
    app.mirror_db.write(lambda tx: tx.execute("UPDATE contacts SET _doc = ? WHERE id = 3", (exact,)))
    page = client.get("/account/contacts/3")
    assert field(page, "big") == "123456789012345678901234567890"
    assert "0.12345678901234567890123" in page.text


def test_a_record_that_sqlite_cannot_parse_is_shown_and_does_not_break_search(app, client, fill):
    fill("contacts", {"id": 3, "company": "Lantern"}, {"id": 4, "company": "Lantern"})
    odd = '{"id":3,"company":"Lantern","rate":NaN}'
    app.mirror_db.write(lambda tx: tx.execute("UPDATE contacts SET _doc = ? WHERE id = 3", (odd,)))
    assert client.get("/account/contacts/3").status_code == 200
    assert client.get("/account/contacts?q=lantern").status_code == 200


def test_me_is_a_single_record_at_its_own_path(client, fill):
    assert "Not synced yet" in text(client.get("/account/me"))
    fill("me", {"id": 1000001, "email": "ada@example.com", "balance": 48.2, "currency_iso": "GBP"})
    page = client.get("/account/me")
    assert field(page, "balance") == "48.2"
    assert field(page, "email") == "ada@example.com"


@pytest.mark.parametrize(
    "path",
    [
        "/account/nothing", "/account/callmeback/buttons", "/account/users/1", "/account/users/x",
        "/account/users/9223372036854775808", "/account/users/-1", "/account/users/1/cdrs", "/account/cdr",
        "/account/users/%00", "/account/../users", "/account/ddis/4001%27", "/account/sqlite_master",
        "/account/_meta", "/account/callmeback/websites/99",
    ],
)  # fmt: skip
def test_an_unknown_collection_or_record_gets_404(client, office, path):
    assert client.get(path).status_code == 404


def test_a_collection_takes_precedence_over_a_record_of_the_same_path(client, fill):
    fill("ddis", {"id": "calltracking", "e164": "442079460100"}, {"id": "a/b", "e164": "442079460101"})
    assert "Tracked numbers" in text(client.get("/account/ddis/calltracking"))
    assert "020 7946 0101" in text(client.get("/account/ddis/a%2Fb"))
    assert 'href="/account/ddis/a/b"' in client.get("/account/ddis").text
