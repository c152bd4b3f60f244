"""Lists of account records: filters, order, paging, search and columns.

The URL holds all of them, and the page states how many records they hide.
"""

from __future__ import annotations

import html
import json
import re
from datetime import date
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from integration.dashboard.site import formats
from tests.support.page_text import link, text
from tests.support.payloads.account_records import AT
from tests.support.people import CALLER

pytestmark = pytest.mark.exhaustive


def names(page) -> list[str]:
    """Names of the listed records, in order."""
    assert page.status_code == 200, page.text[:300]
    rows = re.findall(
        r'<th scope="row" class="name-cell"><div[^>]*>(?:<input [^>]*> )?<a [^>]*>(.*?)</a>', page.text
    )
    return [html.unescape(name) for name in rows]


def keys(page) -> list[int]:
    assert page.status_code == 200, page.text[:300]
    return [
        int(key)
        for key in re.findall(
            r'<th scope="row" class="name-cell"><div[^>]*>(?:<input [^>]*> )?<a [^>]*href="[^"]*/(\d+)"',
            page.text,
        )
    ]


def by(*conditions: tuple[str, str, object]) -> str:
    entries = [{"property": name, "operator": how, "value": what} for name, how, what in conditions]
    return "filter=" + quote(json.dumps(entries))


def cdr(number: int, **values) -> dict:
    return {
        "id": number, "live_id": 4278000000 + number, "user_id": 1000001, "type": "I", "calldate": AT,
        "src": CALLER, "dst": "442079460002", "duration": 10 * number, "billsec": number, "charge": 0.0,
        "disposition": "CONNECTED", **values,
    }  # fmt: skip


@pytest.fixture
def people(fill):
    fill(
        "users",
        {"id": 1, "first_name": "Ada", "last_name": "Marlow", "ext": "1003", "active": True, "cli": CALLER},
        {"id": 2, "first_name": "Ben", "last_name": "Okafor", "ext": "1001", "active": False, "dnd": True},
        {"id": 3, "first_name": "Zoë", "last_name": "Čapek", "ext": "1002", "active": True, "cli": None},
    )


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([("active", "eq", True)], ["Ada Marlow", "Zoë Čapek"]),
        ([("ext", "in", ["1001", *map(str, range(5000, 7500))])], ["Ben Okafor"]),
        ([("last_name", "like", "ka")], ["Ben Okafor"]),
        ([("first_name", "notlike", "a")], ["Ben Okafor", "Zoë Čapek"]),
        ([("active", "eq", True), ("ext", "lt", "1003")], ["Zoë Čapek"]),
    ],
)
def test_a_list_is_filtered_by_any_field_and_operator(client, people, conditions, expected):
    assert names(client.get(f"/account/users?{by(*conditions)}")) == expected


def test_a_list_is_sorted_by_a_field_in_both_directions_and_marked(client, people):
    up = client.get("/account/users?sort=ext")
    assert names(up) == ["Ben Okafor", "Zoë Čapek", "Ada Marlow"]
    assert 'aria-sort="ascending"' in up.text
    other_way = re.search(r'aria-sort="ascending"><a href="([^"]+)"', up.text)
    down = client.get(html.unescape(other_way[1]))
    assert names(down) == ["Ada Marlow", "Zoë Čapek", "Ben Okafor"]
    assert 'aria-sort="descending"' in down.text


def test_paging_shows_every_record_once_and_keeps_filter_and_order(client, fill):
    fill("cdrs", *(cdr(number, disposition="VM" if number % 2 else "CONNECTED") for number in range(1, 261)))
    path, found, pages = f"/account/cdrs?{by(('disposition', 'eq', 'VM'))}&sort=duration&dir=DESC", [], 0
    while path:
        page = client.get(path)
        found += keys(page)
        path, pages = link(page, "next"), pages + 1
    assert found == list(range(259, 0, -2))
    assert pages == 3
    assert "Page 3 of 3" in text(page)
    assert keys(client.get(link(page, "prev"))) == list(range(159, 60, -2))
    assert "130 records" in text(page)


def test_a_page_past_the_end_links_to_the_last_page(client, fill):
    fill("cdrs", *(cdr(number) for number in range(1, 61)))
    page = client.get("/account/cdrs?page=9")
    assert "No such page There are 2 pages of this list." in text(page)
    assert 'href="/account/cdrs?page=2"' in page.text


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        ("OKAFOR ben", ["Ben Okafor"]),
        ("ČAPEK", ["Zoë Čapek"]),
        ("+44 7700 900101", ["Ada Marlow"]),
        ("100", ["Ada Marlow", "Ben Okafor", "Zoë Čapek"]),
        ("last_name", []),
        ("true", []),
        ("a%w", []),
        ("m_rlow", []),
    ],
)
def test_search_matches_values_of_records_not_field_names_or_literals(client, people, q, expected):
    assert names(client.get(f"/account/users?q={quote(q)}")) == expected


def test_search_finds_fields_of_single_records_nested_values_and_escaped_text(client, fill, people):
    fill.item("users", {"id": 2, "fm_targets": ["sip:ben@example.net"], "meta": {"desk": "Window seat"}})
    for q in ("ben@example.net", "window seat"):
        assert names(client.get(f"/account/users?q={quote(q)}")) == ["Ben Okafor"]
    fill("contacts", {"id": 1, "notes": 'the "big" order\nby \\ tomorrow / noon'})
    for q in ('"big"', "\\", "/ noon", "tomorrow"):
        assert keys(client.get(f"/account/contacts?q={quote(q)}")) == [1], q


def test_the_filter_form_redirects_to_the_url_form_of_links(client, people):
    page = client.get(
        f"/account/users?{by(('active', 'eq', True))}&property=ext&operator=in&value=1002,+1003&sort=ext",
        allow_redirects=False,
    )
    assert page.status_code == 302
    parameters = parse_qs(urlsplit(page.headers["Location"]).query)
    assert json.loads(parameters["filter"][0]) == [
        {"property": "active", "operator": "eq", "value": True},
        {"property": "ext", "operator": "in", "value": ["1002", "1003"]},
    ]
    assert parameters["sort"] == ["ext"]
    assert names(client.get(page.headers["Location"])) == ["Zoë Čapek", "Ada Marlow"]


def test_the_filter_form_accepts_no_and_the_operators_filled_and_empty(client, people):
    assert names(client.get("/account/users?property=active&operator=eq&value=no")) == ["Ben Okafor"]
    assert names(client.get("/account/users?property=cli&operator=filled&value=")) == ["Ada Marlow"]
    assert names(client.get("/account/users?property=cli&operator=empty&value=x")) == [
        "Ben Okafor",
        "Zoë Čapek",
    ]


def test_times_are_filtered_and_shown_in_the_display_zone(client, fill, monkeypatch):
    # Half a year later a list shows the year instead of the time.
    monkeypatch.setattr(formats, "today", lambda: date(2026, 7, 3))
    fill("cdrs", cdr(1, calldate="2026-07-01 22:30:00"), cdr(2, calldate="2026-07-01 23:30:00"))
    page = client.get("/account/cdrs?property=calldate&operator=gte&value=2026-07-02")
    assert keys(page) == [2]
    assert "Time ≥ 2 Jul 2026" in text(page)
    assert '"2026-07-01 23:00:00"' in json.dumps(parse_qs(urlsplit(page.url).query)["filter"]).replace(
        "\\", ""
    )
    assert "2 Jul 00:30" in text(page)
    assert 'title="2026-07-01 23:30:00 UTC"' in page.text


def test_a_chip_removes_its_filter(client, people):
    page = client.get(f"/account/users?{by(('active', 'eq', True), ('ext', 'eq', '1002'))}")
    chips = re.findall(r'<a class="chip on" href="([^"]+)"', page.text)
    assert [names(client.get(html.unescape(chip))) for chip in chips] == [
        ["Zoë Čapek"],
        ["Ada Marlow", "Zoë Čapek"],
    ]


def test_columns_are_chosen_in_the_url(client, people):
    page = client.get("/account/users?column=dnd&column=ext&sort=ext")
    assert parse_qs(urlsplit(page.url).query)["columns"] == ["dnd,ext"]
    heads = re.findall(r'<th scope="col"[^>]*><a [^>]*>([^<]+)', page.text)
    assert [head.strip() for head in heads] == ["User", "Do not disturb", "Extension"]


@pytest.mark.parametrize(
    "query",
    [
        by(("nope", "eq", 1)),
        "filter=%7Bnot+json",
        "sort=nope",
        "page=0",
        by(("active", "eq", "perhaps")),
        by(("vm_pin", "eq", "0001")),
        "sort=vm_pin",
        by(("sip_password", "like", "a")),
        "sort=ext%22%3B+DROP+TABLE+users",
    ],
)
def test_an_invalid_query_gets_400_with_a_link_to_all_records(client, people, query):
    page = client.get(f"/account/users?{query}")
    assert page.status_code == 400
    assert "Cannot filter" in text(page)
    assert 'href="/account/users">Show all' in page.text
    assert len(names(client.get("/account/users"))) == 3


def test_search_does_not_match_secrets(client, fill):
    fill("conferences", {"id": 1, "name": "Monday", "pin": "canary4711", "more": [{"pin": "canary0815"}]})
    fill.item("conferences", {"id": 1, "name": "Monday", "pin": "canary4711", "sip_password": "canaryzz"})
    for q in ("canary", "4711", "0815", "canaryzz"):
        assert names(client.get(f"/account/conferences?q={q}")) == [], q
    assert names(client.get("/account/conferences?q=monday")) == ["Monday"]


def test_an_empty_list_states_its_cause(client, fill, people):
    assert "Not synced yet" in text(client.get("/account/ivrs"))
    fill("ivrs")
    assert "None The phone system has no IVRs" in text(client.get("/account/ivrs"))
    assert "The search hides 3 records." in text(client.get("/account/users?q=nobody"))
    assert "The filters hide 3 records." in text(client.get(f"/account/users?{by(('ext', 'eq', '9'))}"))
    fill.record_failure("cdrs", "connection refused")
    assert "Phone system unreachable" in text(client.get("/account/queues"))


def test_missing_history_is_marked_and_missing_settings_are_hidden(client, fill, people):
    fill("cdrs", cdr(1), cdr(2))
    fill.mark_missing("cdrs", 1)
    fill.mark_missing("users", 2)
    assert keys(client.get("/account/cdrs")) == [1, 2]
    assert text(client.get("/account/cdrs")).count("deleted on the phone system") == 1
    page = client.get("/account/users")
    assert names(page) == ["Ada Marlow", "Zoë Čapek"]
    assert "1 is deleted on the phone system but still saved here." in text(page)
    assert names(client.get("/account/users?gone=1")) == ["Ada Marlow", "Ben Okafor", "Zoë Čapek"]


def test_the_export_link_has_the_filter_order_and_columns_of_the_list(client, fill):
    fill("cdrs", cdr(1))
    page = client.get(f"/account/cdrs?{by(('type', 'eq', 'I'))}&sort=duration&dir=DESC&columns=src,dst")
    href = html.unescape(re.search(r'href="(/exports/[^"]+)"', page.text)[1])
    assert urlsplit(href).path == "/exports/cdrs.csv"
    parameters = {name: values[0] for name, values in parse_qs(urlsplit(href).query).items()}
    assert json.loads(parameters.pop("filter")) == [{"property": "type", "operator": "eq", "value": "I"}]
    assert parameters == {
        "sort": "duration",
        "dir": "DESC",
        "columns": "id,calldate,src,dst",
        "tz": "Europe/London",
        "headings": "words",
    }
