"""Queries on a real SQLite table, and against an oracle that reads interface.md §6 in Python."""

from __future__ import annotations

import json
import re
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from integration.catalogue import resource
from integration.catalogue.shapes import Field, Resource
from integration.core.errors import QueryError
from integration.mirror.query import query
from integration.mirror.query.filters import MAX_VALUES, OPERATORS
from integration.mirror.schema import open_mirror
from tests.facade.tables import collection_at, insert

CALLS = Resource(
    name="cdr",
    collection="cdrs",
    title="CDR",
    fields=(
        Field("id", "integer"),
        Field("duration", "integer"),
        Field("live_id", "integer"),
        Field("user_id", "integer"),
        Field("type", "string"),
        Field("calldate", "string"),
        Field("src", "string"),
        Field("src_name", "string"),
        Field("charge", "number"),
        Field("cw", "boolean"),
        Field("pin", "string", secret=True),
        Field("labels", "array", documented=False),
    ),
    date="calldate",
)


def answered(question: query.Query, table: sqlite3.Connection) -> list[Any]:
    """The page's records; both ways to get them must agree."""
    texts = question.texts(table)
    if question.group_by is None:
        assert question.joined(table)[:2] == (b",".join(texts), len(texts))
    return [json.loads(text) for text in texts]


RECORDS: list[dict[str, Any]] = [
    {"id": 1, "live_id": 4278000101, "type": "O", "calldate": "2026-09-02 00:00:00", "src": "442079460001"},
    {
        "id": 2,
        "live_id": "4278000102",
        "type": "I",
        "calldate": "2026-09-02 08:45:55",
        "src": "+442079460001",
    },
    {"id": 3, "live_id": None, "type": None, "calldate": "2026-09-03 10:00:00", "src": None, "extra": "x"},
    {
        "id": 4,
        "live_id": 7,
        "type": "M",
        "calldate": None,
        "src": "a_b",
        "src_name": "MÜLLER 100%",
        "duration": 12,
    },
    {
        "id": 5,
        "live_id": 8,
        "type": "M",
        "calldate": "2026-09-01 10:00:00",
        "src": "aXb",
        "charge": 0.035,
        "cw": True,
    },
    {
        "id": 6,
        "live_id": 9,
        "type": "o",
        "calldate": "2026-09-01 10:00:00",
        "src": 1001,
        "extra": 5,
        "cw": False,
    },
]


@pytest.fixture
def table() -> sqlite3.Connection:
    return collection_at(":memory:", CALLS, RECORDS)


def ask(table: sqlite3.Connection, *conditions: tuple[str, str, Any], **args: str) -> list[int]:
    if conditions:
        args["filter"] = json.dumps([{"property": p, "operator": o, "value": v} for p, o, v in conditions])
    question = query.parse(CALLS, args)
    records = answered(question, table)
    if "limit" not in args and "page" not in args:
        assert question.total(table) == len(records)
    return [record["id"] for record in records]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (("live_id", "eq", 4278000101), [1]),
        (("live_id", "=", "4278000101"), [1]),
        (("live_id", "eq", 4278000102), [2]),
        (("live_id", "in", ["4278000101", 4278000102, None, 7]), [1, 2, 4]),
        (("live_id", "in", []), []),
        (("live_id", "eq", None), [3]),
        (("live_id", "ne", None), [1, 2, 4, 5, 6]),
        (("live_id", "ne", "4278000102"), [1, 4, 5, 6]),
        (("live_id", "gte", 4278000101), [1, 2]),
        (("live_id", "lt", "4278000102"), [1, 4, 5, 6]),
        (("live_id", "like", "780001"), [1, 2]),
        (("id", "gt", "4"), [5, 6]),
        (("type", "<>", "O"), [2, 4, 5, 6]),
        (("type", "neq", "O"), [2, 4, 5, 6]),
        (("calldate", "gte", "2026-09-02"), [1, 2, 3]),
        (("calldate", "gt", "2026-09-02"), [2, 3]),
        (("calldate", "eq", "2026-09-02"), [1]),
        (("calldate", "<=", "2026-09-02T08:45:55Z"), [1, 2, 5, 6]),
        (("src", "like", "2079"), [1, 2]),
        (("charge", "ne", 1), [5]),
        (("src", "like", "a_b"), [4]),
        (("src", "like", "%a_b"), [4, 5]),
        (("src", "like", "44%"), [1]),
        (("src", "notlike", "2079"), [4, 5, 6]),
        (("src", "eq", "1001"), [6]),
        (("src", "eq", 1001), [6]),
        (("src", "eq", "442079460001"), [1]),
        (("src_name", "like", "müller"), [4]),
        (("src_name", "like", "%ü_LER%"), [4]),
        (("src_name", "like", "mül%%"), [4]),
        (("src_name", "notlike", "ü"), []),
        (("src", "like", "ü"), []),
        (("src", "notlike", "ü"), [1, 2, 4, 5, 6]),
        (("type", "like", "\u212a"), []),
        (("type", "like", "O"), [1, 6]),
        (("charge", "eq", "0.035"), [5]),
        (("charge", "like", "035"), [5]),
        (("cw", "eq", True), [5]),
        (("cw", "eq", "false"), [6]),
        (("extra", "eq", "x"), [3]),
        (("extra", "eq", "5"), [6]),
        (("extra", "eq", None), [1, 2, 4, 5]),
        (("extra", "<", "6"), [6]),
        (("extra", "<=", "5"), [6]),
        (("extra", ">", "4"), [3, 6]),
        (("extra", ">", "5"), [3]),
        (("extra", ">", 4), [6]),
        (("duration", "like", 2), [4]),
    ],
)
def test_it_finds_what_the_filter_means(
    table: sqlite3.Connection, condition: tuple[str, str, Any], expected: list[int]
) -> None:
    assert ask(table, condition) == expected


def test_a_date_that_came_as_a_number_is_before_no_date(table: sqlite3.Connection) -> None:
    insert(table, CALLS, {"id": 7, "calldate": 1788300000})
    assert 7 not in ask(table, ("calldate", "lt", "2030-01-01"))
    assert 7 not in ask(table, ("calldate", "gte", "1970-01-01"))


def test_a_letter_is_found_behind_a_nul_and_a_sign_that_folds_to_ascii_in_ascii(
    table: sqlite3.Connection,
) -> None:
    insert(table, CALLS, {"id": 7, "src_name": "a\x00é"})
    insert(table, CALLS, {"id": 8, "src_name": "Mike"})
    assert ask(table, ("src_name", "like", "É")) == [7]
    assert ask(table, ("src_name", "notlike", "É")) == [4, 8]
    # The Kelvin sign folds to k.
    assert ask(table, ("src_name", "like", "\u212aE")) == [8]


def test_conditions_and_together_and_an_empty_array_is_no_filter(table: sqlite3.Connection) -> None:
    assert ask(table, ("type", "eq", "M"), ("calldate", "ne", None)) == [5]
    assert ask(table, filter="[]") == [1, 2, 3, 4, 5, 6]
    assert ask(table, filter="") == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ({"filter": "{"}, "JSON"),
        ({"filter": '{"property":"id"}'}, "array"),
        ({"filter": "[1]"}, "entry 1"),
        ({"filter": '[{"property":"id","operator":"eq"}]'}, "value"),
        ({"filter": '[{"property":"nope","operator":"eq","value":1}]'}, "nope"),
        ({"filter": '[{"property":"_doc","operator":"eq","value":1}]'}, "_doc"),
        ({"filter": '[{"property":"id","operator":"between","value":[1,2]}]'}, "between"),
        ({"filter": '[{"property":"id","operator":"in","value":1}]'}, "array"),
        ({"filter": '[{"property":"id","operator":"eq","value":[1]}]'}, "plain"),
        ({"filter": '[{"property":"id","operator":"lt","value":null}]'}, "null"),
        ({"filter": '[{"property":"duration","operator":"gt","value":"long"}]'}, "duration"),
        ({"filter": '[{"property":"duration","operator":"gt","value":true}]'}, "duration"),
        ({"filter": '[{"property":"calldate","operator":"gt","value":"31/12/2026"}]'}, "calldate"),
        ({"filter": '[{"property":"cw","operator":"eq","value":"maybe"}]'}, "cw"),
        ({"filter": '[{"property":"src","operator":"eq","value":"\\ud800"}]'}, "JSON"),
        ({"filter": '[{"property":"id","operator":"eq","value":NaN}]'}, "JSON"),
        ({"filter": "[" * 5000}, "JSON"),
        ({"sort": "nope"}, "nope"),
        ({"sort": "id", "dir": "UP"}, "dir"),
        ({"sort": 'id" DESC; DROP TABLE cdrs; --'}, "DROP"),
        ({"group_by": "(SELECT 1)"}, "SELECT"),
        ({"page": "x"}, "page"),
        ({"page": "0"}, "page"),
        ({"limit": "-1"}, "limit"),
        ({"limit": "1e3"}, "limit"),
    ],
)
def test_nonsense_is_refused_and_named(table: sqlite3.Connection, args: dict[str, str], named: str) -> None:
    with pytest.raises(QueryError, match=named):
        ask(table, **args)


def test_long_lists_are_cut(table: sqlite3.Connection) -> None:
    assert ask(table, ("id", "in", list(range(MAX_VALUES)))) == [1, 2, 3, 4, 5, 6]
    with pytest.raises(QueryError, match=str(MAX_VALUES)):
        ask(table, ("id", "in", list(range(MAX_VALUES + 1))))


def test_hidden_fields_can_not_be_asked_about(table: sqlite3.Connection) -> None:
    for args in (
        {"filter": '[{"property":"pin","operator":"like","value":"1%"}]'},
        {"sort": "pin"},
        {"group_by": "pin"},
    ):
        with pytest.raises(QueryError, match="pin"):
            query.parse(CALLS, args, hidden=frozenset({"pin"})).texts(table)


def test_it_sorts_nulls_first_text_by_code_point_and_ties_by_id(table: sqlite3.Connection) -> None:
    assert ask(table, sort="type") == [3, 2, 4, 5, 1, 6]
    assert ask(table, sort="type", dir="desc") == [6, 1, 4, 5, 2, 3]
    assert ask(table, sort="-calldate") == [3, 2, 1, 5, 6, 4]
    assert ask(table, sort="id", dir="DESC") == [6, 5, 4, 3, 2, 1]
    assert ask(table, sort="extra", dir="DESC") == [3, 6, 1, 2, 4, 5]


def test_pages_count_from_one_and_end_empty(table: sqlite3.Connection) -> None:
    assert ask(table, page="2", limit="2") == [3, 4]
    assert ask(table, page="2", limit="4", sort="type") == [1, 6]
    assert ask(table, page="9", limit="4") == []
    assert ask(table, page="9" * 300, limit="4") == []
    assert query.parse(CALLS, {"limit": "10000"}).limit == 5000
    assert query.parse(CALLS, {"limit": "10000"}, max_limit=20_000).limit == 10_000
    assert query.parse(CALLS, {}).limit == 5000


def test_groups_show_their_newest_record_and_their_size(table: sqlite3.Connection) -> None:
    question = query.parse(CALLS, {"group_by": "type"})
    groups = answered(question, table)
    assert [(group["id"], group["type"], group["count"]) for group in groups] == [
        (1, "O", 1),
        (2, "I", 1),
        (3, None, 1),
        (5, "M", 2),
        (6, "o", 1),
    ]
    assert question.total(table) == 5
    by_date = query.parse(CALLS, {"group_by": "calldate", "sort": "id", "dir": "DESC", "limit": "1"})
    assert answered(by_date, table)[0]["count"] == 2
    assert by_date.total(table) == 5


def test_records_missing_on_the_platform_are_absent_unless_asked_for(table: sqlite3.Connection) -> None:
    insert(table, CALLS, {"id": 99, "type": "O"}, missing_since="2026-09-04 00:00:00")
    assert 99 not in ask(table)
    assert query.parse(CALLS, {}).total(table) == 6
    everything = query.parse(CALLS, {}, missing=True)
    assert everything.total(table) == 7
    assert 99 in [record["id"] for record in answered(everything, table)]


def test_include_and_fields_are_read() -> None:
    question = query.parse(CALLS, {"include": "users, ddis", "fields[users]": "id,first_name"})
    assert question.include == ("users", "ddis")
    assert question.fields == {"users": ("id", "first_name")}


@pytest.mark.parametrize(
    ("sql_filter", "index"),
    [
        (("live_id", "eq", "4278000101"), "cdrs_live_id"),
        (("live_id", "in", [1, 2]), "cdrs_live_id"),
        (("calldate", "gte", "2026-09-02"), "cdrs_calldate"),
    ],
)
def test_filters_on_indexed_fields_use_their_index(
    tmp_path: Path, sql_filter: tuple[str, str, Any], index: str
) -> None:
    name, operator, value = sql_filter
    text = json.dumps([{"property": name, "operator": operator, "value": value}])
    assert f"INDEX {index} (" in plan_of(tmp_path, {"filter": text, "limit": "100"})


@pytest.mark.parametrize(
    ("args", "step"),
    [
        ({"limit": "5000"}, "INTEGER PRIMARY KEY|INDEX cdrs_present"),
        ({"group_by": "dst"}, "SCAN cdrs USING COVERING INDEX cdrs_asked"),
        ({"group_by": "user_id"}, "SCAN cdrs USING COVERING INDEX cdrs_asked"),
        ({"group_by": "calldate"}, "SCAN cdrs USING COVERING INDEX cdrs_(asked|calldate)"),
        ({"sort": "src_name"}, "SCAN cdrs USING COVERING INDEX cdrs_asked"),
        ({"filter": '[{"property":"dst","operator":"eq","value":"1001"}]'}, "INDEX cdrs_asked"),
    ],
)
def test_what_is_asked_of_many_calls_reads_little(tmp_path: Path, args: dict[str, str], step: str) -> None:
    plan = plan_of(tmp_path, args)
    assert re.search(step, plan), plan


def plan_of(folder: Path, args: dict[str, str]) -> str:
    """How SQLite goes about a page of the real table of CDRs."""
    mirror = open_mirror(folder / "mirror.db")
    try:
        with mirror.read() as connection:
            sql, values = query.parse(resource("cdrs"), args)._page(connection, "t._doc")
            rows = connection.execute("EXPLAIN QUERY PLAN " + sql, values)
            return "\n".join(row["detail"] for row in rows)
    finally:
        mirror.close()


# --- the oracle ------------------------------------------------------------------------------------

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


def number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def wild(pattern: str, text: str) -> bool:
    """LIKE, by recursion."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(wild(pattern[1:], text[at:]) for at in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and wild(pattern[1:], text[1:])


def fold(text: str) -> str:
    return text.casefold()


def holds(record: dict[str, Any], condition: tuple[str, str, Any]) -> bool:
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
            same = fold(text), fold(pattern)
        found = wild(same[1], same[0]) if "%" in pattern else same[1] in same[0]
        return found == (operator == "like")
    values = value if operator == "in" else [value]
    if name in ("duration", "charge"):
        have, values = number(have), [number(element) for element in values]
    elif name == "calldate":
        values = [element if len(element) > 10 else element + " 00:00:00" for element in values]
    wanted = values[0]
    return {
        "eq": have == wanted,
        "in": have in values,
        "ne": have != wanted,
        "lt": type(have) is type(wanted) and have < wanted,
        "lte": type(have) is type(wanted) and have <= wanted,
        "gt": type(have) is type(wanted) and have > wanted,
        "gte": type(have) is type(wanted) and have >= wanted,
    }[operator]


def rank(value: Any) -> tuple[int, Any]:
    if value is None:
        return (0, 0)
    return (2, value) if isinstance(value, str) else (1, value)


@settings(max_examples=300)
@given(
    st.lists(RECORD, max_size=12),
    st.lists(CONDITION, max_size=3),
    st.sampled_from(["id", "duration", "src", "calldate", "cw"]),
    st.booleans(),
    st.integers(1, 3),
    st.integers(1, 5),
)
def test_it_agrees_with_the_rules_read_in_python(
    records: list[dict[str, Any]],
    conditions: list[tuple[str, str, Any]],
    sort: str,
    descending: bool,
    page: int,
    limit: int,
) -> None:
    records = [{"id": number, **record} for number, record in enumerate(records, 1)]
    conditions = [
        (name, operator, [value] if OPERATORS[operator] == "in" else value)
        for name, operator, value in conditions
    ]
    table = collection_at(":memory:", CALLS, records)
    matching = [record for record in records if all(holds(record, condition) for condition in conditions)]
    ordered = sorted(matching, key=lambda record: rank(record[sort]), reverse=descending)
    if descending and sort != "id":
        # reverse=True keeps equal records in their order, which is what is wanted: ties by id ascending.
        assert [r["id"] for r in ordered] == [
            r["id"] for r in sorted(matching, key=lambda r: rank(r[sort]), reverse=True)
        ]
    args = {
        "filter": json.dumps([{"operator": o, "property": p, "value": v} for p, o, v in conditions]),
        "sort": sort,
        "dir": "DESC" if descending else "ASC",
        "page": str(page),
        "limit": str(limit),
    }
    question = query.parse(CALLS, args)
    found = ordered[(page - 1) * limit : page * limit]
    assert question.total(table) == len(matching)
    assert answered(question, table) == found
    keys = question.keys(table, 3)
    assert (keys is None) == (len(matching) > 3)
    if keys is not None:
        assert (sorted(json.loads(keys[0])), keys[1]) == ([r["id"] for r in matching], len(matching))
        among = replace(question, among=keys[0])
        assert among.total(table) == len(matching)
        assert answered(among, table) == found
    table.close()


@settings(max_examples=60)
@given(
    st.lists(RECORD, max_size=12),
    st.lists(CONDITION, max_size=2),
    st.sampled_from(["duration", "src", "calldate", "cw"]),
    st.sampled_from(["id", "duration", "src", "calldate"]),
    st.booleans(),
    st.integers(1, 3),
    st.integers(1, 5),
    st.booleans(),
)
def test_groups_agree_with_the_rules_read_in_python(
    records: list[dict[str, Any]],
    conditions: list[tuple[str, str, Any]],
    group_by: str,
    sort: str,
    descending: bool,
    page: int,
    limit: int,
    indexed: bool,
) -> None:
    records = [{"id": number, **record} for number, record in enumerate(records, 1)]
    conditions = [
        (name, operator, [value] if OPERATORS[operator] == "in" else value)
        for name, operator, value in conditions
    ]
    table = collection_at(":memory:", CALLS, records)
    if indexed:
        table.execute("CREATE INDEX with_date ON cdrs (src, calldate, duration)")
        table.execute("CREATE INDEX without_date ON cdrs (duration, _missing_since)")
    groups: dict[Any, list[dict[str, Any]]] = {}
    for record in records:
        if all(holds(record, condition) for condition in conditions):
            groups.setdefault(rank(record[group_by]), []).append(record)
    newest = [
        {**max(group, key=lambda record: (record["calldate"] or "", record["id"])), "count": len(group)}
        for group in groups.values()
    ]
    newest.sort(key=lambda record: record["id"])
    newest.sort(key=lambda record: rank(record[sort]), reverse=descending)
    question = query.parse(
        CALLS,
        {
            "filter": json.dumps([{"operator": o, "property": p, "value": v} for p, o, v in conditions]),
            "group_by": group_by,
            "sort": sort,
            "dir": "DESC" if descending else "ASC",
            "page": str(page),
            "limit": str(limit),
        },
    )
    found = newest[(page - 1) * limit : page * limit]
    keys = question.keys(table, 100)
    assert keys is not None
    for asked in (question, replace(question, among=keys[0])):
        texts, total = asked.groups(table)
        assert [json.loads(text) for text in texts] == found
        assert total == (len(newest) if found else None)
        assert asked.total(table) == len(newest)
    table.close()
