"""Reference implementation of collection queries, with random records and conditions."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from hypothesis import strategies as st

from integration.catalogue.shapes import OPERATORS, Field, Resource
from integration.mirror.query import query

CALLS = Resource(
    name="cdr",
    collection="cdrs",
    title="CDR",
    fields=(
        Field("id", "integer"),
        Field("duration", "integer", meaning="duration"),
        Field("live_id", "integer"),
        Field("user_id", "integer"),
        Field("type", "string", meaning="code"),
        Field("calldate", "string"),
        Field("src", "string", meaning="phone"),
        Field("src_name", "string"),
        Field("charge", "number", meaning="cost"),
        Field("cw", "boolean"),
        Field("pin", "string", meaning="secret"),
        Field("labels", "array", documented=False),
    ),
    date="calldate",
)

TEXTS = st.text(alphabet="abXYäÄ_%1kß\u212a", max_size=4)
NUMBERS = st.integers(-3, 12)
DATES = st.sampled_from(
    ["2026-01-01 00:00:00", "2026-01-01 00:00:01", "2026-02-03 04:05:06", "2027-01-01 00:00:00"]
)
RECORD = st.fixed_dictionaries(
    {
        "duration": st.none() | NUMBERS | NUMBERS.map(str),
        "charge": st.none() | st.sampled_from([0.5, 1, 2.25, "0.50", "2.25"]),
        "src": st.none() | TEXTS,
        "calldate": st.none() | DATES,
        "cw": st.none() | st.booleans(),
    },
    optional={"extra": st.none() | TEXTS | NUMBERS | st.booleans()},
)
CONDITION = st.one_of(
    st.tuples(st.just("duration"), st.sampled_from(sorted(OPERATORS)), NUMBERS | NUMBERS.map(str)),
    st.tuples(
        st.just("charge"), st.sampled_from(["eq", "ne", "lt", "gte"]), st.sampled_from([0.5, "2.25", 1])
    ),
    st.tuples(st.just("src"), st.sampled_from(sorted(OPERATORS)), TEXTS),
    st.tuples(st.just("calldate"), st.sampled_from(["eq", "!=", "<", "lte", ">", "gte"]), DATES),
    st.tuples(st.just("calldate"), st.sampled_from(["eq", "lt", "gte"]), st.just("2026-01-01")),
    st.tuples(
        st.sampled_from(["duration", "src", "calldate", "cw"]), st.sampled_from(["eq", "ne"]), st.none()
    ),
    st.tuples(st.just("cw"), st.sampled_from(["eq", "ne"]), st.booleans()),
)


def to_number(value: Any) -> float | None:
    """Return `value` as a float, or None if it is not numeric."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def is_like(pattern: str, text: str) -> bool:
    """Match `text` against a LIKE pattern by recursion."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(is_like(pattern[1:], text[at:]) for at in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and is_like(pattern[1:], text[1:])


def holds(record: dict[str, Any], condition: tuple[str, str, Any]) -> bool:
    """Return True if `record` matches `condition`, a tuple (property, operator, value)."""
    name, operator, value = condition
    operator, have = OPERATORS[operator], record.get(name)
    if value is None:
        return (have is None) == (operator == "eq")
    if have is None:
        return False
    if operator in ("like", "notlike"):
        pattern, text = str(value), str(have)
        if pattern.isascii():
            same = "".join(c.lower() if c.isascii() else c for c in text), pattern.lower()
        else:
            same = text.casefold(), pattern.casefold()
        found = is_like(same[1], same[0]) if "%" in pattern else same[1] in same[0]
        return found == (operator == "like")
    values = value if operator == "in" else [value]
    if name in ("duration", "charge"):
        have, values = to_number(have), [to_number(element) for element in values]
    elif name == "calldate":
        values = [element if len(element) > 10 else element + " 00:00:00" for element in values]
    expected = values[0]
    return {
        "eq": have == expected,
        "in": have in values,
        "ne": have != expected,
        "lt": type(have) is type(expected) and have < expected,
        "lte": type(have) is type(expected) and have <= expected,
        "gt": type(have) is type(expected) and have > expected,
        "gte": type(have) is type(expected) and have >= expected,
    }[operator]


def rank(value: Any) -> tuple[int, Any]:
    """Return the sort key of `value`.

    NULL comes first, then numbers, then texts by code point.
    """
    if value is None:
        return (0, 0)
    return (2, value) if isinstance(value, str) else (1, value)


def fetch_page(question: query.Query, table: sqlite3.Connection) -> list[Any]:
    """Return the records of a page.

    Check as well that `fetch_joined` returns the same bytes.
    """
    texts = question.fetch_texts(table)
    if question.group_by is None:
        assert question.fetch_joined(table) == b",".join(texts)
    return [json.loads(text) for text in texts]
