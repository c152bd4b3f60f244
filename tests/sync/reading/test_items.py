"""Reads of records below others."""

from __future__ import annotations

from typing import Any

from integration.sync.plan import SUBRESOURCES
from integration.sync.reading import items
from integration.sync.reading.page_store import Tally
from tests.support.application import TestApp

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
