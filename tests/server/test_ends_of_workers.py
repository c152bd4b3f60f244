"""Workers that end while a database is damaged or replaced, with real processes and files."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server.test_damaged_databases import (  # noqa: F401  fixtures
    damage_middle_page,
    data_dir,
    filled,
    find_put_aside,
    overwrite_header,
    query,
    send_legs,
    wait_until_applied,
)
from tests.support.harness import Product


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (overwrite_header, r"switchroom: house\.db is damaged .*copy house\.db from the newest backup"),
        (os.unlink, r"switchroom: house\.db was missing .*copy house\.db from the newest backup"),
    ],
)
def test_serve_ends_with_one_sentence_if_the_application_database_breaks_and_the_worker_ends(
    data_dir: Path,  # noqa: F811
    spoil: Callable[[Path], None],
    sentence: str,
) -> None:
    product = Product(data_dir)
    try:
        worker = product.worker
        assert worker is not None
        os.kill(worker, signal.SIGSTOP)  # It writes no more, so that the file stays as it is.
        spoil(data_dir / "house.db")
        (data_dir / "house.db-wal").unlink()
        os.kill(worker, signal.SIGKILL)
        assert product.popen.wait(60) == 1
    finally:
        product.stop()
    assert len(re.findall(sentence, product.output)) == 1, product.output
    assert "The worker is back" not in product.output


KILLED_ONCE = """
import os, signal
from pathlib import Path
from integration.cli import main
from integration.inbox import salvage
from integration.sqlite import damage

def kill():
    mark = Path(os.environ["KILL_MARK"])
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)

moment, put_aside = os.environ["KILL_AT"], damage.put_aside

class KillingDatabase(salvage.Database):
    def write(self, work):
        result = super().write(work)
        if moment == "some rows are saved":
            kill()
        return result

def kill_and_put_aside(*arguments):
    if moment == "the new file is complete":
        kill()
    target = put_aside(*arguments)
    if moment == "the damaged file is put aside":
        kill()
    return target

salvage.Database, damage.put_aside = KillingDatabase, kill_and_put_aside
main()
"""
"""Program of the product whose first worker is killed while it replaces inbox.db."""


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "moment", ["some rows are saved", "the new file is complete", "the damaged file is put aside"]
)
def test_a_kill_during_the_rescue_of_webhooks_loses_none(
    data_dir: Path,  # noqa: F811
    moment: str,
    tmp_path: Path,
) -> None:
    """The 500 webhooks of the file are stored or named as lost, and those lost are on one page."""
    damage_middle_page(data_dir / "inbox.db", "inbox")
    (data_dir / "inbox.db.damage").write_text("found before")
    mark = tmp_path / "killed"
    product = Product(
        data_dir, program=("-c", KILLED_ONCE), environment={"KILL_AT": moment, "KILL_MARK": str(mark)}
    )
    try:
        assert mark.exists()
        send_legs(product, 250, 5)
        inbox = data_dir / "inbox.db"
        stored = [row[0] for row in query(inbox, "SELECT seq FROM inbox ORDER BY seq")]
        ranges = query(inbox, "SELECT first_seq, last_seq FROM losses")
        lost = [seq for first, last in ranges for seq in range(first, last + 1)]
        assert sorted(stored + lost) == list(range(1, 511))
        assert 0 < len(lost) < 20
        assert query(inbox, "PRAGMA integrity_check") == [("ok",)]
        assert len(find_put_aside(data_dir, "inbox.db")) == 1
        assert not list(data_dir.glob("inbox.db.replacement*"))
        wait_until_applied(data_dir, 510)
    finally:
        product.stop()
