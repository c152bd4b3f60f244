"""Upgrade of data_dir: copy, way back, refusal, `upgrade --check`."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from integration import __version__
from integration.app_schema import open_app_db
from integration.cli import restore as restore_command
from integration.cli import upgrade as upgrade_command
from integration.core.errors import NewerDatabase, StorageError
from tests.release.schemas import FOLDER
from tests.support.application import DEFAULTS, running_app

COPY = f"before-{__version__}"
STEPS_OF_0_1_0 = {
    "house.db": {"0001 first form"},
    "mirror.db": {"walks tell more", "triggers of calls without conflict clauses"},
    "inbox.db": set[str](),
}
"""Migration steps that version 0.1.0 (commit aea7251) has."""
NEXT_MINOR = "1.999.0"


def make_data_dir(data_dir: Path, version: str = "0.0.0") -> Path:
    """Create the databases of a release, with a webhook and a recording.

    There is no version record.
    """
    data_dir.mkdir()
    for path in (FOLDER / version).iterdir():
        with closing(sqlite3.connect(data_dir / f"{path.stem}.db")) as connection:
            connection.executescript(path.read_text())
    recording = data_dir / "recordings" / "2026" / "1.mp3"
    recording.parent.mkdir(parents=True)
    recording.write_bytes(b"sound")
    store_webhook(data_dir, "before")
    return data_dir


def store_webhook(data_dir: Path, event_id: str) -> None:
    with closing(sqlite3.connect(data_dir / "inbox.db")) as connection, connection:
        connection.execute(
            "INSERT INTO inbox (event_id, received_at, body, body_hash)"
            " VALUES (?, '2026-01-01 00:00:00', x'7b7d', x'01')",
            (event_id,),
        )


def read_steps_unknown_to_0_1_0(path: Path) -> set[str]:
    """Return the names for which version 0.1.0 refuses a database, as its statement finds them.

    Its message is “… (it knows NAME); start that one”.
    """
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS _migrations (name TEXT PRIMARY KEY, at TEXT NOT NULL)")
        return {row[0] for row in connection.execute("SELECT name FROM _migrations")} - STEPS_OF_0_1_0[
            path.name
        ]


def list_webhooks(data_dir: Path) -> list[str]:
    with closing(sqlite3.connect(data_dir / "inbox.db")) as connection:
        return [row[0] for row in connection.execute("SELECT event_id FROM inbox ORDER BY seq")]


def read_app_tables(folder: Path) -> set[str]:
    with closing(sqlite3.connect(f"{(folder / 'house.db').as_uri()}?mode=ro", uri=True)) as connection:
        return {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


def start_once(data_dir: Path) -> None:
    with running_app(data_dir):
        pass


def run(command: object, data_dir: Path, *arguments: str) -> Result:
    environment = {f"SWITCHROOM_{key.upper()}": value for key, value in DEFAULTS.items()}
    environment |= {"SWITCHROOM_STORAGE__DATA_DIR": str(data_dir), "SWITCHROOM_CONFIG": "/dev/null"}
    return CliRunner(env=environment).invoke(command.command, arguments)


def record_version(data_dir: Path, version: str) -> None:
    (data_dir / "version.json").write_text(json.dumps({"version": version}))


def read_version(data_dir: Path) -> str:
    return str(json.loads((data_dir / "version.json").read_text())["version"])


def test_the_first_start_copies_the_databases_before_it_migrates_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data_dir = make_data_dir(tmp_path / "data")
    old_tables = read_app_tables(data_dir)
    start_once(data_dir)
    copy = data_dir / "backups" / COPY
    assert sorted(path.name for path in copy.iterdir()) == [
        "house.db", "inbox.db", "manifest.json", "mirror.db"
    ]  # fmt: skip
    assert read_app_tables(copy) == old_tables
    assert list_webhooks(copy) == ["before"]
    assert read_app_tables(data_dir) - old_tables, "new tables"
    assert read_version(data_dir) == __version__
    printed = capsys.readouterr().err
    assert f"switchroom restore {copy} --replace" in printed
    assert "start Switchroom 0.1.0" in printed
    made_at = copy.stat().st_mtime_ns
    start_once(data_dir)
    assert copy.stat().st_mtime_ns == made_at
    assert capsys.readouterr().err == ""


def test_a_first_start_after_a_first_user_copies_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    open_app_db(data_dir / "house.db").close()  # as `user add` does
    start_once(data_dir)
    assert not (data_dir / "backups" / COPY).exists()
    assert "not copied" not in caplog.text
    assert read_version(data_dir) == __version__


def test_a_start_after_a_killed_migration_keeps_the_copy(tmp_path: Path) -> None:
    data_dir = make_data_dir(tmp_path / "data")
    start_once(data_dir)
    copy = data_dir / "backups" / COPY
    old_tables = read_app_tables(copy)
    # As if the process was killed after the migration of house.db.
    with closing(sqlite3.connect(data_dir / "mirror.db")) as connection, connection:
        connection.execute("DELETE FROM _sqlite_migrations WHERE name = 'links of item forms'")
    start_once(data_dir)
    assert read_app_tables(copy) == old_tables


def test_restore_goes_back_and_keeps_new_webhooks_and_the_archive(tmp_path: Path) -> None:
    data_dir = make_data_dir(tmp_path / "data")
    old_tables = read_app_tables(data_dir)
    start_once(data_dir)
    store_webhook(data_dir, "after")
    copy = data_dir / "backups" / COPY
    # inbox.db of this version has no step that the older one lacks.
    with closing(sqlite3.connect(copy / "inbox.db")) as connection:
        assert connection.execute("SELECT count(*) FROM _migrations").fetchone() == (0,)
    done = run(restore_command, data_dir, str(copy), "--replace")
    assert done.exit_code == 0, done.output
    assert read_app_tables(data_dir) == old_tables
    assert list_webhooks(data_dir) == ["before", "after"]
    assert not any(read_steps_unknown_to_0_1_0(data_dir / name) for name in STEPS_OF_0_1_0)
    assert (data_dir / "recordings" / "2026" / "1.mp3").read_bytes() == b"sound"
    assert not (data_dir / "version.json").exists()
    assert "Start Switchroom 0.1.0 now" in done.stderr
    (aside,) = data_dir.glob("before-restore-*")
    assert (aside / "house.db").exists()
    # The next start of this version makes a new copy, with what the older one has stored.
    store_webhook(data_dir, "older version")
    start_once(data_dir)
    assert list_webhooks(copy) == ["before", "after", "older version"]


def test_an_older_program_refuses_newer_data_and_names_version_and_way_back(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    start_once(data_dir)
    record_version(data_dir, NEXT_MINOR)
    before = (data_dir / "house.db").read_bytes()
    with pytest.raises(NewerDatabase) as refused:
        start_once(data_dir)
    assert f"was written by Switchroom {NEXT_MINOR}, but this is {__version__}" in str(refused.value)
    assert f"Start Switchroom {NEXT_MINOR} or newer" in str(refused.value)
    assert f"restore a backup that was made before {NEXT_MINOR}" in str(refused.value)
    assert (data_dir / "house.db").read_bytes() == before
    copy = data_dir / "backups" / f"before-{NEXT_MINOR}"
    copy.mkdir(parents=True)
    with pytest.raises(NewerDatabase, match=f"switchroom restore {copy} --replace"):
        start_once(data_dir)


def test_version_0_1_0_refuses_each_database_and_names_the_way_back(tmp_path: Path) -> None:
    for data_dir in (make_data_dir(tmp_path / "upgraded"), tmp_path / "new"):
        for _ in range(2):
            start_once(data_dir)
        for name in STEPS_OF_0_1_0:
            (unknown,) = read_steps_unknown_to_0_1_0(data_dir / name)
            assert unknown.startswith(f"{__version__}: to go back, restore backups/{COPY}"), name
    # The name of the first version of this form stays: its copy has the data of 0.1.0.
    for name in STEPS_OF_0_1_0:
        with closing(sqlite3.connect(data_dir / name)) as connection, connection:
            connection.execute(
                "UPDATE _migrations SET name = '0.9.3: to go back, restore backups/before-0.9.3'"
            )
    start_once(data_dir)
    for name in STEPS_OF_0_1_0:
        assert read_steps_unknown_to_0_1_0(data_dir / name) == {
            "0.9.3: to go back, restore backups/before-0.9.3"
        }
    assert run(upgrade_command, data_dir, "--check").exit_code == 0


def test_a_step_of_a_newer_version_is_refused_with_the_version_to_start(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    start_once(data_dir)
    # The same first two numbers, so only the step shows that the data has another form.
    record_version(data_dir, "1.0.7")
    with closing(sqlite3.connect(data_dir / "house.db")) as connection, connection:
        connection.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
            " VALUES ('house', 'later', '2030')"
        )
    with pytest.raises(NewerDatabase, match=r"Start Switchroom 1\.0\.7 or newer"):
        start_once(data_dir)


@pytest.mark.parametrize(("version", "is_copied"), [("1.0.7", False), ("1.0.0rc1", True), ("0.9.3", True)])
def test_versions_that_differ_in_the_last_number_share_data(
    version: str, is_copied: bool, tmp_path: Path
) -> None:
    data_dir = tmp_path / "data"
    start_once(data_dir)
    record_version(data_dir, version)
    start_once(data_dir)
    assert read_version(data_dir) == __version__
    assert (data_dir / "backups" / COPY).exists() == is_copied


@pytest.mark.parametrize("content", ["", "{}", '{"version": "newest"}'])
def test_a_damaged_record_is_refused_with_its_form(content: str, tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    start_once(data_dir)
    (data_dir / "version.json").write_text(content)
    with pytest.raises(StorageError, match="must name the version that ran last, like this: "):
        start_once(data_dir)


def test_upgrade_check_lists_what_a_start_would_change_and_changes_nothing(tmp_path: Path) -> None:
    data_dir = make_data_dir(tmp_path / "data")
    content = {path.name: path.read_bytes() for path in data_dir.glob("*.db")}
    shown = run(upgrade_command, data_dir, "--check")
    assert shown.exit_code == 1, shown.output
    lines = shown.stdout.splitlines()
    for line in (
        "house.db: migration step “limits of keys”",
        "mirror.db: migration step “links of item forms”",
        f"the data of Switchroom 0.1.0 becomes that of {__version__}: new tables, columns and indexes are"
        " added",
    ):
        assert line in lines, shown.stdout
    assert lines[-1].startswith(f"{data_dir}/backups/{COPY}: the databases are copied there first (")
    assert {path.name: path.read_bytes() for path in data_dir.glob("*.db")} == content
    start_once(data_dir)
    shown = run(upgrade_command, data_dir, "--check")
    assert (shown.exit_code, shown.stdout) == (0, f"A start of Switchroom {__version__} changes nothing.\n")


def test_upgrade_check_of_an_empty_and_of_a_newer_data_dir(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    assert run(upgrade_command, data_dir, "--check").exit_code == 0
    assert not data_dir.exists()
    start_once(data_dir)
    record_version(data_dir, NEXT_MINOR)
    refused = run(upgrade_command, data_dir, "--check")
    assert isinstance(refused.exception, NewerDatabase)
    assert run(upgrade_command, data_dir).exit_code == 2


def test_the_copy_is_deleted_after_seven_days(tmp_path: Path, movable_clock) -> None:
    data_dir = make_data_dir(tmp_path / "data")
    with running_app(data_dir, clock=movable_clock, storage__keep_before_restore_days="0") as app:
        copy = data_dir / "backups" / COPY
        assert app.product.retention_job.is_needed
        movable_clock.advance(days=6.9)
        app.product.retention_job.run()
        assert copy.exists()
        movable_clock.advance(days=0.2)
        app.product.retention_job.run()
        assert not copy.exists()
