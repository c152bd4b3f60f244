"""Trial of stops under load, and of kills during migrations."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

from tests.support.harness import ROOT, Process, keep_port, wait_for
from tests.trials.tools.databases import DATABASES
from tests.trials.tools.seeded_bug import STEP_LINE, STEP_SECONDS
from tests.trials.tools.traffic import Senders
from tests.trials.trial import Trial, has_started, until

SCHEMAS = ROOT / "tests" / "fixtures" / "older_schemas" / "0.0.0"
STOP_SECONDS = 10.0
Schema = frozenset[tuple[object, ...]]


class Upgrades(Trial):
    """A stop loses nothing; a killed migration leaves the old or the new schema.

    Disturbed: SIGTERM during bursts of webhooks; SIGKILL at random moments while the product migrates
    databases of the oldest version, whose steps are slowed down; then databases of a newer version.
    Checked: each stop ends with status 0 within 10 s, and each acknowledged event is stored; after each kill
    every database has the old or the new schema; the next start completes it; a newer database is refused
    with a message that states what to do.
    Detects: a commit after each step of a migration; a newer database that is opened.
    """

    name = "upgrade"
    size_option, size = "--kills", 30
    bugs, symptoms = ("commit_each_step", "open_newer_files"), ("old or the new schema", "newer version is")
    plants = ("slow_migrations",)
    short = ("--kills 3", "--kills 6 --seed-bug")
    promises = ("P24",)
    long = ("--kills 20",) * 2

    def boot(self) -> None:
        self.random = random.Random(self.options.seed)
        self.states = {"old": 0, "new": 0, "in between": 0}
        self.slowest = 0.0

    def load(self) -> None:
        """Stop the product during bursts."""
        kept = self.cleanup.enter_context(keep_port())
        port, acknowledged = kept.getsockname()[1], set[str]()
        for number in range(0 if self.is_seeded else max(2, self.options.size // 4)):
            product = self.start_product(self.data_dir, port=port)
            path, name = product.webhook_path, f"b{number}-"
            senders = Senders(port, path, count=16, rest=0.0, name=name, first=number)
            threading.Event().wait(self.random.uniform(0.2, 1.0))
            began = time.monotonic()
            self.stop_product(product)
            self.slowest = max(self.slowest, time.monotonic() - began)
            senders.stop(30)
            acknowledged |= senders.acknowledged
        if not self.is_seeded:
            self.verify_stored(self.data_dir, acknowledged)

    def disturb(self) -> None:
        new = self._migrate()
        for number in range(self.options.size):
            data_dir = self._make_older()
            old = read_schemas(data_dir)
            run = self._serve(data_dir)
            due = self.random.randint(1, self._steps)
            wait_for(lambda run=run, due=due: count_steps(run) >= due, "a step of a migration", 240)
            threading.Event().wait(self.random.uniform(0, STEP_SECONDS))
            run.kill()
            found = read_schemas(data_dir)
            for name in DATABASES:
                states = {"old": old[name], "new": new[name]}
                state = next((one for one in states if states[one] == found[name]), "in between")
                self.states[state] += 1
                self.verify(state != "in between", f"kill {number}: {name} has the old or the new schema")
        self._refuse_newer(self._migrated)

    def _migrate(self) -> dict[str, Schema]:
        """Return the schemas after a migration that was not killed."""
        self._migrated = self._make_older()
        product = self.start_product(self._migrated)
        self._steps, self._environment = count_steps(product), product.environment
        self.stop_product(product)
        return read_schemas(self._migrated)

    def _make_older(self) -> Path:
        """Create databases of the oldest version."""
        folder = self.make_folder()
        for name in DATABASES:
            with closing(sqlite3.connect(folder / name)) as connection:
                connection.executescript((SCHEMAS / f"{Path(name).stem}.sql").read_text())
        return folder

    def _refuse_newer(self, data_dir: Path) -> None:
        for name in DATABASES:
            with closing(sqlite3.connect(data_dir / name)) as connection:
                rows = connection.execute("SELECT migration_set FROM _sqlite_migrations").fetchone()
                values = (rows[0] if rows else Path(name).stem, "newer step", "2999-01-01 00:00:00")
                columns = "migration_set, name, applied_at"
                connection.execute(f"INSERT INTO _sqlite_migrations ({columns}) VALUES (?, ?, ?)", values)
                connection.commit()
            run = self._serve(data_dir)
            until(lambda run=run: run.popen.poll() is not None or has_started(run), 120)
            status = run.popen.poll()
            is_refused = status not in (None, 0) and "newer version" in run.output
            output = run.output[-300:]
            self.verify(is_refused, f"{name} of a newer version is refused, not {status}: {output}")
            run.kill()
            with closing(sqlite3.connect(data_dir / name)) as connection:
                connection.execute("DELETE FROM _sqlite_migrations WHERE name = 'newer step'")
                connection.commit()

    def _serve(self, data_dir: Path) -> Process:
        own = {"SWITCHROOM_STORAGE__DATA_DIR": str(data_dir), "SWITCHROOM_SERVER__PORT": "0"}
        return self.start_serve({**self._environment, **own})

    def check(self) -> None:
        if not self.is_seeded:
            slow = self.slowest > STOP_SECONDS
            self.verify(not slow, f"a stop ends within {STOP_SECONDS:.0f} s, not {self.slowest:.1f} s")
        self.figures.append(f"{self.options.size} kills: {self.states}")


def count_steps(run: Process) -> int:
    """Number of finished steps of migrations."""
    return sum(line.startswith(STEP_LINE) for line in list(run.lines))


def read_schemas(data_dir: Path) -> dict[str, Schema]:
    """Return tables, columns and indexes of each database."""
    found = {}
    for name in DATABASES:
        with closing(sqlite3.connect(data_dir / name)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
            columns = {
                (table, *row[1:])
                for (table,) in tables
                for row in connection.execute("SELECT * FROM pragma_table_xinfo(?)", (table,))
            }
            others = {
                tuple(row)
                for row in connection.execute("SELECT type, name FROM sqlite_schema WHERE type <> 'table'")
            }
            found[name] = frozenset(columns | others)
    return found
