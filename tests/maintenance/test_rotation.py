"""Scheduled backups: due times, verification and deletion of old backups."""

from __future__ import annotations

import threading

import pytest

from integration.core.errors import StorageError, SwitchroomError
from integration.core.health import Health
from integration.core.scheduler import Scheduler
from integration.maintenance import backup, manifest
from integration.maintenance.restore import restore
from integration.maintenance.rotation import HEALTH_NAME, BackupRotation
from integration.settings.model import Settings
from tests.support.application import running_app
from tests.support.applications.data_dir import DataDir
from tests.support.clock import Clock
from tests.support.harness import wait_for

HOUR = 3600


@pytest.fixture
def frozen_clock(movable_clock):
    """A clock stopped at the present time, because ages of files count."""
    movable_clock.freeze()
    return movable_clock


@pytest.fixture
def rotation(home):
    return make_rotation(home)


def make_rotation(home: DataDir, **settings) -> BackupRotation:
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


def list_backups(home: DataDir) -> list[str]:
    return sorted(path.name for path in (home.data_dir / "backups").glob("*"))


def test_a_backup_is_made_one_interval_after_the_data_and_after_the_last_backup(
    home, rotation, frozen_clock: Clock
):
    rotation.run_if_due()
    assert list_backups(home) == []
    frozen_clock.advance(25 * HOUR)
    rotation.run_if_due()
    rotation.run_if_due()
    (name,) = list_backups(home)
    assert manifest.read(home.data_dir / "backups" / name).scheduled
    frozen_clock.advance(23 * HOUR)
    rotation.run_if_due()
    assert list_backups(home) == [name]
    frozen_clock.advance(2 * HOUR)
    rotation.run_if_due()
    assert len(list_backups(home)) == 2


def test_the_oldest_scheduled_backups_are_deleted_and_manual_ones_are_kept(
    home, rotation, frozen_clock: Clock
):
    manual = backup.create(home.data_dir, home.data_dir / "backups").path.name
    for _ in range(4):
        frozen_clock.advance(25 * HOUR)
        rotation.run_if_due()
    backups = list_backups(home)
    assert backups[0] == manual
    assert len(backups) == 3
    restore(home.data_dir / "backups" / backups[-1], home.folder / "restored")


def test_backups_of_another_account_in_the_same_folder_are_kept(home, tmp_path, frozen_clock: Clock):
    (tmp_path / "other").mkdir()
    other = DataDir(tmp_path / "other")
    (other.data_dir / "account.json").write_text('{"base_url": "x", "account": "1000002"}\n')
    for place in (home, other):
        rotation = make_rotation(place, dest=str(tmp_path / "shared"), keep=1)
        for _ in range(2):
            frozen_clock.advance(25 * HOUR)
            rotation.run_if_due()
    assert len(list((tmp_path / "shared").glob(backup.BACKUP_NAME_PATTERN))) == 2


def test_a_damaged_copy_is_an_error_and_old_backups_are_kept(home, rotation, frozen_clock, monkeypatch):
    for _ in range(2):
        frozen_clock.advance(25 * HOUR)
        rotation.run_if_due()
    before = list_backups(home)
    frozen_clock.advance(25 * HOUR)
    with monkeypatch.context() as damaged:
        damaged.setattr(backup.database_files, "find_faults", lambda _path: ["wrong # of entries in index"])
        with pytest.raises(StorageError, match=r"Copy of house\.db: wrong # of entries"):
            rotation.run_if_due()
    assert list_backups(home) == before
    rotation.run_if_due()
    assert list_backups(home)[-1] > before[-1]


def test_a_failure_is_in_the_health_report_until_the_next_success(home, frozen_clock):
    (home.folder / "full").write_text("a file where the folder should be")
    health = Health()
    rotation = make_rotation(home, dest=str(home.folder / "full"))
    frozen_clock.advance(25 * HOUR)
    scheduler = Scheduler(health)
    scheduler.every(HEALTH_NAME, 900, rotation.run_if_due, executor="maintenance", is_watched=True)
    scheduler.start()
    try:
        error = wait_for(lambda: health.report()["checks"][HEALTH_NAME]["error"], "the failure")
        assert "full" in error
        assert health.report()["status"] == "degraded"
        (home.folder / "full").unlink()
        scheduler.nudge(HEALTH_NAME)
        wait_for(lambda: health.report()["status"] == "ok", "the next backup")
    finally:
        scheduler.stop(10)


@pytest.mark.parametrize(("hours", "days"), [(24, 1), (0, 0)])
def test_serve_schedules_backups_and_retention_unless_disabled(tmp_path, hours, days):
    settings = {
        "backup__every_hours": str(hours),
        "retention__sms_days": str(days),
        "storage__keep_before_restore_days": "0",
    }
    # A new data directory: databases from before an upgrade would need retention.
    with running_app(tmp_path / "data", **settings) as app:
        app.product.start()
        names = set(app.product.health.report()["checks"])
        assert ("backups" in names) is bool(hours)
        assert ("retention" in names) is bool(days)


def test_a_scheduled_backup_waits_for_a_running_manual_backup(home, rotation, frozen_clock):
    frozen_clock.advance(25 * HOUR)
    is_running, may_continue = threading.Event(), threading.Event()

    def hold(*_):
        is_running.set()
        assert may_continue.wait(30)

    manual = threading.Thread(target=backup.create, args=(home.data_dir, home.folder / "manual", hold))
    manual.start()
    assert is_running.wait(30)
    rotation.run_if_due()
    assert list_backups(home) == []
    with pytest.raises(SwitchroomError, match=r"Another backup of .* is running"):
        backup.create(home.data_dir, home.folder / "third")
    may_continue.set()
    manual.join()
    rotation.run_if_due()
    assert len(list_backups(home)) == 1


def test_a_backup_dated_in_the_future_does_not_delay_the_next(home, rotation, frozen_clock: Clock):
    frozen_clock.advance(400 * 24 * HOUR)
    rotation.run_if_due()
    frozen_clock.advance(-300 * 24 * HOUR)
    rotation.run_if_due()
    rotation.run_if_due()
    assert len(list_backups(home)) == 2
