"""Pager, filter, sort and include against an oracle that reads all records."""

from __future__ import annotations

import json

import pytest

from tests.support.simulator_client import sample


def test_pages_join_to_the_whole_collection(world):
    whole = world.rows("/cdrs")
    pages, page = [], 1
    while True:
        body = world.get("/cdrs", page=page, limit=37).json()
        assert body["total"] == len(whole)
        if not body["data"]:
            break
        pages += body["data"]
        page += 1
    assert pages == whole
    assert [row["id"] for row in whole] == sorted(row["id"] for row in whole)


def test_more_than_the_greatest_limit_is_no_error_and_no_limit_gives_a_short_page(world):
    assert len(world.get("/cdrs", limit=10000).json()["data"]) == len(world.rows("/cdrs"))
    assert len(world.get("/cdrs").json()["data"]) == 25


def test_there_is_no_header_that_promises_a_next_page(world):
    assert "X-Next-Page" not in world.get("/cdrs", limit=5).headers


@pytest.mark.parametrize("direction", ["ASC", "DESC"])
@pytest.mark.parametrize("name", ["id", "calldate", "duration", "src", "parent_live_id"])
def test_it_sorts_with_nulls_first(world, name, direction):
    rows = world.rows("/cdrs", sort=name, dir=direction)
    shown = [row[name] for row in rows]
    ranked = sorted(shown, key=lambda value: (value is not None, value or 0 if value is None else value))
    assert shown == (ranked if direction == "ASC" else ranked[::-1])


FILTERS = [
    ("duration", ["eq", "="], 30, lambda have, want: have == want),
    ("type", ["eq", "="], "O", lambda have, want: have == want),
    ("type", ["ne", "neq", "<>", "!="], "O", lambda have, want: have != want),
    ("parent_live_id", ["ne"], 5, lambda have, want: have is not None and have != want),
    ("parent_live_id", ["eq"], None, lambda have, want: have is None),
    ("parent_live_id", ["ne"], None, lambda have, want: have is not None),
    ("duration", ["lt", "<"], 60, lambda have, want: have < want),
    ("duration", ["lte", "<="], 60, lambda have, want: have <= want),
    ("duration", ["gt", ">"], "60", lambda have, want: have > 60),
    ("duration", ["gte", ">="], 60, lambda have, want: have >= want),
    ("calldate", ["gte"], "2026-11-18", lambda have, want: have >= want),
    ("calldate", ["lt"], "2026-11-18 12:00:00", lambda have, want: have < want),
    ("user_id", ["in"], [1000002, "1000003"], lambda have, want: have in (1000002, 1000003)),
    ("src", ["like"], "7700", lambda have, want: "7700" in have),
    ("src", ["like"], "44%9_0%", lambda have, want: have.startswith("44") and "9" in have),
    ("src_name", ["like"], "ADA", lambda have, want: "ada" in have.lower()),
    ("src", ["notlike"], "7700", lambda have, want: "7700" not in have),
    ("is_root", ["eq"], True, lambda have, want: have is True),
]


@pytest.mark.parametrize(("name", "spellings", "value", "oracle"), FILTERS)
def test_each_operator_in_each_spelling_gives_what_the_oracle_gives(world, name, spellings, value, oracle):
    everything = world.rows("/cdrs")
    expected = [row for row in everything if oracle(row[name], value)]
    if "%" in str(value):
        expected = [row for row in everything if row[name] and _matches(row[name])]
    assert expected
    for spelling in spellings:
        entry = [{"property": name, "operator": spelling, "value": value}]
        assert world.rows("/cdrs", filter=json.dumps(entry)) == expected, spelling


def _matches(text: str) -> bool:
    return text.startswith("44") and any(
        text[i] == "9" and text[i + 2 : i + 3] == "0" for i in range(2, len(text))
    )


def test_several_filters_must_all_hold_and_none_is_no_filter(world):
    both = [
        {"operator": "eq", "property": "type", "value": "I"},
        {"property": "billsec", "operator": "gte", "value": 60},
    ]
    expected = [row for row in world.rows("/cdrs") if row["type"] == "I" and row["billsec"] >= 60]
    assert world.rows("/cdrs", filter=json.dumps(both)) == expected
    assert world.rows("/cdrs", filter="[]") == world.rows("/cdrs")


@pytest.mark.parametrize(
    "text",
    [
        '[{"property":"id","operator":"between","value":[1,2]}]',
        '[{"property":"nothing","operator":"eq","value":1}]',
        '[{"property":"id","operator":"in","value":1}]',
        '[{"property":"id"}]',
        '{"property":"id"}',
        "[",
    ],
)
def test_what_the_platform_refuses_is_a_filtration_error(world, text):
    answer = world.get("/cdrs", filter=text)
    assert answer.status_code == 400
    assert answer.json() == sample("response-filter-400")


def test_grouping_shows_one_record_for_each_value(world):
    rows = world.rows("/cdrs", group_by="src")
    assert len(rows) == len({row["src"] for row in world.rows("/cdrs")})


def test_include_turns_ids_into_people_with_the_fields_asked_for(world):
    groups = world.get("/ringgroups?include=users,ddis&fields[users]=id,first_name,status").json()["data"]
    assert groups[0]["users"][0] == {"id": 1000002, "first_name": "Ben", "status": True}
    assert groups[0]["ddis"][0]["e164"] == "442079460100"
    queues = world.get("/queues?include=users&fields[users]=id,first_name,last_name,status").json()["data"]
    assert (
        queues[0]["users"][0].keys()
        == sample("response-queues-include-users-200")["data"][0]["users"][0].keys()
    )


def test_slashes_are_escaped_as_php_does(world):
    raw = world.get("/ddis/442079460100").content
    assert b'"\\/ddis\\/442079460100"' in raw
    assert b", " not in raw.replace(b"London, ", b"")


def test_what_is_not_there_is_404_and_a_wrong_method_405_in_the_platforms_shape(world):
    for path, method, status in (
        ("/cdrs/1", "GET", 404),
        ("/nothing", "GET", 404),
        ("/monitors/1.mp3", "GET", 404),
        ("/ping", "DELETE", 405),
    ):
        answer = world.ask(method, path)
        assert answer.status_code == status
        assert set(answer.json()) == {"message", "errors"}


def test_both_versions_answer_alike(world):
    other = world.simulator.base_origin + "/v1.1/cdrs?limit=3"
    answer = world.session.get(other, headers={"X-Auth-Token": world.token})
    assert answer.content == world.get("/cdrs", limit=3).content


def test_a_body_arrives_in_one_piece_over_a_connection_that_stays_open(world):
    first = world.get("/cdrs", limit=100)
    assert first.raw.version == 11
    assert int(first.headers["Content-Length"]) == len(first.content)
    head = world.ask("HEAD", "/cdrs?limit=100")
    assert (head.content, head.headers["Content-Length"]) == (b"", first.headers["Content-Length"])
    assert world.get("/me").status_code == 200
