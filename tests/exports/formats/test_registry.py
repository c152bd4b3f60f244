"""A test format in FORMATS: routes, jobs, pages and command line."""

from __future__ import annotations

import importlib
import re
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from click.testing import CliRunner

from integration.access import people, sessions
from integration.exports import jobs
from integration.exports.formats import FORMATS
from integration.exports.formats.format import Format
from integration.exports.query import ExportQuery, ExportStream
from integration.exports.selection import Selection
from tests.cli.test_export import variables
from tests.support.application import Browser, TestApp, running_app
from tests.support.harness import wait_for

ROOT = Path(__file__).parents[3]
BACKGROUND_ABOVE = 2


def write_chunks(connection: sqlite3.Connection, export_query: ExportQuery) -> Iterator[bytes]:
    for batch in export_query.fetch_batches(connection):
        yield "".join("\t".join(map(str, row)) + "\n" for row in batch).encode()


def write(
    connection: sqlite3.Connection, export_query: ExportQuery, selection: Selection, file: IO[bytes]
) -> None:
    file.writelines(write_chunks(connection, export_query))


TSV = Format(
    suffix="tsv",
    mime="text/tab-separated-values",
    label="Tabs",
    hint="Values between tabs",
    stream=lambda read, selection, _options: ExportStream(read, selection, write_chunks),
    order=25,
    background_above=BACKGROUND_ABOVE,
    write=write,
)


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestApp]:
    monkeypatch.setitem(FORMATS, TSV.suffix, TSV)
    with running_app(tmp_path) as app:
        app.context.export_runner.schedule()
        app.context.scheduler.start()
        numbers = range(1, BACKGROUND_ABOVE + 2)
        app.put("contacts", *({"id": number, "first_name": f"Grace {number}"} for number in numbers))
        app.put("ddis", {"id": 1})
        yield app


@pytest.fixture
def supervisor(app: TestApp) -> Browser:
    person = people.create(app.app_db, "bob@example.com", "supervisor", password_hash="x")
    return Browser(app.url, sessions.create(app.app_db, person.id))


def test_route_serves_the_format(supervisor: Browser) -> None:
    response = supervisor.get("/exports/ddis.tsv?columns=id")
    assert (response.status_code, response.content) == (200, b"1\n")
    assert response.headers["Content-Type"] == "text/tab-separated-values"
    assert response.headers["Content-Disposition"] == 'attachment; filename="ddis.tsv"'


def test_job_prepares_a_large_selection_in_the_format(supervisor: Browser) -> None:
    page = supervisor.get("/exports/contacts.tsv?columns=id,first_name")
    assert page.url.endswith("/exports")
    assert "Tabs" in page.text

    def find_link() -> list[str]:
        return re.findall(r'href="(/exports/prepared/\d+/file)"', supervisor.get("/exports").text)

    file = supervisor.get(wait_for(find_link, "the file")[0])
    assert file.content == b"1\tGrace 1\n2\tGrace 2\n3\tGrace 3\n"
    assert file.headers["Content-Type"].startswith("text/tab-separated-values")


def test_pages_offer_the_format_in_its_order(supervisor: Browser) -> None:
    page = supervisor.get("/export/ddis").text
    suffixes = re.findall(r'formaction="/exports/ddis\.(\w+)" title', page)
    assert suffixes[:5] == ["xlsx", "csv", "csv", "tsv", "jsonl"]
    assert 'title="Values between tabs"' in page


def test_schedule_form_offers_and_accepts_the_format(app: TestApp, supervisor: Browser) -> None:
    assert '<option value="tsv">Tabs</option>' in supervisor.get("/exports/schedules/new?export=ddis").text
    supervisor.post(
        "/exports/schedules/new", export="ddis", name="Numbers", form="tsv", every="day", at="06:00",
        zone="Europe/London", target="folder", place="numbers", wait_hours="6", otherwise="incomplete",
    )  # fmt: skip
    with app.app_db.read() as connection:
        (schedule,) = jobs.list_schedules(connection)
    assert schedule.form == "tsv"


def test_command_exports_the_format(app: TestApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The command reads its choices when it is imported.
    monkeypatch.delitem(sys.modules, "integration.cli.export", raising=False)
    command = importlib.import_module("integration.cli.export").command
    arguments = ["contacts", "--columns", "id", "--format", "tsv"]
    result = CliRunner().invoke(command, arguments, env=variables(tmp_path))
    assert (result.exit_code, result.stdout) == (0, "1\n2\n3\n"), result.output


def test_manual_lists_every_format() -> None:
    section = (ROOT / "docs" / "exports.md").read_text().split("## Formats")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == set(FORMATS)


def test_background_format_needs_a_writer() -> None:
    with pytest.raises(ValueError, match="tsv"):
        Format("tsv", "text/plain", "Tabs", "", TSV.stream, 1, background_above=1)
