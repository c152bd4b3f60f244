"""`switchroom schedules`: list and exit status."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from integration.cli.schedules import command
from integration.exports import jobs
from tests.support.scheduled_exports import ScheduledExports


def list_schedules(folder: Path) -> tuple[int, str]:
    environment = {
        "SWITCHROOM_PLATFORM__BASE_URL": "http://127.0.0.1:9/v1.2",
        "SWITCHROOM_PLATFORM__USER_ID": "1",
        "SWITCHROOM_PLATFORM__API_KEY": "0" * 40,
        "SWITCHROOM_STORAGE__DATA_DIR": str(folder),
    }
    done = CliRunner(env=environment).invoke(command, [])
    return done.exit_code, done.stdout


def test_schedules_are_listed_with_state_and_a_failing_one_exits_with_1(
    tmp_path: Path, exporting: ScheduledExports
) -> None:
    assert list_schedules(tmp_path)[0] == 0
    address = "https://files.example.com/in?sig=canary"
    schedule = exporting.schedule("Desk", target="put", place=address, secret="canary")
    code, text = list_schedules(exporting.data_dir)
    assert code == 0
    words = " ".join(text.split())
    assert "Desk cdrs.csv every day at 02:30 Europe/Berlin put https://files.example.com/in never" in words
    assert "canary" not in text
    jobs.request_redelivery(exporting.app_db, schedule.id, "2026-11-17")
    with exporting.app_db.read() as connection:
        (run,) = jobs.list_open_runs(connection, schedule.id)
    jobs.mark_waiting(exporting.app_db, run, "records", "files.example.com answered 503")
    code, text = list_schedules(exporting.data_dir)
    assert (code, "failing files.example.com answered 503" in text) == (1, True)
