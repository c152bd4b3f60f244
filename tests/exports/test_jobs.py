"""Large exports: prepared in the background, for whoever asked and nobody else."""

from __future__ import annotations

import io
import os
import threading
from dataclasses import replace
from pathlib import Path
from sqlite3 import Connection
from types import SimpleNamespace
from typing import Any, cast

import openpyxl
import pytest

from integration.access import audit, people, sessions
from integration.core import scheduler
from integration.exports import export_request, jobs, prepared_exports, query
from integration.exports.formats import FORMATS
from integration.exports.jobs import EXTENSION, ExportJobs
from integration.exports.query import ExportQuery
from tests.support.application import TestApp
from tests.support.fake_exchange import read_fixture
from tests.support.harness import wait_for

CDR = read_fixture("response-cdrs-list-200")["data"][0]
ROWS = 12
URL = "/exports/cdrs.xlsx?columns=id,src"


class ExportClient:
    """A app whose exports of more than ten rows are prepared."""

    def __init__(self, app: TestApp) -> None:
        self.app = app
        app.put("cdrs", *({**CDR, "id": number, "user_id": 7} for number in range(1, ROWS + 1)))
        self.start()

    def start(self) -> None:
        """Start the preparation of exports."""
        self.client = self.app.product.site.test_client(use_cookies=False)
        self.preparer = cast(ExportJobs, self.app.product.site.extensions[EXTENSION])
        self.preparer.schedule()
        self.app.context.scheduler.start()

    def restart(self, **settings: str) -> None:
        """Let another process take over."""
        self.app.restart(**settings)
        self.start()

    def person(self, name: str, role: str = "supervisor", **options: Any) -> dict[str, str]:
        """The cookie header of a new person."""
        made = people.create(self.app.app_db, f"{name}@example.com", role, **options)
        return {"Cookie": f"session={sessions.create(self.app.app_db, made.id)}"}

    def ask(self, headers: dict[str, str], url: str = URL) -> str:
        """Where to ask how far it is."""
        answer = self.client.get(url, headers=headers)
        assert answer.status_code == 202, answer.data
        return str(answer.headers["Location"])

    def until(self, state: str, where: str, headers: dict[str, str]) -> dict[str, Any]:
        def told() -> dict[str, Any] | None:
            found = self.client.get(where, headers=headers).json
            return found if found["state"] == state else None

        return cast(dict[str, Any], wait_for(told, state))


@pytest.fixture
def exports(app: TestApp, monkeypatch: pytest.MonkeyPatch) -> ExportClient:
    for suffix in ("xlsx", "parquet"):
        monkeypatch.setitem(FORMATS, suffix, replace(FORMATS[suffix], background_above=10))
    return ExportClient(app)


class Gate:
    """Stands in for the look at the disk, which comes after each batch of rows: holds the writer there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        self.free, self.asked = 10**12, 0
        monkeypatch.setattr(jobs.shutil, "disk_usage", self._asked)

    def _asked(self, _path: object) -> SimpleNamespace:
        self.asked += 1
        self.reached.set()
        assert self.open.wait(30)
        return SimpleNamespace(free=self.free)


def test_it_is_asked_for_polled_and_fetched(exports: ExportClient) -> None:
    ann = exports.person("ann")
    answer = exports.client.get(URL, headers=ann)
    assert (answer.status_code, answer.headers["Retry-After"]) == (202, "2")
    assert (answer.json["total"], answer.json["form"]) == (ROWS, "xlsx")
    where = answer.headers["Location"]
    told = exports.until("done", where, ann)
    assert (told["done"], told["total"]) == (ROWS, ROWS)
    file = exports.client.get(told["file"], headers=ann)
    assert file.headers["X-Export-Rows"] == str(ROWS)
    assert file.headers["Content-Disposition"] == "attachment; filename=cdrs.xlsx"
    assert file.headers["Cache-Control"] == "no-store"
    book = openpyxl.load_workbook(io.BytesIO(file.data))
    assert [row[0] for row in book.worksheets[0].iter_rows(values_only=True)] == ["id", *range(1, ROWS + 1)]
    assert told["bytes"] == len(file.data)
    part = exports.client.get(told["file"], headers={**ann, "Range": "bytes=100-"})
    assert (part.status_code, part.data) == (206, file.data[100:])
    trail = [(entry.what, entry.about, entry.result) for entry in audit.list_newest(exports.app.app_db)[:2]]
    assert trail == [("export", "cdrs.xlsx", "12 rows"), ("export asked for", "cdrs.xlsx", "12 rows")]


def test_small_ones_csv_and_counting_are_answered_at_once(exports: ExportClient) -> None:
    ann = exports.person("ann")
    for url in (URL + "&to=2000-01-01", URL.replace("xlsx", "csv")):
        assert exports.client.get(url, headers=ann).status_code == 200
    head = exports.client.head(URL, headers=ann)
    assert (head.status_code, head.headers["X-Export-Rows"]) == (200, str(ROWS))


def test_a_browser_is_sent_to_the_page_that_shows_how_far_it_is(exports: ExportClient) -> None:
    answer = exports.client.get(URL, headers={**exports.person("ann"), "Accept": "text/html"})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/exports")


def test_a_program_asks_with_its_key(exports: ExportClient) -> None:
    key, other = exports.app.add_key("one"), exports.app.add_key("two")
    where = exports.ask(key, URL.replace("xlsx", "parquet"))
    told = exports.until("done", where, key)
    assert exports.client.get(told["file"], headers=key).data.startswith(b"PAR1")
    assert exports.client.delete(where, headers=other).status_code == 404
    assert exports.client.delete(where, headers=key).status_code == 204
    assert exports.client.get(where, headers=key).status_code == 404
    assert not list((exports.app.context.settings.storage.data_dir / "prepared").iterdir())


def test_only_its_owner_has_it_and_only_while_they_may(exports: ExportClient) -> None:
    ann, boss = exports.person("ann"), exports.person("boss", "admin")
    where = exports.ask(ann)
    file = exports.until("done", where, ann)["file"]
    for url in (where, file):
        assert exports.client.get(url, headers=boss).status_code == 404
        assert exports.client.get(url, headers=exports.app.add_key(url)).status_code == 404
        assert exports.client.get(url).status_code == 401
        assert exports.client.get(url, headers={"Accept": "text/html"}).status_code == 302
    assert exports.client.get("/exports/prepared/99/file", headers=ann).status_code == 404
    assert exports.client.delete(where, headers=ann).status_code == 403, "a session proves no intent"
    people.set_right(exports.app.app_db, "ann@example.com", "export", False)
    for url in (where, file):
        assert exports.client.get(url, headers=ann).status_code == 403


def test_who_sees_less_than_when_they_asked_does_not_get_it(exports: ExportClient) -> None:
    ann = exports.person("ann", "agent", platform_user_id=7)
    people.set_right(exports.app.app_db, "ann@example.com", "export", True)
    where = exports.ask(ann)
    file = exports.until("done", where, ann)["file"]
    exports.restart(dashboard__agents_see="own")
    assert exports.client.get(file, headers=ann).status_code == 403


def test_asking_twice_is_asking_once_and_five_are_enough(
    exports: ExportClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, ann = Gate(monkeypatch), exports.person("ann")
    assert exports.ask(ann) == exports.ask(ann)
    for number in range(4):
        exports.ask(ann, f"{URL}&from=200{number}-01-01")
    refused = exports.client.get(f"{URL}&from=2010-01-01", headers=ann)
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "60")
    gate.open.set()


def test_it_can_be_cancelled_on_its_way(exports: ExportClient, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, key = Gate(monkeypatch), exports.app.add_key("one")
    monkeypatch.setattr(query, "BATCH_ROWS", 5)
    where = exports.ask(key)
    assert gate.reached.wait(30)
    told = exports.until("running", where, key)
    assert (told["done"], told["total"]) == (5, ROWS)
    assert exports.client.get(told["file"], headers=key).status_code == 409
    assert exports.client.delete(where, headers=key).status_code == 204
    gate.open.set()
    exports.until("cancelled", where, key)
    folder = exports.app.context.settings.storage.data_dir / "prepared"
    wait_for(lambda: not list(folder.iterdir()), "the part to be gone")
    assert gate.asked == 1, "it ended before the next rows"


def test_a_restart_begins_it_again_and_gives_up_in_the_end(
    exports: ExportClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, ann = Gate(monkeypatch), exports.person("ann")
    monkeypatch.setattr(query, "BATCH_ROWS", 5)
    where = exports.ask(ann)
    assert gate.reached.wait(30)
    folder = exports.app.context.settings.storage.data_dir / "prepared"
    (folder / "77.xlsx").write_bytes(b"left by a process that was killed")
    exports.app.context.scheduler.stop(0)
    gate.open.set()
    wait_for(lambda: [path.name for path in folder.iterdir()] == ["77.xlsx"], "the first process to end")
    exports.restart()
    exports.until("done", where, ann)
    assert [path.name for path in folder.iterdir()] == ["1.xlsx"]
    second = exports.ask(ann)
    number = int(second.rpartition("/")[2])
    exports.until("done", second, ann)
    exports.app.app_db.write(
        lambda tx: tx.execute(
            "UPDATE prepared_exports SET state = 'running', begun = 3 WHERE id = ?", (number,)
        )
    )
    exports.restart()
    assert "interrupted" in exports.until("failed", second, ann)["error"]


def test_what_ends_the_work_shows_in_health_and_the_next_run_goes_on(
    exports: ExportClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, list_jobs, asked = exports.person("ann"), prepared_exports.list_in_states, iter(range(99))

    def fails_once(connection: Connection, *states: Any) -> list[prepared_exports.ExportJob]:
        """Fail in the search for expired files, after a file was written."""
        if states == ("failed", "cancelled") and next(asked) == 1:
            raise PermissionError("the folder can't be read")
        return list_jobs(connection, *states)

    def check() -> dict[str, Any]:
        return cast(dict[str, Any], exports.app.context.health.report()["checks"][jobs.JOB_NAME])

    wait_for(lambda: check()["state"] == "ok", "the first run")
    monkeypatch.setattr(scheduler, "RETRY_SECONDS", 60)
    monkeypatch.setattr(prepared_exports, "list_in_states", fails_once)
    exports.until("done", exports.ask(ann), ann)
    assert "can't be read" in wait_for(lambda: check()["error"], "the failure")
    exports.until("done", exports.ask(ann, f"{URL},dst"), ann)
    wait_for(lambda: check()["state"] == "ok", "a good run")


def test_a_full_disk_ends_it_with_the_reason(exports: ExportClient, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, ann = Gate(monkeypatch), exports.person("ann")
    gate.free = 1000
    gate.open.set()
    where = exports.ask(ann)
    assert "disk is nearly full" in exports.until("failed", where, ann)["error"]


def test_files_go_after_their_days_and_the_oldest_beyond_the_budget(exports: ExportClient) -> None:
    ann = exports.person("ann")
    first = exports.ask(ann)
    size = exports.until("done", first, ann)["bytes"]
    second = exports.ask(ann, URL + "&from=2001-01-01")
    exports.until("done", second, ann)
    exports.restart(exports__max_gb=str(1.5 * size / 1e9))
    wait_for(lambda: exports.client.get(first, headers=ann).status_code == 404, "the first to be removed")
    assert exports.client.get(first, headers=ann).status_code == 404
    assert exports.client.get(second, headers=ann).status_code == 200
    exports.app.clock.advance(days=7, seconds=1)
    exports.preparer.run()
    with exports.app.app_db.read() as connection:
        assert prepared_exports.list_in_states(connection, "done") == []
    assert not os.listdir(Path(exports.app.context.settings.storage.data_dir) / "prepared")


def test_memory_does_not_grow_with_the_rows(exports: ExportClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer gives each batch away before it takes the next: no more than one is alive."""
    steps: list[str] = []

    def write(connection: Connection, found: ExportQuery, *_: object) -> None:
        for batch in found.fetch_batches(connection, batch_size=5):
            steps.append(f"{len(batch)} read")

    monkeypatch.setitem(FORMATS, "xlsx", replace(FORMATS["xlsx"], write=write))
    selection = export_request.build_selection(exports.app.context, "cdrs", {"columns": "id"})
    jobs.write_export(
        exports.app.context, selection, "xlsx", io.BytesIO(), lambda rows: steps.append(f"{rows} reported")
    )
    assert steps == ["5 read", "5 reported", "5 read", "10 reported", "2 read", "12 reported"]
