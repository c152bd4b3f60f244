"""Pages, filters, order and includes, compared with an oracle over all records."""

from __future__ import annotations

import pytest

from tests.support.simulator_client import sample


def test_an_excessive_limit_is_accepted_and_the_default_limit_is_25(world):
    assert len(world.get("/cdrs", limit=10000).json()["data"]) == len(world.rows("/cdrs"))
    assert len(world.get("/cdrs").json()["data"]) == 25


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


def test_lte_includes_its_value(world):
    first, second, *_ = world.rows("/cdrs")
    condition = f'[{{"property":"id","operator":"lte","value":{second["id"]}}}]'
    assert world.rows("/cdrs", filter=condition) == [first, second]


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


def test_a_response_has_its_content_length_on_a_persistent_connection(world):
    first = world.get("/cdrs", limit=100)
    assert first.raw.version == 11
    assert int(first.headers["Content-Length"]) == len(first.content)
    head = world.send("HEAD", "/cdrs?limit=100")
    assert (head.content, head.headers["Content-Length"]) == (b"", first.headers["Content-Length"])
    assert world.get("/me").status_code == 200
