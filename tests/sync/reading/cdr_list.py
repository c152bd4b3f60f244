"""A list of CDRs that follows the conventions of the specification."""

from __future__ import annotations

import json

from tests.support.fake_exchange import FakeExchange

COMPARISONS = {
    "eq": lambda value, limit: value == limit,
    "gt": lambda value, limit: value is not None and value > limit,
    "gte": lambda value, limit: value is not None and value >= limit,
    "lt": lambda value, limit: value is not None and value < limit,
}


class CdrList:
    """The platform's list of CDRs, by the specification's common conventions."""

    def __init__(self, platform: FakeExchange) -> None:
        self.records: list[dict[str, object]] = []
        self.can_sort = True
        self.can_filter_dates = True
        platform.routes["/cdrs"] = self.respond

    def add(self, number: int, calldate: str | None) -> None:
        self.records.append(
            {
                "id": number, "live_id": 4278000000 + number, "root_live_id": 4278000000 + number,
                "is_root": True, "type": "O", "calldate": calldate, "src": "1001", "dst": "447700900101",
                "disposition": "CONNECTED", "duration": 18, "billsec": 11,
            }
        )  # fmt: skip

    def respond(self, request, reply):
        conditions = json.loads(request.query.get("filter", ["[]"])[0])
        if not self.can_filter_dates and any(one["property"] == "calldate" for one in conditions):
            reply.json({"message": "Filtration error", "errors": []}, 400)
            return
        found = [
            record
            for record in self.records
            if all(COMPARISONS[one["operator"]](record[one["property"]], one["value"]) for one in conditions)
        ]
        if self.can_sort and "sort" in request.query:
            descending = request.query["dir"] == ["DESC"]
            found.sort(key=lambda record: record[request.query["sort"][0]], reverse=descending)
        page, limit = int(request.query["page"][0]), int(request.query["limit"][0])
        reply.json({"data": found[(page - 1) * limit : page * limit], "total": len(found)})
