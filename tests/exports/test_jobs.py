"""Export jobs: large exports, prepared for their owner only."""

from __future__ import annotations

import io
import os
import sqlite3
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from sqlite3 import Connection, ProgrammingError
from types import SimpleNamespace
from typing import Any, cast

import openpyxl
import pytest

from integration.access import audit, people, sessions
from integration.core import clock, retry_delays
from integration.exports import jobs, query, runner
from integration.exports.formats import FORMATS
from integration.exports.jobs import ExportRun
from tests.support.application import TestApp
from tests.support.fake_exchange import read_fixture
from tests.support.harness import wait_for

CDR = read_fixture("response-cdrs-list-200")["data"][0]
ROWS = 12
URL = "/exports/cdrs.xlsx?columns=id,src"


class ExportClient:
    """An application that prepares exports of more than ten rows."""

    def __init__(self, app: TestApp) -> None:
        self.app = app
        app.put("cdrs", *({**CDR, "id": number, "user_id": 7} for number in range(1, ROWS + 1)))
        self.start()

    def start(self) -> None:
        """Start the preparation of exports."""
        self.client = self.app.product.site.test_client(use_cookies=False)
        self.app.context.export_runner.schedule()
        self.app.context.scheduler.start()

    def restart(self, **settings: str) -> None:
        """Replace the application by a new one on the same files."""
        self.app.restart(**settings)
        self.start()

    def person(self, name: str, role: str = "supervisor", **options: Any) -> dict[str, str]:
        """Create a dashboard user. Return the cookie header of a session."""
        made = people.create(self.app.app_db, f"{name}@example.com", role, **options)
        return {"Cookie": f"session={sessions.create(self.app.app_db, made.id)}"}

    def request(self, headers: dict[str, str], url: str = URL) -> str:
        """Request an export. Return the URL of its state."""
        response = self.client.get(url, headers=headers)
        assert response.status_code == 202, response.data
        return str(response.headers["Location"])

    def wait_for_state(self, state: str, url: str, headers: dict[str, str]) -> dict[str, Any]:
        def find_state() -> dict[str, Any] | None:
            found = self.client.get(url, headers=headers).json
            return found if found["state"] == state else None

        return cast(dict[str, Any], wait_for(find_state, state))


@pytest.fixture
def exports(app: TestApp, monkeypatch: pytest.MonkeyPatch) -> ExportClient:
    monkeypatch.setitem(FORMATS, "xlsx", replace(FORMATS["xlsx"], background_above=10))
    return ExportClient(app)


class Gate:
    """Replaces the check of free disk space after each batch of rows.

    The writer of the export waits in the check until `open` is set.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        self.free, self.checks = 10**12, 0
        monkeypatch.setattr(runner.shutil, "disk_usage", self._check)

    def _check(self, _path: object) -> SimpleNamespace:
        self.checks += 1
        self.reached.set()
        assert self.open.wait(30)
        return SimpleNamespace(free=self.free)


def test_large_export_is_requested_polled_and_downloaded(exports: ExportClient) -> None:
    ann = exports.person("ann")
    response = exports.client.get(URL, headers=ann)
    assert (response.status_code, response.headers["Retry-After"]) == (202, "2")
    assert (response.json["total"], response.json["form"]) == (ROWS, "xlsx")
    state_url = response.headers["Location"]
    found = exports.wait_for_state("done", state_url, ann)
    assert (found["done"], found["total"]) == (ROWS, ROWS)
    file = exports.client.get(found["file"], headers=ann)
    assert file.headers["X-Export-Rows"] == str(ROWS)
    assert file.headers["Content-Disposition"] == "attachment; filename=cdrs.xlsx"
    assert file.headers["Cache-Control"] == "no-store"
    book = openpyxl.load_workbook(io.BytesIO(file.data))
    assert [row[0] for row in book.worksheets[0].iter_rows(values_only=True)] == ["id", *range(1, ROWS + 1)]
    assert found["bytes"] == len(file.data)
    part = exports.client.get(found["file"], headers={**ann, "Range": "bytes=100-"})
    assert (part.status_code, part.data) == (206, file.data[100:])
    trail = [(entry.what, entry.about, entry.result) for entry in audit.list_newest(exports.app.app_db)[:2]]
    number = state_url.rpartition("/")[2]
    assert trail == [
        ("export", f"cdrs.xlsx, prepared export {number}", "12 rows"),
        ("export requested", "cdrs.xlsx", "12 rows"),
    ]


def test_a_prepared_file_has_the_days_and_the_name_of_its_request(
    exports: ExportClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, ROWS + 1):
        exports.app.call(number, "2026-11-09 09:15:00", talk_seconds=1)
    view = "view=range%3Dtoday%26direction%3Din%26min%3D0%26q%3D07700900101"
    ann, url = exports.person("ann"), f"/exports/call-history.xlsx?{view}&headings=words"
    monkeypatch.setattr(clock, "now", lambda: datetime(2026, 11, 9, 12, tzinfo=UTC))
    found = exports.wait_for_state("done", exports.request(ann, url), ann)
    monkeypatch.setattr(clock, "now", lambda: datetime(2026, 11, 10, 12, tzinfo=UTC))
    file = exports.client.get(found["file"], headers=ann)
    assert file.headers["Content-Disposition"] == "attachment; filename=calls-2026-11-09.xlsx"
    assert file.headers["X-Export-Rows"] == str(ROWS)
    downloaded, requested = audit.list_newest(exports.app.app_db)[:2]
    assert requested.about == "calls-2026-11-09.xlsx, only Inbound, talked at least 0 s, search"
    assert downloaded.about.startswith(f"{requested.about}, prepared export ")


def test_above_5000_rows_browsers_get_a_job_and_programs_the_file(app: TestApp) -> None:
    exports = ExportClient(app)
    app.put("cdrs", *({"id": number} for number in range(1, 5002)))
    ann, url = exports.person("ann"), "/exports/cdrs.xlsx?columns=id"
    assert exports.client.get(url, headers=app.add_key("one")).status_code == 200
    assert (
        exports.client.get(
            f"{url}&filter=[%7B%22property%22:%22id%22,%22operator%22:%22gt%22,%22value%22:1%7D]", headers=ann
        ).status_code
        == 200
    )
    response = exports.client.get(url, headers=ann)
    assert (response.status_code, response.json["total"]) == (202, 5001)


def test_browser_is_redirected_to_the_page_of_export_jobs(exports: ExportClient) -> None:
    response = exports.client.get(URL, headers={**exports.person("ann"), "Accept": "text/html"})
    assert (response.status_code, response.headers["Location"]) == (303, "/exports")


def test_client_uses_and_deletes_an_export_job_with_its_key(exports: ExportClient) -> None:
    key, other = exports.app.add_key("one"), exports.app.add_key("two")
    state_url = exports.request(key)
    found = exports.wait_for_state("done", state_url, key)
    assert exports.client.get(found["file"], headers=key).data.startswith(b"PK")
    assert exports.client.delete(state_url, headers=other).status_code == 404
    assert exports.client.delete(state_url, headers=key).status_code == 204
    assert exports.client.get(state_url, headers=key).status_code == 404
    assert not list((exports.app.context.settings.storage.data_dir / "prepared").iterdir())


def test_export_job_is_visible_to_its_owner_with_the_right_only(exports: ExportClient) -> None:
    ann, boss = exports.person("ann"), exports.person("boss", "admin")
    state_url = exports.request(ann)
    file = exports.wait_for_state("done", state_url, ann)["file"]
    for url in (state_url, file):
        assert exports.client.get(url, headers=boss).status_code == 404
        assert exports.client.get(url, headers=exports.app.add_key(url)).status_code == 404
        assert exports.client.get(url).status_code == 401
        assert exports.client.get(url, headers={"Accept": "text/html"}).status_code == 302
    assert exports.client.get("/exports/prepared/99/file", headers=ann).status_code == 404
    assert exports.client.delete(state_url, headers=ann).status_code == 403, (
        "a session cookie alone can be sent by another site"
    )
    people.change(exports.app.app_db, "ann@example.com", rights={"export": False})
    for url in (state_url, file):
        assert exports.client.get(url, headers=ann).status_code == 403


def test_file_is_403_after_the_owner_lost_access_to_its_records(exports: ExportClient) -> None:
    ann = exports.person("ann", "agent", platform_user_id=7)
    people.change(exports.app.app_db, "ann@example.com", rights={"export": True})
    state_url = exports.request(ann)
    file = exports.wait_for_state("done", state_url, ann)["file"]
    exports.restart(dashboard__agents_see="own")
    assert exports.client.get(file, headers=ann).status_code == 403


def test_equal_requests_share_a_job_and_a_sixth_job_is_429(
    exports: ExportClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, ann = Gate(monkeypatch), exports.person("ann")
    assert exports.request(ann) == exports.request(ann)
    for number in range(4):
        exports.request(ann, f"{URL}&from=200{number}-01-01")
    refused = exports.client.get(f"{URL}&from=2010-01-01", headers=ann)
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "60")
    gate.open.set()


def test_running_export_job_can_be_cancelled(exports: ExportClient, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, key = Gate(monkeypatch), exports.app.add_key("one")
    monkeypatch.setattr(query, "BATCH_ROWS", 5)
    state_url = exports.request(key)
    assert gate.reached.wait(30)
    found = exports.wait_for_state("running", state_url, key)
    assert (found["done"], found["total"]) == (5, ROWS)
    assert exports.client.get(found["file"], headers=key).status_code == 409
    assert exports.client.delete(state_url, headers=key).status_code == 204
    gate.open.set()
    exports.wait_for_state("cancelled", state_url, key)
    folder = exports.app.context.settings.storage.data_dir / "prepared"
    wait_for(lambda: not list(folder.iterdir()), "the temporary file to be removed")
    assert gate.checks == 1, "the export ended before the next batch"


def test_restart_repeats_an_export_job_up_to_a_limit(
    exports: ExportClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, ann = Gate(monkeypatch), exports.person("ann")
    monkeypatch.setattr(query, "BATCH_ROWS", 5)
    state_url = exports.request(ann)
    assert gate.reached.wait(30)
    folder = exports.app.context.settings.storage.data_dir / "prepared"
    (folder / "77.xlsx").write_bytes(b"left by a process that was killed")
    exports.app.context.scheduler.stop(0)
    gate.open.set()
    wait_for(lambda: [path.name for path in folder.iterdir()] == ["77.xlsx"], "the first process to end")
    exports.restart()
    exports.wait_for_state("done", state_url, ann)
    assert [path.name for path in folder.iterdir()] == ["1.xlsx"]
    second = exports.request(ann)
    number = int(second.rpartition("/")[2])
    exports.wait_for_state("done", second, ann)
    exports.app.app_db.write(
        lambda tx: tx.execute("UPDATE export_runs SET state = 'running', tries = 3 WHERE id = ?", (number,))
    )
    exports.restart()
    assert "interrupted" in exports.wait_for_state("failed", second, ann)["error"]


def test_a_stop_in_the_middle_of_a_batch_is_no_failure(
    exports: ExportClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, reached, is_closed = exports.person("ann"), threading.Event(), threading.Event()

    def write(connection: Connection, *_: object) -> None:
        reached.set()
        assert is_closed.wait(30)
        raise ProgrammingError("Cannot operate on a closed database.")

    with monkeypatch.context() as broken:
        broken.setitem(FORMATS, "xlsx", replace(FORMATS["xlsx"], write=write))
        state_url = exports.request(ann)
        assert reached.wait(30)
        exports.app.context.scheduler.stop(0)
        is_closed.set()
        exports.app.context.export_runner.stop(30)
    assert exports.client.get(state_url, headers=ann).json["state"] == "running"
    exports.restart()
    exports.wait_for_state("done", state_url, ann)


def test_failed_run_is_shown_in_health_and_the_next_run_continues(
    exports: ExportClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, list_downloads, failures = exports.person("ann"), jobs.list_downloads, iter(range(1))

    def fails_once(connection: Connection, owner: str | None = None) -> list[ExportRun]:
        """Fail in the search for expired files, after a file was written."""
        downloads = list_downloads(connection, owner)
        if (
            owner is None
            and any(run.state == "done" for run in downloads)
            and next(failures, None) is not None
        ):
            raise PermissionError("the folder cannot be read")
        return downloads

    def check() -> dict[str, Any]:
        return cast(dict[str, Any], exports.app.context.health.report()["checks"][runner.JOB_NAME])

    wait_for(lambda: check()["state"] == "ok", "the first run")
    monkeypatch.setattr(retry_delays, "FIRST_OF_JOBS", 60)
    monkeypatch.setattr(jobs, "list_downloads", fails_once)
    exports.wait_for_state("done", exports.request(ann), ann)
    assert "cannot be read" in wait_for(lambda: check()["error"], "the failure")
    exports.wait_for_state("done", exports.request(ann, f"{URL},dst"), ann)
    wait_for(lambda: check()["state"] == "ok", "a good run")


def test_full_disk_fails_the_export_job_with_the_reason(
    exports: ExportClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, ann = Gate(monkeypatch), exports.person("ann")
    gate.free = 1000
    gate.open.set()
    state_url = exports.request(ann)
    assert "disk is nearly full" in exports.wait_for_state("failed", state_url, ann)["error"]


def test_files_are_removed_by_age_and_by_total_size(exports: ExportClient) -> None:
    ann = exports.person("ann")
    first = exports.request(ann)
    size = exports.wait_for_state("done", first, ann)["bytes"]
    second = exports.request(ann, URL + "&from=2001-01-01")
    exports.wait_for_state("done", second, ann)
    exports.restart(exports__max_gb=str(1.5 * size / 1e9))
    wait_for(lambda: exports.client.get(first, headers=ann).status_code == 404, "the first to be removed")
    assert exports.client.get(first, headers=ann).status_code == 404
    assert exports.client.get(second, headers=ann).status_code == 200
    exports.app.clock.advance(days=7, seconds=1)
    exports.app.context.export_runner.run()
    with exports.app.app_db.read() as connection:
        assert jobs.list_downloads(connection) == []
    assert not os.listdir(Path(exports.app.context.settings.storage.data_dir) / "prepared")


def test_a_file_that_begins_while_old_files_are_removed_is_kept(
    exports: ExportClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, ann = Gate(monkeypatch), exports.person("ann")
    list_downloads, requested = jobs.list_downloads, list[str]()
    is_first = iter([True])

    def list_and_begin(connection: sqlite3.Connection, *owner: str) -> list[jobs.ExportRun]:
        found = list_downloads(connection, *owner)
        if next(is_first, False):
            requested.append(exports.request(ann))
            assert gate.reached.wait(30)
        return found

    monkeypatch.setattr(query, "BATCH_ROWS", 5)
    monkeypatch.setattr(jobs, "list_downloads", list_and_begin)
    exports.app.context.export_runner.run()
    gate.open.set()
    exports.wait_for_state("done", requested[0], ann)
    assert exports.client.get(f"{requested[0]}/file", headers=ann).status_code == 200
