"""Match of a method and a path to an operation."""

from __future__ import annotations

import pytest

from integration import catalogue

EXAMPLES = {
    "id": "42",
    "ids": "1,2,3",
    "e164": "442079460002",
    "from": "442079460002",
    "to": "447700900101",
    "hash": "0f3a-x",
    "areacode": "20",
}


def test_every_operation_is_found_at_its_own_path():
    for row in catalogue.OPERATIONS:
        parameters = {name: EXAMPLES[name] for name in row.parameters}
        path = row.path
        for name, value in parameters.items():
            path = path.replace(f"{{{name}}}", value)
        assert catalogue.match(row.method, path) == (row, parameters), row.name
        assert row.method in catalogue.list_methods(path), row.name


@pytest.mark.parametrize(
    ("method", "path", "found", "parameters"),
    [
        ("GET", "/sms/dictionaries", "GET /sms/dictionaries", {}),
        ("GET", "/ddis/+442079460002", "GET /ddis/{e164}", {"e164": "+442079460002"}),
        ("GET", "/cdrs/calltracking", "GET /cdrs/calltracking", {}),
        ("GET", "/cdrs/4278000101", "GET /cdrs/{id}", {"id": "4278000101"}),
        ("GET", "/cdrs/7.trace", "GET /cdrs/{id}.trace", {"id": "7"}),
        ("GET", "/users/7/cdrs.csv", "GET /users/{id}/cdrs.csv", {"id": "7"}),
        ("DELETE", "/monitors/7,8", "DELETE /monitors/{ids}", {"ids": "7,8"}),
        (
            "GET",
            "/users/7/sms/threads/+442079460002/Example Shop",
            "GET /users/{id}/sms/threads/{from}/{to}",
            {"id": "7", "from": "+442079460002", "to": "Example Shop"},
        ),
        (
            "GET",
            "/registrations/ab.c/numbers/020",
            "GET /registrations/{hash}/numbers/{areacode}",
            {"hash": "ab.c", "areacode": "020"},
        ),
    ],
)
def test_the_correct_operation_is_found_among_similar_paths(method, path, found, parameters):
    match = catalogue.match(method, path)
    assert match is not None
    assert (match[0].name, match[1]) == (found, parameters)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/cdrs/"),
        ("GET", "//cdrs"),
        ("GET", "/CDRS"),
        ("GET", "/cdrs/-7"),
        ("GET", "/cdrs/7\n"),
        ("GET", "/cdrs/٧"),
        ("GET", "/cdrs/" + "7" * 5000),
        ("GET", "/cdrs/7xtrace"),
        ("GET", "/monitors/calltracking.mp3"),
        ("DELETE", "/monitors/7,"),
        ("GET", "/ddis/++44"),
        ("GET", "/apitokens"),
        ("PUT", "/cdrs"),
        ("PATCH", "/queues/7"),
    ],
)
def test_other_paths_and_methods_match_no_operation(method, path):
    assert catalogue.match(method, path) is None
