"""Random filters, sorts, groups and pages of every collection, compared record by record.

Left out is what the specification leaves open and the facade settles otherwise than the simulator: `in`
with null, values of a wrong type, order between numbers and text, which of a group is the newest where dates
and ids disagree, and what a page holds without a limit.
"""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pytest

from integration.catalogue import OPERATIONS, get_resource
from integration.facade.exposure import EXPOSURE, Exposure
from tests.support.applications.platform_pair import Pair
from tests.support.harness import wait_for

pytestmark = pytest.mark.exhaustive

CASES = int(os.environ.get("CONFORMANCE_CASES", "25"))
COLLECTIONS = [
    operation
    for operation in OPERATIONS
    if operation.response_kind in ("collection", "dictionary")
    # Live calls and their media sessions change by themselves.
    and operation.path not in ("/calls", "/mediasessions")
    and EXPOSURE[operation.name] is Exposure.MIRROR
]


@pytest.mark.parametrize("operation", COLLECTIONS, ids=lambda operation: operation.name)
def test_random_questions_are_answered_alike(operation: Any, pair: Pair) -> None:
    rows = pair.platform.rows(operation.path)
    wait_for(lambda: pair.facade.rows(operation.path) == rows, f"{operation.path} in the mirror")
    rng = random.Random(operation.path)
    for _ in range(CASES):
        params = question(rng, operation.resource, rows)
        theirs, ours = pair.platform.get(operation.path, **params), pair.facade.get(operation.path, **params)
        assert ours.status_code == theirs.status_code, (params, ours.text, theirs.text)
        if ours.status_code != 200:
            continue
        told = ours.json()
        if "group_by" in params and "X-Mirror-Complete" in ours.headers:
            # The simulator shows no count.
            assert all(record.pop("count") > 0 for record in told["data"])
        assert told["total"] == theirs.json()["total"], params
        assert told["data"] == theirs.json()["data"], params


def question(rng: random.Random, name: str, rows: list[dict[str, Any]]) -> dict[str, str]:
    plain = [field for field in rows[0] if not isinstance(rows[0][field], list | dict)]
    params = {"limit": str(rng.choice((1, 3, 10, 5000))), "page": str(rng.choice((1, 1, 1, 2, 3)))}
    if rng.random() < 0.8:
        params["filter"] = json.dumps(
            [condition(rng, name, rows) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
        )
    if rng.random() < 0.6:
        params["sort"], params["dir"] = rng.choice(plain), rng.choice(("ASC", "DESC", "asc"))
    if rng.random() < 0.25:
        date = get_resource(name).date
        dated = [row[date] or "" for row in rows] if date else []
        # Which of a dictionary's codes stands for a group nobody says.
        if dated == sorted(dated) and not name.endswith("_dictionary"):
            params["group_by"] = rng.choice(plain)
    return params


def condition(rng: random.Random, name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    fields = [
        field
        for field in rows[0]
        if not any(isinstance(row.get(field), list | dict) for row in rows)
        and not (name == "fax" and field in ("from", "to"))
    ]
    field = rng.choice(fields)
    values = [row[field] for row in rows if row.get(field) is not None]
    if not values or rng.random() < 0.1:
        return {"property": field, "operator": rng.choice(("eq", "ne", "=", "<>")), "value": None}
    value = rng.choice(values)
    word = rng.choice(("eq", "=", "ne", "neq", "<>", "!=", "in", "like", "notlike"))
    mixed = len({isinstance(known, str) for known in values}) > 1
    if not isinstance(value, bool) and not mixed and rng.random() < 0.4:
        word = rng.choice(("lt", "<", "lte", "<=", "gt", ">", "gte", ">="))
    if word == "in":
        return {"property": field, "operator": word, "value": rng.choices(values, k=rng.choice((0, 1, 4)))}
    if isinstance(value, bool) and "like" in word:
        word = "eq"
    if word in ("like", "notlike"):
        text = value if isinstance(value, str) else json.dumps(value)
        start = rng.randrange(len(text) + 1)
        piece = text[start : start + rng.choice((1, 3, 8))]
        value = rng.choice((piece, piece.upper(), f"%{piece}", f"{piece}%", f"%{piece}%"))
    elif isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.3:
        value = str(value)
    elif isinstance(value, str) and get_resource(name).date == field and rng.random() < 0.3:
        value = value[:10]
        word = rng.choice(("lt", "gte"))
    return {"property": field, "operator": rng.choice((word, word.upper())), "value": value}


BAD = (
    "{",
    "{}",
    '[{"property":"id"}]',
    '[{"property":"id","operator":"between","value":1}]',
    '[{"property":"nothing","operator":"eq","value":1}]',
)


@pytest.mark.parametrize("bad", BAD)
def test_what_can_not_be_asked_is_400_from_both(bad: str, pair: Pair) -> None:
    theirs, ours = pair.both("GET", "/cdrs", params={"filter": bad})
    assert (ours.status_code, theirs.status_code) == (400, 400)
    assert set(ours.json()) == set(theirs.json()) == {"message", "errors"}
