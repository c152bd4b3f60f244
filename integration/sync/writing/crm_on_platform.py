"""Attach the CRM address of the caller to inbound live calls on the platform, whose own apps then show it."""

from __future__ import annotations

import logging
import sqlite3
from functools import partial

import orjson

from integration.context import AppContext
from integration.core.errors import DomainError, PlatformError, PlatformRefused
from integration.mirror.page_queries import live
from integration.mirror.page_queries.crm_address import build_address_of_call
from integration.platform_api.budget import BACKGROUND
from integration.sync.writing import write_log, write_through
from integration.sync.writing.write_through import WriteRequest

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 3.0
"""Seconds between two runs. The platform lists a call up to 3 s after its first webhook."""
WHO = "dashboard.crm_on_platform"
"""Name in the write log."""


class CrmOnPlatform:
    """Attaches the address to each call once. A failed request is logged, and not repeated."""

    def __init__(self, context: AppContext) -> None:
        self._context = context
        self._done: set[int] = set()

    def run(self) -> None:
        with self._context.mirror_db.read() as connection:
            calls = [
                call
                for call in live.list_live_calls(connection)
                if call["direction"] == "in" and not call["unconfirmed"]
            ]
        self._done &= {call["id"] for call in calls}
        for call in calls:
            if call["id"] not in self._done and (url := build_address_of_call(self._context, call)):
                self._attach(call, url)

    def _attach(self, call: sqlite3.Row, url: str) -> None:
        context, path = self._context, f"/calls/{call['id']}"
        try:
            has_address = bool(context.platform.item(path, tries=1).values.get("action_url"))
        except PlatformError as error:
            is_unlisted = isinstance(error, PlatformRefused) and error.status == 404
            if is_unlisted and call["state"] == "ringing":
                return  # The webhook can be ahead of the platform's list.
            log.warning("no CRM address for call %d: %s", call["id"], error)
            has_address = True
        self._done.add(call["id"])
        if has_address:
            return
        body = {"action_url": url, "action_text": context.settings.dashboard.crm_label}
        request = WriteRequest(
            WHO,
            "",
            "PATCH",
            path,
            body=orjson.dumps(body),
            priority=BACKGROUND,
            check=partial(_check_unset, path=path),
        )
        try:
            result = write_through.send(context, request)
        except DomainError as reason:
            log.info("no CRM address for call %d: %s", call["id"], reason)
            return
        if not result.is_done:
            log.warning("no CRM address for call %d: %s", call["id"], result.message)


def _check_unset(connection: sqlite3.Connection, path: str) -> None:
    """Raise DomainError if this job, before a restart, or a client of the REST API has sent an address.

    Records of live calls need not return it.
    """
    if write_log.has_action_url(connection, path):
        raise DomainError("an address was sent before")
