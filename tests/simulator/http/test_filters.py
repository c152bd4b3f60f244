"""Pages, filters, order and includes, compared with an oracle over all records."""

from __future__ import annotations

import json

import pytest

from tests.support.simulator_client import sample


def test_joined_pages_equal_the_collection(world):
    records = world.rows("/cdrs")
    pages, page = [], 1
    while True:
        body = world.get("/cdrs", page=page, limit=37).json()
        assert body["total"] == len(records)
        if not body["data"]:
            break
        pages += body["data"]
        page += 1
    assert pages == records
    assert [row["id"] for row in records] == sorted(row["id"] for row in records)


def test_an_excessive_limit_is_accepted_and_the_default_limit_is_25(world):
    assert len(world.get("/cdrs", limit=10000).json()["data"]) == len(world.rows("/cdrs"))
    assert len(world.get("/cdrs").json()["data"]) == 25


def test_a_page_has_no_x_next_page_header(world):
    assert "X-Next-Page" not in world.get("/cdrs", limit=5).headers


@pytest.mark.parametrize("direction", ["ASC", "DESC"])
@pytest.mark.parametrize("name", ["id", "calldate", "duration", "src", "parent_live_id"])
def test_records_are_sorted_with_nulls_first(world, name, direction):
    rows = world.rows("/cdrs", sort=name, dir=direction)
    shown = [row[name] for row in rows]
    ranked = sorted(shown, key=lambda value: (value is not None, value or 0 if value is None else value))
    assert shown == (ranked if direction == "ASC" else ranked[::-1])


FILTERS = [
    ("duration", ["eq", "="], 30, lambda actual, expected: actual == expected),
    ("type", ["eq", "="], "O", lambda actual, expected: actual == expected),
    ("type", ["ne", "neq", "<>", "!="], "O", lambda actual, expected: actual != expected),
    ("parent_live_id", ["ne"], 5, lambda actual, expected: actual is not None and actual != expected),
    ("parent_live_id", ["eq"], None, lambda actual, expected: actual is None),
    ("parent_live_id", ["ne"], None, lambda actual, expected: actual is not None),
    ("duration", ["lt", "<"], 60, lambda actual, expected: actual < expected),
    ("duration", ["lte", "<="], 60, lambda actual, expected: actual <= expected),
    ("duration", ["gt", ">"], "60", lambda actual, expected: actual > 60),
    ("duration", ["gte", ">="], 60, lambda actual, expected: actual >= expected),
    ("calldate", ["gte"], "2026-11-18", lambda actual, expected: actual >= expected),
    ("calldate", ["lt"], "2026-11-18 12:00:00", lambda actual, expected: actual < expected),
    ("user_id", ["in"], [1000002, "1000003"], lambda actual, expected: actual in (1000002, 1000003)),
    ("src", ["like"], "7700", lambda actual, expected: "7700" in actual),
    ("src", ["like"], "44%9_0%", lambda actual, expected: actual.startswith("44") and "9" in actual),
    ("src_name", ["like"], "ADA", lambda actual, expected: "ada" in actual.lower()),
    ("src", ["notlike"], "7700", lambda actual, expected: "7700" not in actual),
    ("is_root", ["eq"], True, lambda actual, expected: actual is True),
]


@pytest.mark.parametrize(("name", "spellings", "value", "oracle"), FILTERS)
def test_each_spelling_of_an_operator_returns_the_records_of_the_oracle(
    world, name, spellings, value, oracle
):
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


def test_all_filters_apply_and_an_empty_list_filters_nothing(world):
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
def test_an_invalid_filter_is_a_filtration_error(world, text):
    response = world.get("/cdrs", filter=text)
    assert response.status_code == 400
    assert response.json() == sample("response-filter-400")


def test_group_by_returns_one_record_per_value(world):
    rows = world.rows("/cdrs", group_by="src")
    assert len(rows) == len({row["src"] for row in world.rows("/cdrs")})


def test_include_replaces_ids_by_records_with_the_requested_fields(world):
    groups = world.get("/ringgroups?include=users,ddis&fields[users]=id,first_name,status").json()["data"]
    assert groups[0]["users"][0] == {"id": 1000002, "first_name": "Ben", "status": True}
    assert groups[0]["ddis"][0]["e164"] == "442079460100"
    queues = world.get("/queues?include=users&fields[users]=id,first_name,last_name,status").json()["data"]
    assert (
        queues[0]["users"][0].keys()
        == sample("response-queues-include-users-200")["data"][0]["users"][0].keys()
    )


def test_slashes_are_escaped_as_by_php(world):
    raw = world.get("/ddis/442079460100").content
    assert b'"\\/ddis\\/442079460100"' in raw
    assert b", " not in raw.replace(b"London, ", b"")


def test_unknown_paths_are_404_and_wrong_methods_405_with_an_error_body(world):
    for path, method, status in (
        ("/cdrs/1", "GET", 404),
        ("/nothing", "GET", 404),
        ("/monitors/1.mp3", "GET", 404),
        ("/ping", "DELETE", 405),
    ):
        response = world.send(method, path)
        assert response.status_code == status
        assert set(response.json()) == {"message", "errors"}


def test_both_versions_return_equal_responses(world):
    other = world.simulator.base_origin + "/v1.1/cdrs?limit=3"
    response = world.session.get(other, headers={"X-Auth-Token": world.token})
    assert response.content == world.get("/cdrs", limit=3).content


def test_a_response_has_its_content_length_on_a_persistent_connection(world):
    first = world.get("/cdrs", limit=100)
    assert first.raw.version == 11
    assert int(first.headers["Content-Length"]) == len(first.content)
    head = world.send("HEAD", "/cdrs?limit=100")
    assert (head.content, head.headers["Content-Length"]) == (b"", first.headers["Content-Length"])
    assert world.get("/me").status_code == 200
