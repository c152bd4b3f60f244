"""System page: age of data, failures, archive, disk, jobs and backups."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flask import Blueprint, Response, current_app, make_response

from integration.catalogue import RESOURCES, get_resource
from integration.catalogue.collection_titles import get_title
from integration.context import app_context
from integration.core import clock
from integration.dashboard.site import formats, layout
from integration.dashboard.site.background_jobs import current_jobs
from integration.dashboard.system import components, work
from integration.inbox import losses
from integration.maintenance import backup, database_checks
from integration.maintenance.forwarded_requests import EXTENSION as FORWARDED_REQUESTS
from integration.maintenance.manifest import DATABASES
from integration.mirror.derived import due
from integration.mirror.derived.calls import LEGS
from integration.mirror.derived.registry import DERIVED
from integration.mirror.page_queries import live
from integration.mirror.records import missing_records, schema_drift
from integration.mirror.sync_state import collection_state, completeness, lookup_queue, media_files, scrub_log
from integration.privacy import erasures, holds
from integration.settings.base_url import find_api_url, find_base_url
from integration.settings.data_dir_secrets import load_webhook_secrets
from integration.settings.values import MIN_FREE_BYTES, MIN_FREE_TEXT
from integration.sync.files.download import list_enabled_kinds
from integration.sync.plan import PLAN, WEBHOOK_SILENCE_SECONDS
from integration.sync.progress import list_active_reads
from integration.sync.reading.call_assembly import JOB_NAME as CALL_ASSEMBLY_JOB

blueprint = Blueprint("system", __name__)

MISSING_CDR_DAYS = 30
"""Days back in which calls without a CDR are counted."""
REFRESH_SECONDS = 2
"""Seconds between reloads of the page while a job runs."""


@dataclass(frozen=True, slots=True)
class Disk:
    """Bytes of the file system of `data_dir`, and of each database."""

    total: int
    free: int
    databases: dict[str, int]

    @property
    def is_low(self) -> bool:
        return self.free < 2 * MIN_FREE_BYTES


def read_disk_usage(data_dir: Path) -> Disk:
    usage = shutil.disk_usage(data_dir)
    sizes = {}
    for name in reversed(DATABASES):
        files = (data_dir / name, data_dir / f"{name}-wal")
        sizes[name] = sum(file.stat().st_size for file in files if file.exists())
    return Disk(usage.total, usage.free, sizes)


def _count_archive_files(connection: sqlite3.Connection) -> dict[str, int]:
    """Count archive files by state (`have`, `wanted`, `failed`, `gone`), and their `bytes`.

    `wanted` and `failed`: of the kinds that are downloaded automatically.
    """
    awaited = list_enabled_kinds(app_context().settings)
    count_by_state = dict.fromkeys(("have", "wanted", "failed", "gone"), 0)
    for (_, state), count in media_files.count_by_state(connection, awaited).items():
        count_by_state[state] = count_by_state.get(state, 0) + count
    return {**count_by_state, "bytes": media_files.count_stored_bytes(connection)}


def _list_addresses() -> list[tuple[str, str]]:
    """Return (label, URL) of the addresses that administrators enter elsewhere."""
    settings = app_context().settings
    base_url = find_base_url(settings).rstrip("/")
    return [
        ("Webhook URL", f"{base_url}/webhooks/{load_webhook_secrets(settings)[0]}"),
        ("API base URL", find_api_url(settings)),
    ]


@dataclass(frozen=True, slots=True)
class FirstSync:
    """Progress of the import of calls, in call records. `seconds_left` is None until both rates are known."""

    done: int
    total: int
    seconds_left: float | None


def _measure_first_sync(
    freshness: collection_state.State, row_count: int, legs_left: int, facts: dict[str, Any]
) -> FirstSync | None:
    """Return the progress of reading CDRs and computing their calls; None if both have ended.

    `row_count`: CDRs in the mirror. `legs_left`: size of the backlog. `facts`: those of a health report.
    """
    if not freshness.awaits_first_sync and not legs_left:
        return None
    total = max(freshness.total or 0, row_count)
    reading, computing = list_active_reads(facts).get("cdrs"), facts.get(CALL_ASSEMBLY_JOB)
    unread = total - row_count if freshness.awaits_first_sync else 0
    seconds_left = None
    if computing and computing["per_second"] and (not unread or (reading and reading["per_second"])):
        seconds_left = (legs_left + unread) / computing["per_second"]
        if reading and unread:
            seconds_left += unread / reading["per_second"]
    return FirstSync(max(0, total - unread - legs_left), total, seconds_left)


@blueprint.get("/system")
def index() -> Response:
    context = app_context()
    inbox_overview = context.inbox.load_overview()
    with context.inbox.database.read() as inbox_connection:
        recent_losses = losses.list_recent(inbox_connection)
    silent_since = clock.utc_text(clock.unix() - WEBHOOK_SILENCE_SECONDS)
    with context.mirror_db.read() as connection:
        collection_states = collection_state.list_states(connection)
        row_counts = {
            state.collection: collection_state.count_rows(connection, get_resource(state.collection))
            for state in collection_states
        }
        calls_without_webhook = live.count_calls_without_webhook(connection, silent_since)
        freshness = collection_state.get_state(connection, "cdrs")
        unreachable_at = layout.unreachable_since(connection)
        archive_counts = _count_archive_files(connection)
        completeness_rows = [
            completeness_row
            for completeness_row in completeness.list_collections(connection)
            if completeness_row.day_count or completeness_row.differences
        ]
        drift_rows = schema_drift.list_drift(connection)
        scrub_result = scrub_log.get_archive_state(connection)
        calls_without_cdr = lookup_queue.list_unresolved_calls(
            connection, clock.unix() - MISSING_CDR_DAYS * 86400
        )
        due_states = due.list_states(connection, DERIVED)
        rejected_records = schema_drift.list_rejected(connection)
        accepted_deletions = missing_records.list_accepted(connection)
    with context.app_db.read() as connection:
        holds_and_erasures = holds.list_all(connection), erasures.list_all(connection)
    report = context.health.report(with_read_facts=False)
    request_budget = context.platform.budget.state()
    held_deletions = [state for state in collection_states if state.held is not None]
    failing_collections = [
        state
        for state in collection_states
        if state.last_error and state.off_since is None and not (unreachable_at and state.is_failing)
    ]
    stale_after = max(layout.STALE_SECONDS, 2 * context.settings.sync.recent_interval)
    is_late = not unreachable_at and (formats.seconds_since(freshness.last_success_at) or 0) > stale_after
    is_silent = inbox_overview.last_received_at is None or inbox_overview.last_received_at < silent_since
    silent_calls = calls_without_webhook if is_silent else 0
    gaps = sum(completeness_row.gap_count for completeness_row in completeness_rows)
    failing_components = components.list_problems(
        report["checks"],
        [state.collection for state in failing_collections],
        has_platform_problem=bool(unreachable_at or request_budget.pause_end),
    )
    disk = read_disk_usage(Path(context.settings.storage.data_dir))
    damaged_databases = database_checks.list_damaged_names(context.settings.storage.data_dir)
    proxy_problem = current_app.extensions[FORWARDED_REQUESTS].problem
    backups = work.list_backups(context)
    problem_lists = (
        failing_components, failing_collections, held_deletions, recent_losses, damaged_databases
    )  # fmt: skip
    problem_signs = (
        silent_calls, gaps, proxy_problem, disk.is_low, unreachable_at, request_budget.pause_end, is_late,
        archive_counts["failed"], scrub_result.damaged_files, backups[1],
        inbox_overview.by_status.get("failed"),
    )  # fmt: skip
    first_sync = _measure_first_sync(
        freshness,
        row_counts.get("cdrs", 0),
        next((state.count for state in due_states if state.derived is LEGS), 0),
        report["facts"],
    )
    page = layout.render_page(
        "system",
        "system.html",
        problems=sum(len(found) for found in problem_lists) + sum(bool(sign) for sign in problem_signs),
        gaps=gaps,
        rechecks=sum(len(completeness_row.differences) for completeness_row in completeness_rows) - gaps,
        inbox_overview=inbox_overview,
        recent_losses=recent_losses,
        silent_calls=silent_calls,
        freshness=freshness,
        is_late=is_late,
        collection_states=collection_states,
        collection_count=len(PLAN) - sum(state.off_since is not None for state in collection_states),
        synced_count=sum(state.can_serve_reads for state in collection_states if state.off_since is None),
        failing_collections=failing_collections,
        held=[(state, get_resource(state.collection).key is not None) for state in held_deletions],
        accepted_deletions=accepted_deletions,
        components=components.list_components(report["checks"]),
        failing_components=failing_components,
        MAX_COMPONENTS=components.MAX_LISTED,
        addresses=_list_addresses(),
        row_counts=row_counts,
        archive_counts=archive_counts,
        completeness_rows=completeness_rows,
        drift_rows=drift_rows,
        rejected_records=rejected_records,
        table_titles={resource.table: get_title(resource) for resource in RESOURCES},
        scrub_result=scrub_result,
        calls_without_cdr=calls_without_cdr,
        CALLS_WITHOUT_CDR_DAYS=MISSING_CDR_DAYS,
        reading=list_active_reads(report["facts"]),
        first_sync=first_sync,
        due_states=due_states,
        request_budget=request_budget,
        disk=disk,
        min_free=MIN_FREE_TEXT,
        report=report,
        damaged_databases=damaged_databases,
        public_url=context.settings.server.public_url,
        proxy_problem=proxy_problem,
        backups=backups,
        holds=holds_and_erasures[0],
        erasures=holds_and_erasures[1],
        schedule=context.settings.backup,
        destination=backup.get_destination(context.settings),
        jobs=current_jobs().last_by_name,
    )
    response = make_response(page)
    is_job_running = any(job.state == "running" for job in current_jobs().last_by_name.values())
    if is_job_running or first_sync or list_active_reads(report["facts"]):
        # Shows progress of jobs and long reads without JavaScript.
        response.headers["Refresh"] = str(REFRESH_SECONDS)
    return response
