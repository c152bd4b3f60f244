"""Random queries against the reference implementation in Python."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from integration.catalogue.shapes import OPERATORS
from integration.mirror.query import query
from tests.support.examples import example_count
from tests.support.payloads.collection_table import collection_at
from tests.support.payloads.query_reference import (
    CALLS,
    CONDITION,
    RECORD,
    fetch_page,
    holds,
    rank,
)

RECORDS = st.lists(RECORD, max_size=12).map(
    lambda records: [{"id": number, **record} for number, record in enumerate(records, 1)]
)
LISTED_CONDITION = CONDITION.map(
    lambda condition: (*condition[:2], [condition[2]] if OPERATORS[condition[1]] == "in" else condition[2])
)


@example_count(30, exhaustive=300)
@given(
    RECORDS,
    st.lists(LISTED_CONDITION, max_size=3),
    st.sampled_from(["id", "duration", "src", "calldate", "cw"]),
    st.booleans(),
    st.integers(1, 3),
    st.integers(1, 5),
)
def test_a_page_equals_that_of_the_reference(
    records: list[dict[str, Any]],
    conditions: list[tuple[str, str, Any]],
    sort: str,
    descending: bool,
    page: int,
    limit: int,
) -> None:
    table = collection_at(":memory:", CALLS, records)
    matching = [record for record in records if all(holds(record, condition) for condition in conditions)]
    # `reverse=True` keeps the order of equal records: ties are sorted by id, ascending.
    ordered = sorted(matching, key=lambda record: rank(record[sort]), reverse=descending)
    args = {
        "filter": json.dumps([{"operator": o, "property": p, "value": v} for p, o, v in conditions]),
        "sort": sort,
        "dir": "DESC" if descending else "ASC",
        "page": str(page),
        "limit": str(limit),
    }
    page_query = query.parse(CALLS, args)
    found = ordered[(page - 1) * limit : page * limit]
    assert page_query.count_matches(table) == len(matching)
    assert fetch_page(page_query, table) == found
    keys = page_query.fetch_keys(table, 3)
    assert (keys is None) == (len(matching) > 3)
    if keys is not None:
        assert (sorted(json.loads(keys[0])), keys[1]) == ([r["id"] for r in matching], len(matching))
        restricted = replace(page_query, matching_keys=keys[0])
        assert restricted.count_matches(table) == len(matching)
        assert fetch_page(restricted, table) == found
    table.close()
