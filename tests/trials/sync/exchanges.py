"""Trial of the product against recorded and hand-written exchanges."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any
from unittest import mock

import requests

from integration.sync.reading import full_sync
from tests.support.fake_exchange import read_fixture
from tests.support.scripted_server import Request
from tests.trials.tools import seeded_bug
from tests.trials.tools.local_product import LocalProduct
from tests.trials.tools.recorded_platform import RecordedPlatform, read_records
from tests.trials.trial import Trial

STEP = 20.0
FIRST = 800_000_000
"""Id of the first CDR that is copied from the recorded one."""
CDRS = 90
PAGE = 20

BUGS = {
    "deletions": "ignore_deletion_limit",
    "late": "skip_refresh",
    "ghost": "skip_leg_requests",
    "paging": "skip_confirmation",
}
"""Bug of each situation."""


class Exchanges(Trial):
    """Late, lost and deleted records of a platform other than the simulator.

    Disturbed: a server of recorded and hand-written records, without code of the simulator, lists a record
    late, leaves out the end of a call, deletes records, returns empty and refused lists, and changes records
    while pages are read.
    Checked: values in the mirror that are written by hand.
    Detects: any number of deletions accepted; recent records that are not read again; legs that are missing
    from the list and are not requested; deleted records that are never marked. Each is planted in the
    situation that shows it.
    """

    name = "exchanges"
    bugs = tuple(BUGS.values())
    symptoms = (
        "60 deletions at once",
        "the late CDR is attached",
        "the call is closed within 300 s",
        "both sides are equal",
    )
    expects_errors = True
    promises = ("P9", "P13", "P14", "P27")
    long = ("",) * 3

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--only", help="one situation")

    def disturb(self) -> None:
        self.patch(full_sync, "page_limit", lambda _failures: PAGE)
        situations: dict[str, Callable[[], None]] = {
            "deletions": self._delete,
            "late": self._list_late,
            "ghost": self._lose_hangup,
            "paging": self._change_while_reading,
        }
        for name, situation in situations.items():
            if self.options.only in (None, name):
                with ExitStack() as planted:
                    if self.is_seeded:
                        seeded_bug.PLANTS[BUGS[name]](
                            lambda *what: planted.enter_context(mock.patch.object(*what))
                        )
                    planted.enter_context(self._open())
                    situation()

    def plant(self) -> None:
        """Plant nothing for all situations: each has a bug of its own."""

    @contextmanager
    def _open(self) -> Iterator[None]:
        """Open a product and a platform of recorded records."""
        with closing(RecordedPlatform()) as self.platform, self.run_product(self.platform) as self.product:
            yield

    platform: RecordedPlatform
    product: LocalProduct

    # --- situations ------------------------------------------------------------------------------------

    def _delete(self) -> None:
        """Delete three CDRs, then 60 at once, between lists that are wrong."""
        cdrs = self._add_cdrs()
        self._sync_cdrs()
        for wrong in (
            lambda reply: reply.json({"data": [], "total": 0, "links": {}}),
            lambda reply: reply.json({"message": "Forbidden", "errors": []}, 403),
            lambda reply: reply.content(b"<html>", "text/html"),
        ):
            self.platform.routes["/cdrs"] = lambda _request, reply, wrong=wrong: wrong(reply)
            for _ in range(3):
                self._sync_cdrs()
            self._check_missing([], "a wrong list")
            self.platform.collections["cdrs"].connect()
        deleted = cdrs[10:13]
        for key in deleted:
            del self.platform.collections["cdrs"].listed[key]
        self._sync_cdrs()
        self._sync_cdrs()
        self._check_missing(deleted, "three deletions")
        for key in cdrs[20:80]:
            del self.platform.collections["cdrs"].listed[key]
        for _ in range(3):
            self._sync_cdrs()
        self._check_missing(deleted, "60 deletions at once")

    def _list_late(self) -> None:
        """Let a recorded call end, and list its CDR 92 minutes later."""
        cdr = self._copy_cdr(FIRST)
        leg = cdr["live_id"]
        self._post("webhook-call.hangup", leg)
        self._check_call(leg, "the call has ended without a CDR", "state", "ended")
        # The late CDR is below the newest id, which an incremental sync has read.
        self.platform.collections["cdrs"].add(self._copy_cdr(FIRST + 1))
        for _ in range(55):
            self.product.advance(5 * STEP)
        self.platform.collections["cdrs"].add(cdr)
        for _ in range(45):
            self.product.advance(STEP)
        self._check_call(leg, "the late CDR is attached", "cdrs", 1)
        lookups = sum(str(leg) in str(one.query) for one in self.platform.requests if one.path == "/cdrs")
        self.verify(lookups <= 12, f"there are at most 12 lookups of the call, not {lookups}")

    def _lose_hangup(self) -> None:
        """Leave out the end of a call; the platform lists no live call."""
        cdr = self._copy_cdr(FIRST)
        leg = cdr["live_id"]
        self.platform.respond(f"/calls/{leg}", {"message": "Not found", "errors": []}, 404)
        self._post("webhook-call.connected", leg)
        for _ in range(15):
            self.product.advance(STEP)
        self._check_call(leg, "the call is closed within 300 s", "state", "ended")
        self._check_call(leg, "the closed call is unconfirmed", "unconfirmed", 1)
        self.platform.collections["cdrs"].add(cdr)
        for _ in range(45):
            self.product.advance(STEP)
        self._check_call(leg, "the record confirms the call", "unconfirmed", 0)

    def _change_while_reading(self) -> None:
        """Delete and add CDRs after each page."""
        before = set(self._add_cdrs())
        collection, number = self.platform.collections["cdrs"], FIRST + CDRS
        respond, added, deleted = self.platform.routes["/cdrs"], 0, 0

        def change(request: Request, reply: Any) -> None:
            nonlocal added, deleted
            respond(request, reply)
            if "filter" not in request.query and "page" not in request.query:
                return
            if deleted < 20:
                del collection.listed[FIRST + 3 * deleted]
                collection.add(self._copy_cdr(number + added))
                added, deleted = added + 1, deleted + 1

        self.platform.routes["/cdrs"] = change
        self._sync_cdrs()
        remaining = before & set(collection.listed)
        missed = remaining - self._read_keys("_missing_since IS NULL")
        self.platform.routes["/cdrs"] = respond
        self._sync_cdrs()
        self._sync_cdrs()
        kept = self._read_keys("_missing_since IS NULL")
        self.verify(added > 3, f"records change while pages are read: {added}")
        self.verify(not missed, f"no remaining record is missing after the sync, not {sorted(missed)}")
        self.verify(kept == set(collection.listed), "both sides are equal after two more syncs")
        twice = self.product.query_value("SELECT count(*) - count(DISTINCT id) FROM cdrs")
        self.verify(twice == 0, f"no record is stored twice, not {twice}")

    # --- the platform ----------------------------------------------------------------------------------

    def _copy_cdr(self, key: int) -> dict[str, Any]:
        (record,) = read_records("cdrs")
        return {**record, "id": key, "live_id": key + 10**9, "root_live_id": key + 10**9}

    def _add_cdrs(self) -> list[int]:
        keys = list(range(FIRST, FIRST + CDRS))
        for key in keys:
            self.platform.collections["cdrs"].add(self._copy_cdr(key))
        return keys

    def _post(self, fixture: str, leg: int) -> None:
        """Send a recorded webhook as one of `leg`."""
        event = {**read_fixture(fixture), "id": f"{fixture}.{leg}", "call_id": leg}
        answer = requests.post(self.product.webhook_url, json=event, timeout=60)
        self.verify(answer.status_code == 200, f"{fixture} gets 200, not {answer.status_code}")
        self.product.advance(STEP)

    # --- the mirror ------------------------------------------------------------------------------------

    def _sync_cdrs(self) -> None:
        """Run a full sync of CDRs."""
        self.product.sync_all("cdrs")
        self.product.settle()

    def _read_keys(self, condition: str) -> set[int]:
        return {row[0] for row in self.product.query(f"SELECT id FROM cdrs WHERE {condition}")}

    def _check_missing(self, expected: list[int], where: str) -> None:
        found = self._read_keys("_missing_since IS NOT NULL")
        self.verify(
            found == set(expected), f"{where}: {len(expected)} CDRs are marked as missing, not {len(found)}"
        )

    def _check_call(self, leg: int, what: str, column: str, expected: object) -> None:
        sql = f"SELECT {column} FROM _calls WHERE id = (SELECT call_id FROM _legs WHERE leg_id = ?)"
        found = self.product.query(sql, leg)
        self.verify(found == [(expected,)], f"{what}: {column} is {expected!r}, not {found}")
