"""`switchroom export` beside an open mirror."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from integration.access import audit, people
from integration.cli.export import command
from integration.server.control_channel import ControlChannel
from integration.workspace import saved
from tests.support.application import TestApp
from tests.support.child_processes import Running
from tests.support.fake_exchange import read_fixture

CDR = read_fixture("response-cdrs-list-200")["data"][0]


def variables(data_dir: Path) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "SWITCHROOM_PLATFORM__BASE_URL": "http://127.0.0.1:9/v1.2",
        "SWITCHROOM_PLATFORM__USER_ID": "1",
        "SWITCHROOM_PLATFORM__API_KEY": "a" * 40,
        "SWITCHROOM_STORAGE__DATA_DIR": str(data_dir),
    }


def export_here(data_dir: Path, *arguments: str) -> Result:
    """Run the command in the process of the test, which is faster."""
    return CliRunner().invoke(command, arguments, env=variables(data_dir))


EXPORT_AND_LIST_MODULES = """
import sys
from integration.cli import main
main()
print(*sys.modules, file=sys.stderr)
"""


def test_an_export_beside_a_running_process_imports_no_library_that_it_does_not_use(
    app: TestApp, tmp_path: Path, start: Callable[..., Running]
) -> None:
    app.put("cdrs", CDR)
    channel = ControlChannel(tmp_path, app.context)
    process = start("-c", EXPORT_AND_LIST_MODULES, "export", "cdrs", "--columns", "id", **variables(tmp_path))
    status = process.ended()
    channel.close(1.0)
    assert (status, process.out) == (0, ['"id"', "700000001"])
    imported = set(process.err[-1].split())
    assert "integration.exports.formats.csv" in imported
    heavy = {"flask", "jinja2", "werkzeug", "requests", "phonenumbers", "sqlite_utils", "xlsxwriter"}
    heavy |= {"argon2", "pyotp", "rich", "integration.app_schema", "integration.exports.formats.xlsx"}
    assert heavy.isdisjoint(imported)
    assert [entry.what for entry in audit.list_newest(app.app_db)] == ["export"]


def test_an_export_with_a_shared_column_set_is_audited_with_the_name_of_the_user(
    app: TestApp, tmp_path: Path
) -> None:
    app.put("cdrs", CDR, {**CDR, "id": 2, "calldate": "2026-09-04 08:45:55"})
    person = people.create(app.app_db, "ann@example.com", "supervisor")
    saved.save(app.app_db, saved.COLUMN_SETS, "cdrs", person.id, "for tax", "dst,id", shared=True)
    done = export_here(tmp_path, "cdrs", "--set", "for tax", "--from", "2026-09-02", "--to", "2026-09-03")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == '"dst","id"\n"447700900101",700000001\n'
    entry = audit.list_newest(app.app_db)[0]
    assert entry.who == f"command line ({pwd.getpwuid(os.getuid()).pw_name})"
    assert (entry.what, entry.about, entry.result) == ("export", "cdrs-2026-09-02.csv", "1 rows")


def test_count_prints_the_number_of_rows_without_an_audit_entry(app: TestApp, tmp_path: Path) -> None:
    app.put("cdrs", CDR, {**CDR, "id": 2})
    done = export_here(tmp_path, "cdrs", "--count")
    assert (done.exit_code, done.stdout) == (0, "2\n")
    assert audit.list_newest(app.app_db) == []


def test_an_export_that_cannot_be_audited_fails_without_output(app: TestApp, tmp_path: Path) -> None:
    app.put("cdrs", CDR)
    app.app_db.write(lambda tx: tx.execute("DROP TABLE audit"))
    app.app_db.write(lambda tx: tx.execute("CREATE VIEW audit AS SELECT 1 AS id"))
    done = export_here(tmp_path, "cdrs")
    assert (done.exit_code, done.stdout) == (1, "")


def test_a_file_is_written_and_no_partial_file_is_left(app: TestApp, tmp_path: Path) -> None:
    app.put("cdrs", CDR)
    out = tmp_path / "cdrs.jsonl"
    done = export_here(tmp_path, "cdrs", "--format", "jsonl", "--out", str(out))
    assert (done.exit_code, done.stdout) == (0, "")
    assert out.read_text().startswith('{"id":700000001,')
    assert list(tmp_path.glob(".*part")) == []


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (("cdrs", "--separator", "|"), "|"),
        (("nothing",), "nothing"),
        (("cdrs", "--columns", "nope"), "nope"),
        (("cdrs", "--filter", "{"), "JSON"),
        (("cdrs", "--tz", "Mars"), "Mars"),
        (("cdrs", "--set", "unknown set"), "unknown set"),
        (("cdrs", "--format", "pdf"), "pdf"),
    ],
)
def test_an_invalid_argument_is_named_and_exits_with_2(
    app: TestApp, tmp_path: Path, arguments: tuple[str, ...], value: str
) -> None:
    done = export_here(tmp_path, *arguments)
    assert done.exit_code == 2
    assert value in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_without_a_mirror_the_error_advises_a_sync(tmp_path: Path) -> None:
    done = export_here(tmp_path, "cdrs")
    assert done.exit_code == 1
    assert "switchroom sync" in done.stderr
