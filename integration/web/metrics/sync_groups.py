"""Metrics of the mirror and of requests to the platform."""

from __future__ import annotations

from collections import Counter

from integration.context import AppContext
from integration.core import clock
from integration.mirror.calls import backlog
from integration.mirror.page_queries import live
from integration.mirror.sync_state import collection_state, completeness
from integration.web.metrics.registry import Family, Metrics, Values

LAST_SYNC = Family(
    "switchroom_collection_last_sync_timestamp_seconds",
    "Unix time of the last successful sync of a collection, or of the last poll of live calls.",
    ("collection",),
)
COMPLETE = Family(
    "switchroom_collection_complete",
    "1 if a collection was ever read completely and the platform does not refuse it.",
    ("collection",),
)
GAPS = Family(
    "switchroom_collection_gaps",
    "UTC days on which platform and mirror have different numbers of records.",
    ("collection",),
)
FAILURES = Family(
    "switchroom_collection_sync_failures",
    "Failed syncs of a collection since its last successful one.",
    ("collection",),
)
OPEN_CALLS = Family(
    "switchroom_calls_open",
    "Calls that have not ended, by state. unconfirmed: neither webhook nor poll reports them now.",
    ("state",),
)
LEGS_WAITING = Family(
    "switchroom_legs_waiting", "Legs stored by an initial sync whose calls are not computed yet."
)
PLATFORM_REQUESTS = Family(
    "switchroom_platform_requests_total",
    "Requests sent to the platform by status code; none: no response.",
    ("code",),
    is_counter=True,
)
PLATFORM_ACTIVE = Family("switchroom_platform_active_requests", "Requests to the platform that run now.")
PLATFORM_REACHABLE = Family(
    "switchroom_platform_reachable", "0 while no request to the platform succeeds, else 1."
)
BUDGET_RATE = Family(
    "switchroom_platform_budget_requests_per_second",
    "Rate that the scheduler may use now. It shrinks after failures and grows with successes.",
)
BUDGET_LIMIT = Family(
    "switchroom_platform_budget_limit_requests_per_second",
    "Configured rate (sync.max_requests_per_minute).",
)
PLATFORM_PAUSE = Family(
    "switchroom_platform_pause_seconds", "Seconds left of the pause that the platform requested."
)


def add_groups(metrics: Metrics, context: AppContext) -> None:
    """Add the groups `collections`, `calls` and `platform`."""

    def read_collections() -> Values:
        with context.mirror_db.read() as connection:
            states = collection_state.list_states(connection)
            differences = completeness.list_differences(connection)
        gap_counts = Counter(one.collection for one in differences if one.is_gap)
        synced_times = {state.collection: clock.parse_utc(state.last_success_at) for state in states}
        return {
            LAST_SYNC: {(name,): time.timestamp() for name, time in synced_times.items() if time},
            COMPLETE: {
                (state.collection,): float(state.can_serve_reads and state.off_since is None)
                for state in states
            },
            GAPS: {(state.collection,): gap_counts[state.collection] for state in states},
            FAILURES: {(state.collection,): state.failures for state in states},
        }

    def read_calls() -> Values:
        with context.mirror_db.read() as connection:
            counts = live.count_live_calls(connection)
            legs_waiting = backlog.count(connection)
        return {
            OPEN_CALLS: {
                ("ringing",): counts.ringing,
                ("talking",): counts.talking,
                ("on_hold",): counts.on_hold,
                ("unconfirmed",): counts.unconfirmed,
            },
            LEGS_WAITING: legs_waiting,
        }

    def read_platform() -> Values:
        budget = context.platform.budget
        state = budget.state()
        return {
            PLATFORM_REQUESTS: {(code,): count for code, count in context.platform.count_responses().items()},
            PLATFORM_ACTIVE: budget.active_requests,
            PLATFORM_REACHABLE: float(state.open_since is None),
            BUDGET_RATE: state.per_minute / 60,
            BUDGET_LIMIT: state.full / 60,
            PLATFORM_PAUSE: state.rest,
        }

    metrics.add_group("collections", (LAST_SYNC, COMPLETE, GAPS, FAILURES), read_collections)
    metrics.add_group("calls", (OPEN_CALLS, LEGS_WAITING), read_calls)
    metrics.add_group(
        "platform",
        (
            PLATFORM_REQUESTS, PLATFORM_ACTIVE, PLATFORM_REACHABLE, BUDGET_RATE, BUDGET_LIMIT, PLATFORM_PAUSE,
        ),
        read_platform,
    )  # fmt: skip
