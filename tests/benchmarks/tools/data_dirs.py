"""Data directories with ten years of calls, kept in `build/benchmarks` for the next run."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from integration.app_schema import open_app_db
from integration.mirror.derived import rebuild
from integration.mirror.derived.declaration import make_rules
from integration.mirror.schema import open_mirror
from integration.settings.model import load
from integration.workspace.callback_following import update_from_mirror
from integration.workspace.opening_hours import load_rules
from tests.support import harness
from tests.support.harness import NOWHERE, ROOT, Process, Product, wait_for
from tests.trials.tools.databases import query_number

FOLDER = ROOT / "build" / "benchmarks"
COLLECTIONS = ("users", "ddis", "queues", "ringgroups", "contacts", "cdrs", "monitors")
ZONE = "Europe/London"
MAX_AGE_DAYS = 14.0
"""Age at which a directory is made again, because reports of this month count from now."""
DERIVE_SECONDS = 600
"""Longest time in which all calls of a directory are computed again."""
PARTS = "data.json"
"""File that marks a complete directory: commit, and elapsed and CPU seconds of the parts of its creation."""


@contextmanager
def run_platform(cdrs: int, mix: str = "office") -> Iterator[str]:
    """Run the platform of the benchmarks. Yields its URL."""
    module = "tests.benchmarks.tools.platform"
    process = Process([sys.executable, "-m", module, "--cdrs", str(cdrs), "--mix", mix])
    try:
        yield f"http://127.0.0.1:{process.line('port ', 120)}/v1.2"
    finally:
        process.stop()


def make_environment(data_dir: Path, url: str = NOWHERE) -> dict[str, str]:
    """Return the environment of a command of the product."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("SWITCHROOM_")}
    settings = {"dashboard__timezone": ZONE, "recordings__download": "false"}
    return kept | harness.make_environment(data_dir, url, sync__max_requests_per_minute="1000000", **settings)


def run_product(data_dir: Path) -> Product:
    """Start `switchroom serve` without a platform, and wait until nothing is due to be computed.

    The calls of a directory that another commit made may be computed again, beside what is measured.
    """
    product = Product(data_dir, recordings__download="false", dashboard__timezone=ZONE)
    # `at` has fractions of a second.
    due = "SELECT count(*) FROM _due WHERE at <= unixepoch() + 1"
    wait_for(lambda: not query_number(data_dir / "mirror.db", due), "the derived tables", DERIVE_SECONDS)
    return product


def add_key(product: Product) -> str:
    """Add a key that reads and exports. Returns its secret."""
    # Names are unique, and the directory is kept for the next run.
    arguments = (
        "key",
        "add",
        f"benchmark {time.time_ns()}",
        "--scope",
        "read",
        "--grant",
        "export",
        "--quiet",
    )
    added = product.command(*arguments)
    assert added.returncode == 0, added.stderr
    return added.stdout.split()[-1].partition(":")[2]


def get_data_dir(cdrs: int, *, without_webhooks: bool = False, of_this_commit: bool = False) -> Path:
    """Return a data directory after the initial sync of `cdrs` CDRs, complete like that of a running product.

    It is made by the product itself: `switchroom sync` reads the platform of the benchmarks. Without
    `without_webhooks` it may have the calls of webhooks that earlier benchmarks sent; without
    `of_this_commit` an earlier commit of the product may have made it.
    """
    data_dir, commit = FOLDER / f"data-{cdrs}", get_commit()
    mark = data_dir / PARTS
    is_present = mark.exists() and time.time() - mark.stat().st_mtime < MAX_AGE_DAYS * 86_400
    if is_present and of_this_commit:
        is_present = json.loads(mark.read_text()).get("commit") == commit
    if is_present and not (without_webhooks and _has_webhooks(data_dir)):
        return data_dir
    shutil.rmtree(data_dir, ignore_errors=True)
    data_dir.mkdir(parents=True, mode=0o700)
    print(f"creating {data_dir}", flush=True)
    with run_platform(cdrs) as url:
        begun, begun_cpu = time.perf_counter(), _read_cpu_of_ended_children()
        command = [sys.executable, "app.py", "sync", *COLLECTIONS, "--no-files", "--quiet"]
        subprocess.run(command, cwd=ROOT, env=make_environment(data_dir, url), check=True)
        seconds = {
            "sync": time.perf_counter() - begun,
            "sync, CPU": _read_cpu_of_ended_children() - begun_cpu,
        }
    # The platform had a port of this run only; a data directory belongs to one platform.
    account = data_dir / "account.json"
    account.write_text(account.read_text().replace(url.removesuffix("/v1.2"), NOWHERE.removesuffix("/v1.2")))
    begun = time.perf_counter()
    with (
        closing(open_mirror(data_dir / "mirror.db")) as mirror,
        closing(open_app_db(data_dir / "house.db")) as app_db,
    ):
        # The worker's other threads do this during an initial sync.
        rules = make_rules(load(Path(os.devnull), make_environment(data_dir)))
        with app_db.read() as connection:
            load_rules(connection, rules)
        rebuild.install(mirror, rules)
        rebuild.rebuild_due(mirror, rules)
        update_from_mirror(app_db, mirror)
    seconds["search index, report sums and call-back list"] = time.perf_counter() - begun
    mark.write_text(json.dumps({"commit": commit, **seconds}))
    return data_dir


def get_commit() -> str:
    """Return the last commit of the product, empty outside a clone."""
    git = ("git", "-C", str(ROOT), "log", "-1", "--format=%h", "--", "integration")
    return subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()


def _read_cpu_of_ended_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _has_webhooks(data_dir: Path) -> bool:
    return query_number(data_dir / "inbox.db", "SELECT 1 FROM inbox LIMIT 1") > 0
