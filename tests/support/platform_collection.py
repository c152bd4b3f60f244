"""A collection of the scripted platform: its list with filter, sort and pages, and its records' own paths."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from typing import Any

from tests.support.fake_exchange import NOT_FOUND
from tests.support.scripted_server import Request, ScriptedPlatform

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
    "in": lambda value, allowed: value in allowed,
}


def list_page(records: list[dict[str, Any]], request: Request) -> dict[str, Any]:
    """Body of the page of `records` that `request` selects by filter, sort and page."""
    query = {name: values[-1] for name, values in request.query.items()}
    for entry in json.loads(query.get("filter", "[]")):
        compare = _COMPARISONS[entry["operator"]]
        records = [record for record in records if compare(record[entry["property"]], entry["value"])]
    if "sort" in query:
        records = sorted(
            records, key=lambda record: record[query["sort"]], reverse=query.get("dir") == "DESC"
        )
    limit = int(query.get("limit", 5000))
    start = (int(query.get("page", 1)) - 1) * limit
    return {"data": records[start : start + limit], "total": len(records)}


class PlatformCollection:
    """Records by id, in both forms.

    Tests change them as another client of the platform does. `listed` holds the list forms. `own` holds the
    records whose own path returns another form.
    """

    def __init__(self, platform: ScriptedPlatform, collection: str, *records: dict[str, Any]) -> None:
        self.listed = {record["id"]: record for record in records}
        self.own: dict[int, dict[str, Any]] = {}
        self._platform, self._path = platform, f"/{collection}"
        self.connect()

    def connect(self) -> None:
        """Respond at the paths of the collection, as at first and after an outage."""
        self._platform.routes[self._path] = self._respond_list
        self._platform.routes[f"GET {self._path}/{{id}}"] = self._respond_record

    def add(self, record: dict[str, Any]) -> None:
        self.listed[record["id"]] = record

    def change(self, record_id: int, **values: Any) -> None:
        """Change fields in each form of the record that has them."""
        for forms in (self.listed, self.own):
            form = forms.get(record_id, {})
            form_values = {name: value for name, value in values.items() if name in form}
            if form:
                forms[record_id] = {**form, **form_values}

    def count_reads(self, record_id: int) -> int:
        """Number of requests of the record's own path."""
        return self._platform.count(f"{self._path}/{record_id}")

    def _respond_list(self, request: Request, reply: Any) -> None:
        if request.method == "PATCH":
            for entry in json.loads(request.body):
                self.change(entry["id"], **entry)
            reply.json({"message": "Updated"})
            return
        by_id = sorted(self.listed.values(), key=lambda record: record["id"])
        reply.json(list_page(by_id, request))

    def _respond_record(self, request: Request, reply: Any) -> None:
        record_id = int(request.path.rpartition("/")[2])
        record = self.own.get(record_id, self.listed.get(record_id))
        if record is None:
            reply.json(NOT_FOUND, 404)
        else:
            reply.json({"data": record, "links": {}})
