"""Checks of the drift trial after a sync of changed records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import requests

from integration.catalogue import get_resource
from integration.catalogue.shapes import Resource
from integration.core.json_records import RawJson, to_column_value
from integration.mirror.records import schema_drift
from integration.sync.plan import PLAN
from tests.trials.tools.local_product import LocalProduct
from tests.trials.trial import Trial

if TYPE_CHECKING:
    from tests.trials.sync.drift import Wire

Record = dict[str, Any]
REMOVED = object()
"""In place of a value: the field is removed."""
BIG_NUMBER = 2**70

VALUES: dict[str, object] = {
    "missing": REMOVED,
    "null": None,
    "an E.164 number": "+442079460123",
    "digits with zeros before": "007",
    "a text": "what <b>is</b> this",
    "an empty text": "",
    "a number": -7,
    "a fraction": 7.5,
    "a big number": BIG_NUMBER,
    "a boolean": True,
    "a list": [1, "two", None],
    "nested": {"a": {"b": [1, {"c": "+44"}]}},
}
SHORT_KINDS = ("missing", "an E.164 number", "nested")
NEW_FIELD = "a_new_field"
UNCHANGED = {"calls"}
"""Collections that are not changed, because live calls change without the trial."""


def sync_everything(product: LocalProduct, trial: Trial, what: str) -> None:
    """Run a full sync of all collections, like `switchroom sync --full`."""
    rows = product.sync_all()
    incomplete = [
        f"{row['collection']}: {row['error']}" for row in rows if row["error"] or not row["complete"]
    ]
    trial.verify(not incomplete, f"{what}: every collection is complete, except {incomplete}")
    product.settle()


def check_records(product: LocalProduct, wire: Wire, what: str, trial: Trial) -> None:
    """Check that records are stored as sent, in `_doc` and columns."""
    for collection, sent in wire.sent.items():
        of = get_resource(collection)
        if of.key is None or collection in UNCHANGED or not of.is_listed:
            continue
        with product.mirror_db.read() as connection:
            rows = {str(row[of.key]): row for row in connection.execute(f'SELECT * FROM "{of.table}"')}
        for key, record in sent.items():
            row = rows.get(key)
            if row is None:
                trial.verify(False, f"{what}: /{collection} {key} is stored")
                return
            expected = {n: v for n, v in record.items() if collection != "me" or not n.startswith("sip_")}
            stored = json.loads(row["_doc"])
            if list(stored.items()) != list(expected.items()):
                trial.verify(False, f"{what}: /{collection} {key} is stored as received: {row['_doc'][:300]}")
                return
            for field in of.fields:
                if field.name == of.key:
                    continue
                value, column = expected.get(field.name), row[field.name]
                if not is_same_value(value, column):
                    trial.verify(False, f"{what}: {collection}.{field.name} {value!r} became {column!r}")
                    return


def is_same_value(value: object, column: object) -> bool:
    """Compare a column with `value`.

    Nested values are stored as JSON text, numbers too big for SQLite as digits.
    """
    if isinstance(value, list | dict):
        return isinstance(column, str) and json.loads(column) == value
    if value == BIG_NUMBER:
        return column in (str(BIG_NUMBER), to_column_value(RawJson(str(BIG_NUMBER))))
    return type(column) is (int if isinstance(value, bool) else type(value)) and column == value


def check_health(
    product: LocalProduct, browser: requests.Session, what: str, trial: Trial, everything: bool = True
) -> None:
    """Check that no page, export, facade list or job fails."""
    for path, response in request_pages(product, browser) if everything else ():
        trial.verify(response.status_code < 500, f"{what}: {path} returns {response.status_code}")
    for consumer in product.product.consumers:
        consumer.wake()
    product.moved.advance(2)
    product.settle()
    failing = product.list_failing("failing")
    trial.verify(not failing, f"{what}: no job fails, not {failing}")


def request_pages(
    product: LocalProduct, browser: requests.Session
) -> Iterator[tuple[str, requests.Response]]:
    """Request pages, exports and facade lists. Yields path or URL, and response."""
    rules = product.product.site.url_map.iter_rules()
    paths = sorted(
        rule.rule
        for rule in rules
        if not rule.arguments and "GET" in (rule.methods or ()) and "stream" not in rule.rule
    )
    paths += [
        "/calls?q=44&range=all",
        "/recordings?find=a",
        "/voicemail?find=a",
        "/messages?find=4",
        *(f"/contacts/{row[0]}" for row in product.query("SELECT id FROM contacts LIMIT 3")),
    ]
    for (call,) in product.query("SELECT id FROM _calls ORDER BY id DESC LIMIT 4"):
        paths += [f"/calls/{call}", f"/calls/{call}/beside"]
    for name, policy in PLAN.items():
        of = policy.resource
        paths += [f"/exports/{of.table}.csv", f"/account/{name}", f"/system/coverage/{name}"]
        if of.key and of.is_listed:
            rows = product.query(f'SELECT "{of.key}" FROM "{of.table}" LIMIT 3')
            paths += [f"/account/{name}/{key}" for (key,) in rows]
    for path in paths:
        if not path.startswith(("/v1.1", "/v1.2")):
            yield path, browser.get(product.origin + path, timeout=60)
    for name in PLAN:
        url = f"{product.origin}/v1.2/{name}?limit=200"
        yield url, requests.get(url, auth=product.credentials, timeout=60)


def list_drift_entries(product: LocalProduct) -> set[tuple[str, str, str, str]]:
    """Unexpected schema drift: collection, field, kind and value."""
    with product.mirror_db.read() as connection:
        found = schema_drift.list_drift(connection, 100_000)
    return {(one.collection, one.field, one.kind, one.value) for one in found}


def check_drift_shown(
    product: LocalProduct, browser: requests.Session, recorded: set[tuple[str, str, str, str]], trial: Trial
) -> None:
    """Check that new fields and nested values are recorded and shown."""
    for name, policy in PLAN.items():
        of = policy.resource
        if (
            not of.is_listed
            or len(of.fields) <= 1
            or policy.kind in ("live", "dictionary")
            or not has_records(product, of)
        ):
            continue
        trial.verify((name, NEW_FIELD, "field", "object") in recorded, f"/{name}: the new field is recorded")
        typed = [field.name for field in of.fields if field.name != of.key and field.type not in ("object",)]
        nested = [one for one in typed if (name, one, "type", "object") in recorded]
        trial.verify(bool(nested), f"/{name}: nested values are recorded")
    page = browser.get(f"{product.origin}/system").text
    trial.verify(
        NEW_FIELD in page and "object instead of the documented type" in page, "System shows schema drift"
    )


def has_records(product: LocalProduct, of: Resource) -> bool:
    return bool(product.query_value(f'SELECT count(*) FROM "{of.table}"'))


def count_records(product: LocalProduct) -> dict[str, int]:
    """Number of records by table, without missing records, and number of calls."""
    tables = [policy.resource.table for policy in PLAN.values() if policy.kind != "live"]
    tables = [name for name in tables if product.query("SELECT 1 FROM sqlite_schema WHERE name = ?", name)]
    counts = {
        name: product.query_value(f'SELECT count(*) FROM "{name}" WHERE _missing_since IS NULL')
        for name in tables
        if not name.endswith("_dictionaries")
    }
    return {**counts, "_calls": product.query_value("SELECT count(*) FROM _calls")}


def list_differences(before: dict[str, int], after: dict[str, int]) -> list[str]:
    return [f"{name}: {before[name]} → {after[name]}" for name in before if before[name] != after[name]]
