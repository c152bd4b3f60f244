"""Parquet by month in object storage: written by the command and by schedules, read by DuckDB."""

from __future__ import annotations

import io
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.application import running_app
from tests.support.clock import Clock
from tests.support.harness import ROOT
from tests.support.object_storage import ObjectStorage
from tests.support.page_environment import read_section, run_examples
from tests.support.scheduled_exports import ScheduledExports

pytestmark = pytest.mark.exhaustive

RECIPE = "docs/recipes.md#parquet-in-object-storage"
SEPTEMBER, OCTOBER = (f"calls/month=2026-{month}/part-0.parquet" for month in ("09", "10"))


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStorage]:
    storage = ObjectStorage()
    for name, value in storage.environment.items():
        monkeypatch.setenv(name, value)
    yield storage
    storage.close()


def export(data_dir: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(ROOT / "app.py"), "export", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "SWITCHROOM_PLATFORM__BASE_URL": "http://127.0.0.1:9/v1.2",
            "SWITCHROOM_PLATFORM__USER_ID": "1",
            "SWITCHROOM_STORAGE__DATA_DIR": str(data_dir),
        },
    )


def run(data_dir: Path, *arguments: str) -> tuple[int, list[str]]:
    process = export(data_dir, *arguments)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors.splitlines()


def read_ids(content: bytes) -> list[int]:
    from pyarrow import parquet

    ids: list[int] = parquet.read_table(io.BytesIO(content)).column("id").to_pylist()
    return sorted(ids)


def test_the_command_writes_changed_months_and_duckdb_reads_them(
    storage: ObjectStorage, tmp_path: Path
) -> None:
    (line,) = (line for line in read_section(RECIPE).splitlines() if line.startswith("switchroom"))
    arguments = shlex.split(line)[2:]
    with running_app(tmp_path / "data") as app:
        app.call(1, "2026-09-30 12:00:00", talk_seconds=30)
        app.call(2, "2026-10-01 12:00:00", talk_seconds=90)
        assert run(tmp_path / "data", *arguments) == (0, ["2026-09  1 rows", "2026-10  1 rows"])
        september = storage.objects()[SEPTEMBER]
        app.call(3, "2026-10-31 12:00:00", talk_seconds=60)
        assert run(tmp_path / "data", *arguments) == (0, ["2026-09  1 rows, unchanged", "2026-10  2 rows"])
        assert {name: read_ids(content) for name, content in storage.objects().items()} == {
            SEPTEMBER: [1],
            OCTOBER: [2, 3],
        }
        assert storage.objects()[SEPTEMBER] == september

        # An upload that is refused, and one whose process is killed, leave the complete old object.
        app.call(4, "2026-10-31 13:00:00")
        storage.before_upload = lambda: False
        status, errors = run(tmp_path / "data", *arguments)
        assert status == 1
        assert f"The file s3://lake/{OCTOBER} cannot be written: " in errors[-1]
        arrived, killed = threading.Event(), threading.Event()

        def hold() -> bool:
            arrived.set()
            return not killed.wait(60)

        storage.before_upload = hold
        process = export(tmp_path / "data", *arguments)
        assert arrived.wait(60)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        killed.set()
        assert read_ids(storage.objects()[OCTOBER]) == [2, 3]
    busiest = run_examples(RECIPE, tmp_path, "busiest")
    assert busiest == [["2026-09", 1, 0.5], ["2026-10", 2, 2.5]]


def test_bad_urls_name_what_to_write(tmp_path: Path) -> None:
    month = ("--format", "parquet", "--partition-by", "month")
    for arguments, message in (
        (("cdrs", "--out", "s3://lake/cdrs.csv"), "--out with a URL requires --format parquet"),
        (("cdrs", *month, "--out", "s3:///cdrs"), "and a bucket, such as s3://bucket/calls"),
        (("cdrs", *month, "--out", "S3://lake/cdrs"), "must begin with s3://, gs:// or abfs://"),
        (("cdrs", *month, "--out", "s3://key:secret@lake"), "must not contain credentials"),
    ):
        with running_app(tmp_path / "data") as app:
            app.put("cdrs", {"id": 1, "calldate": "2026-10-01 12:00:00"})
        status, errors = run(tmp_path / "data", *arguments)
        assert status == 2, errors
        assert message in " ".join(errors)


def test_schedules_deliver_below_a_url_and_remove_months(
    storage: ObjectStorage, make_exporting: Callable[..., ScheduledExports], movable_clock: Clock
) -> None:
    exporting = make_exporting(exports__folder="s3://lake/night?region=us-east-1")
    by_month = {"columns": "id,calldate", "partition_by": "month"}
    schedules = [
        exporting.schedule("Lake", form="parquet", place="calls", args=by_month),
        exporting.schedule("Daily"),
    ]
    exporting.put_cdrs("2026-09-30 12:00:00", "2026-11-18 12:00:00")

    def deliver() -> list[str]:
        exporting.finish_sync()
        exporting.deliver()
        return [exporting.attempts(schedule)[-1][2] for schedule in schedules]

    movable_clock.set("2026-11-19 03:00:00")
    assert deliver() == [
        "written: 2026-09, 2026-11 (s3://lake/night/calls/lake)",
        "written to s3://lake/night/daily-2026-11-18.csv",
    ]
    exporting.mirror_db.write(lambda tx: tx.execute("DELETE FROM cdrs WHERE id = 1"))
    movable_clock.advance(days=1)
    assert deliver()[0] == "removed: 2026-09 (s3://lake/night/calls/lake)"
    objects = storage.objects()
    assert objects["night/daily-2026-11-18.csv"].decode().splitlines()[1].startswith("2,")
    assert read_ids(objects["night/calls/lake/month=2026-11/part-0.parquet"]) == [2]
    assert not any("2026-09" in name for name in objects), list(objects)
    movable_clock.advance(days=1)
    storage.before_upload = lambda: False
    assert deliver()[1].startswith("The file s3://lake/night/daily-2026-11-20.csv cannot be written: ")
