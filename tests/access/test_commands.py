from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from integration.access import audit, keys, people, setup_links
from integration.app_schema import open_app_db
from integration.cli import group
from integration.core import process_lock
from integration.core.errors import ConfigurationError, SwitchroomError
from integration.server.control_channel import ControlChannel
from integration.settings.model import load
from integration.sqlite.database import Database

Run = Callable[..., Result]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(
        '[platform]\nbase_url = "https://api.example.com/v1.2"\nuser_id = "100001"\napi_key = "k"\n'
        '[server]\npublic_url = "https://switchroom.example.com"\n'
        f'[storage]\ndata_dir = "{tmp_path}"\n'
    )
    return path


@pytest.fixture
def run(config: Path) -> Run:
    def run(*words: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(group, [*words, "--config", str(config)], input=stdin)

    return run


@pytest.fixture
def running_process(config: Path, tmp_path: Path) -> Iterator[Database]:
    """Running process that executes commands, without routes: its house.db.

    A command without a running process builds the application, which takes 0.15 s.
    """
    app_db = open_app_db(tmp_path / "house.db")
    with process_lock.acquire(tmp_path, "serve"):
        channel = ControlChannel(tmp_path, SimpleNamespace(settings=load(config, {}), app_db=app_db))
        yield app_db
        channel.close(1)
    app_db.close()


def test_user_add_prints_only_the_setup_link(run: Run, tmp_path: Path) -> None:
    done = run("user", "add", "Ann@example.com", "--role", "admin")
    assert done.exit_code == 0, done.output
    link = re.fullmatch(r"https://switchroom\.example\.com/setup/(\S{43})\n", done.stdout)
    assert link is not None
    app_db = open_app_db(tmp_path / "house.db")
    found = setup_links.find(app_db, link[1])
    assert found is not None
    assert found.person is not None
    assert found.person.email == "ann@example.com"
    app_db.close()


def test_password_is_read_from_standard_input_and_never_printed(run: Run, tmp_path: Path) -> None:
    done = run(
        "user", "add", "ann@example.com", "--role", "agent", "--password-stdin", stdin="correct horse b\n"
    )
    assert (done.exit_code, done.stdout) == (0, "")
    assert "correct horse" not in done.output
    app_db = open_app_db(tmp_path / "house.db")
    assert people.authenticate(app_db, "ann@example.com", "correct horse b") is not None
    app_db.close()
    done = run("user", "passwd", "ann@example.com", "--password-stdin", stdin="another good one")
    assert done.exit_code == 0
    app_db = open_app_db(tmp_path / "house.db")
    assert people.authenticate(app_db, "ann@example.com", "another good one") is not None
    assert [entry.what for entry in audit.list_newest(app_db)] == ["password set", "user added"]
    app_db.close()


@pytest.mark.usefixtures("running_process")
def test_dashboard_users_are_listed_changed_and_removed(run: Run) -> None:
    assert run("user", "list").stdout.split() == [
        *("EMAIL", "ROLE", "RIGHTS", "PLATFORM", "USER", "ID", "LAST", "LOGIN", "AT", "HAS", "PASSWORD"),
    ]
    run("user", "add", "ann@example.com", "--role", "admin")
    run("user", "add", "ben@example.com", "--role", "viewer", "--user", "412345")
    changed = run(
        "user", "change", "ben@example.com", "--role", "agent", "--grant", "export", "--deny", "recordings"
    )
    assert changed.exit_code == 0, changed.output
    ben = run("user", "list").stdout.splitlines()[2].split()
    assert ben[:4] == ["ben@example.com", "agent", "export", "412345"]
    assert run("user", "remove", "ben@example.com").exit_code == 0
    assert "ben@" not in run("user", "list").stdout
    last = run("user", "remove", "ann@example.com")
    assert isinstance(last.exception, SwitchroomError)
    assert "last administrator" in str(last.exception)


def test_key_add_prints_only_the_key_and_revoke_removes_it(run: Run, tmp_path: Path) -> None:
    done = run(
        "key",
        "add",
        "crm",
        "--scope",
        "read",
        "--collections",
        "cdrs,sms_cannedresponses",
        "--user",
        "412345",
    )
    printed = re.fullmatch(r"([0-9]{7}):([a-f0-9]{40})\n", done.stdout)
    assert printed is not None, done.output
    app_db = open_app_db(tmp_path / "house.db")
    key = keys.authenticate(app_db, printed[1], printed[2])
    app_db.close()
    assert key is not None
    assert key.collections == ("cdrs", "sms/cannedresponses")
    assert key.platform_user_id == 412345
    listed = run("key", "list").stdout
    assert "crm" in listed
    assert printed[2] not in listed
    assert run("key", "revoke", "crm").exit_code == 0
    assert "crm" not in run("key", "list").stdout


@pytest.mark.usefixtures("running_process")
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("user", "add", "no address", "--role", "agent"), "is not an e-mail address"),
        (("user", "passwd", "nobody@example.com"), "No dashboard user has the e-mail address"),
        (("user", "remove", "nobody@example.com"), "No dashboard user has the e-mail address"),
        (("key", "add", "crm", "--scope", "read", "--collections", "cdr5"), "did you mean"),
        (("key", "revoke", "crm"), "no key"),
    ],
)
def test_invalid_request_is_an_error_with_the_reason(run: Run, words: tuple[str, ...], problem: str) -> None:
    done = run(*words)
    assert isinstance(done.exception, SwitchroomError)
    assert problem in str(done.exception)


def test_wrong_usage_exits_with_2(run: Run) -> None:
    assert run("user", "add", "ann@example.com").exit_code == 2
    assert run("user", "add", "ann@example.com", "--role", "boss").exit_code == 2
    assert run("key", "add", "crm", "--scope", "all").exit_code == 2
    short = run("user", "add", "ann@example.com", "--role", "agent", "--password-stdin", stdin="short")
    assert isinstance(short.exception, ConfigurationError)


def test_list_commands_create_no_database(run: Run, tmp_path: Path) -> None:
    run("user", "list")
    run("key", "list")
    assert not (tmp_path / "house.db").exists()
