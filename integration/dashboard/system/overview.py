"""System: how old everything is, what failed, and what to do about it."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from flask import Blueprint, Response, make_response

from integration.catalogue import resource
from integration.context import this_house
from integration.core import clock
from integration.dashboard.site import formats
from integration.dashboard.site import layout as shell
from integration.dashboard.site.background_jobs import these_jobs
from integration.dashboard.system import work as system_work
from integration.maintenance import backup
from integration.mirror.calls import backlog
from integration.mirror.page_queries import live
from integration.mirror.records import promoted_fields as promoted
from integration.mirror.records import schema_drift as drift
from integration.mirror.sync_state import (
    collection_state as walks,
)
from integration.mirror.sync_state import (
    completeness as coverage,
)
from integration.mirror.sync_state import (
    lookup_queue as lookups,
)
from integration.mirror.sync_state import (
    media_files as media,
)
from integration.mirror.sync_state import (
    scrub_log as checks,
)
from integration.privacy import erasures, holds
from integration.sync.plan import PLAN
from integration.sync.progress import under_way
from integration.sync.reading.call_assembly import NAME as PUT_TOGETHER

blueprint = Blueprint("system", __name__)

UNLEARNT_DAYS = 30
"""How far back calls without a record are counted."""
SILENT_SECONDS = 3600
"""If records show calls in this time and no webhook came, webhooks are not set up, or broken."""
DATABASES = ("inbox.db", "mirror.db", "house.db")
FOLLOW_SECONDS = 2
"""Between two looks at a job that is running."""
LOW_BYTES = 2_000_000_000
"""Kept free by the archive (interface.md §2, recordings.max_gb)."""


@dataclass(frozen=True, slots=True)
class Disk:
    """Bytes of the file system that holds `data_dir`, and of our databases by name."""

    total: int
    free: int
    databases: dict[str, int]

    @property
    def low(self) -> bool:
        return self.free < 2 * LOW_BYTES


def disk(data_dir: Path) -> Disk:
    usage = shutil.disk_usage(data_dir)
    sizes = {}
    for name in DATABASES:
        files = (data_dir / name, data_dir / f"{name}-wal")
        sizes[name] = sum(file.stat().st_size for file in files if file.exists())
    return Disk(usage.total, usage.free, sizes)


def _archive(connection: sqlite3.Connection) -> dict[str, int]:
    """Files by state (have, wanted, failed, gone), and `bytes`."""
    found = dict.fromkeys(("have", "wanted", "failed", "gone"), 0)
    for (_, state), count in media.counts(connection).items():
        found[state] = found.get(state, 0) + count
    return {**found, "bytes": media.stored_bytes(connection)}


@blueprint.get("/system")
def index() -> Response:
    house = this_house()
    received = house.inbox.overview()
    hour_ago = clock.stamp(clock.unix() - SILENT_SECONDS)
    with house.mirror.read() as connection:
        collections = walks.all_states(connection)
        untold = live.untold_calls(connection, hour_ago)
        fresh = live.freshness(connection)
        archive = _archive(connection)
        ledger = [line for line in coverage.ledger(connection) if line.days or line.gaps]
        departures = drift.listed(connection)
        checked = checks.archive(connection)
        unlearnt = lookups.unlearnt_calls(connection, clock.unix() - UNLEARNT_DAYS * 86400)
        waiting = backlog.waiting(connection)
        aside = drift.aside(connection)
        columns = {
            name: promoted.ready(connection, resource(name))
            for name in {one.collection for one in departures}
            if name in PLAN
        }
    with house.house.read() as connection:
        kept_from = holds.all_of(connection), erasures.all_of(connection)
    report = house.health.report()
    late = max(shell.LATE_SECONDS, 2 * house.settings.sync.recent_interval)
    quiet = received.last_received_at is None or received.last_received_at < hour_ago
    page = shell.page(
        "system",
        "system.html",
        received=received,
        silent=untold if quiet else 0,
        fresh=fresh,
        late=(formats.since(fresh.last_success_at) or 0) > late,
        collections=collections,
        archive=archive,
        ledger=ledger,
        departures=departures,
        aside=aside,
        promoted=columns,
        checked=checked,
        unlearnt=unlearnt,
        UNLEARNT_DAYS=UNLEARNT_DAYS,
        reading=under_way(report["facts"]),
        waiting=waiting,
        putting=report["facts"].get(PUT_TOGETHER),
        requests=report["facts"].get("platform_requests"),
        disk=disk(Path(house.settings.storage.data_dir)),
        report=report,
        public_url=house.settings.server.public_url,
        backups=system_work.backups(house),
        holds=kept_from[0],
        erasures=kept_from[1],
        schedule=house.settings.backup,
        destination=backup.destination(house.settings),
        jobs=these_jobs().last,
    )
    response = make_response(page)
    working = any(job.state == "running" for job in these_jobs().last.values())
    if working or waiting is not None or under_way(report["facts"]):
        # Without a script, too: the page follows what a button began, and a long reading.
        response.headers["Refresh"] = str(FOLLOW_SECONDS)
    return response
