"""Reads of records below others."""

from __future__ import annotations

from typing import Any

import pytest

from integration.core.errors import PlatformBroken
from integration.core.json_records import MAX_RECORD_BYTES
from integration.sync.plan import PLAN, SUBRESOURCES
from integration.sync.reading import items
from integration.sync.reading.full_sync import run_full_sync
from integration.sync.reading.page_store import Tally
from tests.support.application import TestApp
from tests.support.platform_collection import PlatformCollection

PATH = "/users/7/chatmsgs"


def test_messages_on_several_pages_of_the_platform_are_all_stored(app: TestApp) -> None:
    messages = [{"id": number, "message": f"text {number}"} for number in (1, 2, 3, 4, 5)]

    def respond(request: Any, reply: Any) -> None:
        limit = min(2, int(request.query.get("limit", ["2"])[0]))
        start = limit * (int(request.query.get("page", ["1"])[0]) - 1)
        reply.json({"data": messages[start : start + limit], "total": 5})

    app.put("users", {"id": 7})
    app.platform.routes[PATH] = respond
    context = app.context.sync_jobs.context
    assert items.read_due_subresources(context, SUBRESOURCES["/users/{id}/chatmsgs"], Tally()) == 1
    app.platform.fail()
    assert app.get(PATH).json == {"data": messages, "total": 5}


def test_a_record_or_message_above_the_limit_is_named_and_the_others_are_stored(app: TestApp) -> None:
    large = "x" * (MAX_RECORD_BYTES + 1)
    context = app.context.sync_jobs.context
    for number, about in ((7, large), (8, "short")):
        app.put("users", {"id": number})
        app.platform.respond(f"/users/{number}", {"data": {"id": number, "about": about}})
    tally = Tally()
    items.read_items(context, PLAN["users"], [7, 8], tally)
    assert [error.partition(" bytes")[0] for error in tally.unreadable] == ["/users/7: it has 4,194,337"]
    assert app.get("/users/8").json["data"]["about"] == "short"
    app.platform.respond(PATH, {"data": [{"id": 1, "message": "a"}, {"id": 2, "message": large}], "total": 2})
    app.platform.respond("/users/8/chatmsgs", {"data": [], "total": 0})
    with pytest.raises(PlatformBroken, match=r"/users/7/chatmsgs: record 2: .* all other records are stored"):
        items.read_due_subresources(context, SUBRESOURCES["/users/{id}/chatmsgs"], Tally())
    app.platform.fail()
    assert app.get(PATH).json["data"] == [{"id": 1, "message": "a"}]


def test_a_stored_record_that_grows_above_the_limit_is_kept_and_not_missing(app: TestApp) -> None:
    context, policy = app.context.sync_jobs.context, PLAN["contacts"]
    contacts = PlatformCollection(
        app.platform, "contacts", *({"id": number, "note": ""} for number in (1, 2))
    )
    run_full_sync(context, policy)
    contacts.change(2, note="x" * (MAX_RECORD_BYTES + 1))
    for _ in range(2):
        with pytest.raises(PlatformBroken, match=r"/contacts: record 2: it has 4,194,323 bytes"):
            run_full_sync(context, policy)
    # The list omits the record, and its own path returns it.
    contacts.own[2] = contacts.listed.pop(2)
    app.clock.advance(60)
    assert run_full_sync(context, policy).missing == 0
    assert contacts.count_reads(2) == 1
    assert [record["id"] for record in app.get("/contacts").json["data"]] == [1, 2]
