"""Trial of backups that are made under load."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.harness import Process, wait_for
from tests.trials.tools import seeded_bug
from tests.trials.tools.databases import count_stored, find_damage, query_number
from tests.trials.tools.traffic import Senders
from tests.trials.trial import NO_TRAFFIC, Trial, await_sync

SENDERS = 8


class Backups(Trial):
    """A backup that is made under load can be restored, and holds each earlier acknowledgement.

    Disturbed: `backup` runs while 8 senders post webhooks and recordings are downloaded; each backup is
    restored into an empty folder, and the product starts from it.
    Checked: the restored databases are intact; each event that was acknowledged before the backup began is
    in them, and applied after the start; `verify` finds all recordings as recorded.
    Detects: a backup without every tenth webhook.
    """

    name = "backup"
    size_option, size = "--backups", 10
    bugs, symptoms = ("copy_incompletely",), ("is in the backup",)
    short = ("--backups 1", "--backups 1 --seed-bug")
    promises = ("P25",)
    long = ("--backups 5",) * 2

    def boot(self) -> None:
        self.simulator = self.start_simulator(*NO_TRAFFIC, "--cdrs", "100")
        self.product = self.start_product(self.data_dir, self.simulator)
        await_sync(self.product, "cdrs", "monitors")
        files = "SELECT count(*) FROM media WHERE kind = 'recording' AND state = 'have'"
        wait_for(lambda: query_number(self.data_dir / "mirror.db", files), "a recording", 240)

    def load(self) -> None:
        self.senders = Senders(self.product.port, self.product.webhook_path, count=SENDERS, rest=0.01)

    def disturb(self) -> None:
        for number in range(self.options.size):
            before = len(self.senders.acknowledged)
            wait_for(lambda before=before: len(self.senders.acknowledged) > before + 100, "events", 240)
            self._try_backup(number)
        self.senders.stop()

    def _try_backup(self, number: int) -> None:
        acknowledged = self.senders.acknowledged
        target = self.folder / f"backups-{number}"
        self._run("backup", str(target))
        made = [path for path in target.glob("switchroom-*") if not path.name.endswith(".part")]
        self.verify(len(made) == 1, f"backup {number} is complete")
        restored = self.folder / f"restored-{number}"
        if made and self._run("restore", str(made[0]), data_dir=restored) == 0:
            self._check_restored(number, restored, acknowledged)

    def _check_restored(self, number: int, restored: Path, acknowledged: set[str]) -> None:
        damage = find_damage(restored)
        self.verify(not damage, f"backup {number} is intact, not {damage}")
        lost = acknowledged - set(count_stored(restored))
        self.verify(not lost, f"each earlier acknowledgement is in the backup {number}, except {len(lost)}")
        if self.is_seeded:
            return
        self.verify(self._run("verify", data_dir=restored) == 0, f"`verify` accepts the backup {number}")
        product = self.start_product(restored, self.simulator)
        self.verify_applied(restored)
        self.stop_product(product)

    def _run(self, *arguments: str, data_dir: Path | None = None) -> int:
        """Run a command of the product, which has the planted bug. Returns its exit status."""
        program = seeded_bug.make_program(self.bugs if self.is_seeded else ())
        folder = str(data_dir or self.data_dir)
        environment = {**self.product.environment, "SWITCHROOM_STORAGE__DATA_DIR": folder}
        run = Process([sys.executable, *program, *arguments], environment)
        status = run.popen.wait(300)
        if status and not self.is_seeded:
            self.verify(False, f"{arguments[0]} ends with status 0, not {status}:\n{run.output[-600:]}")
        return int(status)

    def check(self) -> None:
        self.verify_applied(self.data_dir)
        self.verify_stored(self.data_dir, self.senders.acknowledged)
        self.figures.append(f"{self.options.size} backups, {len(self.senders.acknowledged)} events")
