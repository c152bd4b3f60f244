"""Backups that nobody has to remember: made when due, verified, and only then the oldest go."""

from __future__ import annotations

import json
import threading

import pytest

from integration.core.errors import StorageError, SwitchroomError
from integration.core.health import Health
from integration.core.scheduler import Scheduler
from integration.factory import build
from integration.maintenance import backup, manifest
from integration.maintenance.restore import restore
from integration.maintenance.rotation import HEALTH_NAME, BackupRotation
from integration.settings.model import Settings
from tests.support.applications.data_dir import DataDir
from tests.support.clock import Clock
from tests.support.harness import wait_for

HOUR = 3600


@pytest.fixture
def frozen_clock(movable_clock):
    """From the present on: the age of a file counts."""
    movable_clock.freeze()
    return movable_clock


@pytest.fixture
def rotation(home):
    return rotating(home)


def rotating(home: DataDir, **settings) -> BackupRotation:
    return BackupRotation(
        Settings.model_validate(
            {
                "platform": {"base_url": "http://127.0.0.1:9/v1.2", "user_id": "1", "api_key": "k"},
                "storage": {"data_dir": str(home.data_dir)},
                "backup": {"every_hours": 24, "keep": 2, **settings},
            }
        ),
        Health(),
    )


def names(home: DataDir) -> list[str]:
    return sorted(path.name for path in (home.data_dir / "backups").glob("*"))


def test_the_first_is_made_a_day_after_there_was_something_to_keep(home, rotation, frozen_clock: Clock):
    rotation.run_if_due()
    assert names(home) == []
    frozen_clock.advance(25 * HOUR)
    rotation.run_if_due()
    rotation.run_if_due()
    (name,) = names(home)
    assert manifest.read(home.data_dir / "backups" / name).scheduled
    frozen_clock.advance(23 * HOUR)
    rotation.run_if_due()
    assert names(home) == [name]
    frozen_clock.advance(2 * HOUR)
    rotation.run_if_due()
    assert len(names(home)) == 2


def test_the_oldest_go_and_what_a_person_made_stays(home, rotation, frozen_clock: Clock):
    asked_for = backup.create(home.data_dir, home.data_dir / "backups").path.name
    for _ in range(4):
        frozen_clock.advance(25 * HOUR)
        rotation.run_if_due()
    kept = names(home)
    assert kept[0] == asked_for
    assert len(kept) == 3
    restore(home.data_dir / "backups" / kept[-1], home.folder / "again")


def test_another_accounts_backups_in_the_same_place_stay(home, tmp_path, frozen_clock: Clock):
    (tmp_path / "other").mkdir()
    other = DataDir(tmp_path / "other")
    (other.data_dir / "account.json").write_text('{"base_url": "x", "account": "1000002"}\n')
    for place in (home, other):
        each = rotating(place, dest=str(tmp_path / "shared"), keep=1)
        for _ in range(2):
            frozen_clock.advance(25 * HOUR)
            each.run_if_due()
    assert len(list((tmp_path / "shared").glob(backup.BACKUP_NAME_PATTERN))) == 2


def test_a_copy_that_is_damaged_is_told_and_the_old_ones_stay(home, rotation, frozen_clock, monkeypatch):
    for _ in range(2):
        frozen_clock.advance(25 * HOUR)
        rotation.run_if_due()
    before = names(home)
    frozen_clock.advance(25 * HOUR)
    with monkeypatch.context() as damaged:
        damaged.setattr(backup.database_files, "find_faults", lambda _path: ["wrong # of entries in index"])
        with pytest.raises(StorageError, match=r"Copy of house\.db: wrong # of entries"):
            rotation.run_if_due()
    assert names(home) == before
    rotation.run_if_due()
    assert names(home)[-1] > before[-1]


def test_a_failure_shows_in_the_health_report_until_one_goes_well(home, frozen_clock):
    (home.folder / "full").write_text("a file where the folder should be")
    health = Health()
    each = rotating(home, dest=str(home.folder / "full"))
    frozen_clock.advance(25 * HOUR)
    scheduler = Scheduler(health)
    scheduler.every(HEALTH_NAME, 900, each.run_if_due, executor="maintenance", is_watched=True)
    scheduler.start()
    try:
        shown = wait_for(lambda: health.report()["checks"][HEALTH_NAME]["error"], "the failure")
        assert "full" in shown
        assert health.report()["status"] == "degraded"
        (home.folder / "full").unlink()
        scheduler.nudge(HEALTH_NAME)
        wait_for(lambda: health.report()["status"] == "ok", "the next backup")
    finally:
        scheduler.stop(10)


@pytest.mark.parametrize(("hours", "days"), [(24, 1), (0, 0)])
def test_serve_does_it_unless_told_not_to(home, hours, days):
    settings = Settings.model_validate(
        {
            "platform": {"base_url": "http://127.0.0.1:9/v1.2", "user_id": "1", "api_key": "k"},
            "storage": {"data_dir": str(home.data_dir)},
            "backup": {"every_hours": hours},
            "retention": {"sms_days": days},
        }
    )
    product = build(settings)
    try:
        product.start()
        names = set(product.health.report()["checks"])
        assert ({"backups", "retention"} <= names) is bool(hours)
    finally:
        product.stop()


def test_a_persons_backup_under_way_is_no_failure_and_ours_comes_after_it(home, rotation, frozen_clock):
    frozen_clock.advance(25 * HOUR)
    told, go_on = threading.Event(), threading.Event()

    def hold(*_):
        told.set()
        assert go_on.wait(30)

    manual = threading.Thread(target=backup.create, args=(home.data_dir, home.folder / "manual", hold))
    manual.start()
    assert told.wait(30)
    rotation.run_if_due()
    assert names(home) == []
    with pytest.raises(SwitchroomError, match=r"Another backup of .* is running"):
        backup.create(home.data_dir, home.folder / "third")
    go_on.set()
    manual.join()
    rotation.run_if_due()
    assert len(names(home)) == 1


def test_a_stop_leaves_nothing_half_made(home, rotation, frozen_clock):
    frozen_clock.advance(25 * HOUR)
    rotation.stop()
    rotation.run_if_due()
    assert names(home) == []


def test_one_from_the_future_does_not_hold_up_the_next(home, rotation, frozen_clock: Clock):
    frozen_clock.advance(400 * 24 * HOUR)
    rotation.run_if_due()
    frozen_clock.advance(-300 * 24 * HOUR)
    rotation.run_if_due()
    rotation.run_if_due()
    assert len(names(home)) == 2


def test_a_manifest_of_the_first_versions_was_asked_for(home):
    made = backup.create(home.data_dir, home.folder / "backups", scheduled=True)
    path = made.path / manifest.MANIFEST_FILE
    body = json.loads(path.read_text())
    del body["scheduled"]
    path.write_text(json.dumps(body))
    assert manifest.read(made.path).scheduled is False
