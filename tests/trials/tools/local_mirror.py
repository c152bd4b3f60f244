"""Mirror and sync jobs in the process of a trial."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from integration.core import clock
from integration.core.errors import PlatformError
from integration.core.health import Health
from integration.core.scheduler import Scheduler
from integration.mirror import hooks
from integration.mirror.calls.store import CallStore
from integration.mirror.derived import rebuild
from integration.mirror.derived.declaration import make_rules
from integration.mirror.schema import open_mirror
from integration.mirror.sync_state import collection_state
from integration.platform_api.client import Platform
from integration.settings.model import load
from integration.simulator import embed
from integration.sync import jobs
from integration.sync.context import StandaloneSyncContext
from integration.sync.jobs import SyncJobs
from integration.sync.plan import PLAN
from integration.sync.reading.full_sync import run_full_sync
from tests.support.harness import make_environment
from tests.trials.tools.moved_clock import ObservedScheduler, observe_scheduler

FRIDAY, WEEK = 86_400.0 + 20 * 3600, 7 * 86_400.0
"""Unix seconds of the first Friday evening; seconds to the next."""
NOT_COMPARED = {"calls", "me"}


class LocalMirror:
    """A mirror, its sync context and its simulated platform."""

    def __init__(self, folder: Path, simulator: embed.Simulator, **settings: str) -> None:
        self.simulator = simulator
        self.data_dir = folder
        own = {
            "platform__timeout": "20",
            "sync__recent_interval": "1",
            "sync__live_interval": "60",
            "recordings__download": "false",
            "voicemail__download": "false",
        }
        account = simulator.url, str(simulator.admin.id), simulator.admin.api_key
        environment = make_environment(folder, *account, **own | settings)
        if "platform__email" in settings:
            del environment["SWITCHROOM_PLATFORM__USER_ID"], environment["SWITCHROOM_PLATFORM__API_KEY"]
        self.settings = load(None, environment)
        self.mirror_db = open_mirror(folder / "mirror.db")
        rules = make_rules(self.settings)
        rebuild.install(self.mirror_db, rules)
        self.calls = CallStore(rules)
        hooks.register_hooks(self.mirror_db)
        self.health = Health()
        self.platform = Platform(self.settings.platform, requests_per_minute=60_000)
        self.context = StandaloneSyncContext(
            self.settings, self.mirror_db, self.platform, self.health, self.calls
        )

    def close(self) -> None:
        self.platform.close()
        self.mirror_db.close()

    @contextmanager
    def run_jobs(self) -> Iterator[tuple[Scheduler, ObservedScheduler]]:
        """Run the sync jobs by a scheduler. Yields it, and the observed one within it."""
        with observe_scheduler() as schedulers:
            scheduler = Scheduler(self.health, ignored_errors=jobs.IGNORED_ERRORS)
        sync_jobs = SyncJobs(self.settings, self.mirror_db, self.platform, self.calls, self.health, scheduler)
        sync_jobs.schedule()
        scheduler.start()
        try:
            yield scheduler, schedulers[0]
        finally:
            scheduler.stopping.set()
            self.platform.close()
            scheduler.stop(3.0)

    # --- the mirror ------------------------------------------------------------------------------------

    def query(self, sql: str, *values: object) -> list[Any]:
        with self.mirror_db.read() as connection:
            return connection.execute(sql, values).fetchall()

    def get_state(self, collection: str) -> Any:
        with self.mirror_db.read() as connection:
            return collection_state.get_state(connection, collection)

    def is_complete(self) -> bool:
        names = [name for name, policy in PLAN.items() if policy.kind != "live"]
        return all(self.get_state(name).complete_at for name in names)

    def read_keys(self, collection: str, condition: str = "_missing_since IS NULL") -> set[str]:
        """Keys of the records stored here, as text."""
        resource = PLAN[collection].resource
        return {
            str(row[0])
            for row in self.query(f'SELECT "{resource.key}" FROM "{resource.table}" WHERE {condition}')
        }

    def count_duplicates(self, table: str) -> int:
        return int(self.query(f"SELECT count(*) - count(DISTINCT id) FROM {table}")[0][0])

    def list_differing(self) -> list[str]:
        """Collections whose keys differ from the platform's."""
        keyed = [name for name, policy in PLAN.items() if policy.resource.key and name not in NOT_COMPARED]
        return [name for name in keyed if self.read_keys(name) != self.list_keys(name)]

    def sync_patiently(self, collection: str, tries: int) -> int:
        """Repeat a full sync until it succeeds. Returns the number of tries."""
        for number in range(1, tries + 1):
            with suppress(PlatformError):
                run_full_sync(self.context, PLAN[collection])
                return number
        return tries

    # --- the platform ----------------------------------------------------------------------------------

    def list_keys(self, collection: str) -> set[str]:
        """Keys of the records at the platform, as text."""
        with self.simulator.world.lock:
            records = list(self.simulator.world.collections[collection].records.values())
        return {str(record[PLAN[collection].resource.key]) for record in records}

    def set_fault(self, spec: str) -> None:
        """Replace the faults of the platform; none with an empty `spec`."""
        self.simulator.context.faults.clear()
        self.simulator.context.faults.add(spec)

    def count_requests(self) -> Counter[str]:
        """Requests by path."""
        return Counter(entry["path"] for entry in list(self.simulator.context.request_log))

    def add_cdrs(self, count: int) -> None:
        """Add CDRs at the platform, dated now."""
        world = self.simulator.world
        cdrs = world.collections["cdrs"]
        with world.lock:
            pattern = dict(list(cdrs.records.values())[-1])
            for _ in range(count):
                number, leg = world.new_id("cdrs"), world.new_id("calls")
                ids = {"id": number, "live_id": leg, "root_live_id": leg}
                cdrs.add({**pattern, **ids, "calldate": clock.utc_text()})


def last_friday_evening() -> float:
    """Unix time at which the histories of trials end.

    The days before a Monday morning have few calls, those before a Friday evening hundreds. The result of a
    trial must not depend on the day on which it runs.
    """
    now = clock.unix()
    return now - (now - FRIDAY) % WEEK
