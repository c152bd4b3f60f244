"""Ids in JSON, URLs and SQL; event ids.

Expected values of event ids are those of docs/platform.md#10-event-fields.
"""

from __future__ import annotations

import pytest

from integration.core.ids import MAX_ID, MIN_ID, as_id, event_clock, parse_id

AT = "2021-04-28 08:46:13"
"""The Unix seconds 608920d5 (hexadecimal) of the example in docs/platform.md#10-event-fields."""


@pytest.mark.parametrize(
    ("event_id", "at", "expected"),
    [
        # 5f7ac is 391,084 in decimal.
        pytest.param("uk003.608920d55f7ac3.77053295", AT, ("uk003", 391_084), id="same second"),
        pytest.param(
            "uk003.608920d55f7ac3.77053295", "2021-04-28 08:46:14", ("uk003", -608_916), id="1 s before"
        ),
        pytest.param(
            "uk003.608920d55f7ac3.77053295", "2021-04-28 08:46:12", ("uk003", 1_391_084), id="1 s after"
        ),
        pytest.param(
            "uk003.608920d55f7ac3.77053295", "2021-04-28 08:46:15", ("uk003", None), id="2 s before"
        ),
        pytest.param("uk003.608920d5f423f0.77053295", AT, ("uk003", 999_999), id="last microsecond"),
        pytest.param("uk003.608920d5f42400.77053295", AT, ("uk003", None), id="too many microseconds"),
        pytest.param("uk003.608920d55f7ac3.77053295x", AT, (None, None), id="a letter at the end"),
        pytest.param("608920d55f7ac3.77053295", AT, (None, None), id="no server"),
        pytest.param("", AT, (None, None), id="empty"),
        pytest.param("uk003.608920d55f7ac3.77053295", "soon", (None, None), id="not a time"),
    ],
)
def test_event_clock(event_id: str, at: str, expected: tuple[str | None, int | None]) -> None:
    assert event_clock(event_id, at) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(7, 7, id="integer"),
        pytest.param("7", 7, id="text"),
        pytest.param(7.0, 7, id="integral float"),
        pytest.param(-7, -7, id="negative"),
        pytest.param(MAX_ID, MAX_ID, id="largest"),
        pytest.param(MIN_ID, MIN_ID, id="smallest"),
        pytest.param(MAX_ID + 1, None, id="too large"),
        pytest.param("9" * 5000, None, id="longer than Python converts"),
        pytest.param(2.0**63, None, id="float too large"),
        pytest.param(float("nan"), None, id="not a number"),
        pytest.param(True, None, id="boolean"),
        pytest.param(None, None, id="null"),
        pytest.param("", None, id="empty"),
        pytest.param(" 7", None, id="white space"),
        pytest.param("٣", None, id="Arabic digit"),
    ],
)
def test_as_id(value: object, expected: int | None) -> None:
    assert as_id(value) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", 0), ("42", 42), (str(MAX_ID), MAX_ID)]
    + [(text, None) for text in ("", "-1", "٣", "²", "1.0", "1_0", " 1", "x", str(MAX_ID + 1), None)],
)
def test_parse_id(text: str | None, expected: int | None) -> None:
    assert parse_id(text) == expected
