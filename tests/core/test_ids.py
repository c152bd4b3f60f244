"""Event ids of the platform; the expected values are from observed.md .1.2 and calls.md."""

from __future__ import annotations

import pytest

from integration.core.ids import event_clock

AT = "2021-04-28 08:46:13"
"""The Unix seconds 608920d5 (hexadecimal) of the example in observed.md."""


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
        pytest.param("uk003.608920d55f7ac3.77053295", "2021-04-28 08:46:11", ("uk003", None), id="2 s after"),
        pytest.param("uk003.608920d5000000.77053295", AT, ("uk003", 0), id="first microsecond"),
        pytest.param("uk003.608920d5f423f0.77053295", AT, ("uk003", 999_999), id="last microsecond"),
        pytest.param("uk003.608920d5f42400.77053295", AT, ("uk003", None), id="too many microseconds"),
        pytest.param("de-fra_1.608920d55f7ac3.77053295", AT, ("de-fra_1", 391_084), id="another server"),
        pytest.param("uk003.608920D55F7AC3.77053295", AT, ("uk003", 391_084), id="capital letters"),
        pytest.param("uk003.608920d55f7ac", AT, ("uk003", 391_084), id="without more entropy"),
        pytest.param("uk003.608920d55f7ac3.77053295x", AT, (None, None), id="a letter at the end"),
        pytest.param("uk003.608920d55f7", AT, (None, None), id="too short"),
        pytest.param("608920d55f7ac3.77053295", AT, (None, None), id="no server"),
        pytest.param("7", AT, (None, None), id="a number"),
        pytest.param("sha256:00", AT, (None, None), id="hash of a webhook without id"),
        pytest.param("", AT, (None, None), id="empty"),
        pytest.param("uk003.608920d55f7ac3.77053295", "soon", (None, None), id="not a time"),
    ],
)
def test_event_clock(event_id: str, at: str, expected: tuple[str | None, int | None]) -> None:
    assert event_clock(event_id, at) == expected
