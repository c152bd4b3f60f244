"""Commands for local data need no platform credentials; `--json`, `--quiet` and completion."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from integration.cli import group
from integration.settings.data_dir_secrets import ACCOUNT_FILE
from tests.events.conftest import sign
from tests.support.scripted_server import Server

BASE_URL = "http://127.0.0.1:9/v1.2"


@pytest.fixture
def run(home, monkeypatch):
    """Function that runs a command without platform credentials."""
    account = json.dumps({"base_url": "http://127.0.0.1:9", "account": "1000001"})
    (home.data_dir / ACCOUNT_FILE).write_text(account)
    environment = home.environment(platform__base_url=BASE_URL)
    for name in ("SWITCHROOM_PLATFORM__USER_ID", "SWITCHROOM_PLATFORM__API_KEY"):
        del environment[name]

    def run(*arguments, status=0, **settings):
        more = {f"SWITCHROOM_{key.upper()}": value for key, value in settings.items()}
        done = CliRunner().invoke(group, arguments, env=environment | more, prog_name="switchroom")
        assert done.exit_code == status, (done.output, done.exception)
        return done

    return run


@pytest.mark.parametrize(
    "arguments", [("sync",), ("serve",), ("verify", "--coverage"), ("verify", "--media")]
)
def test_a_command_for_the_platform_needs_credentials(home, arguments):
    environment = {
        **home.environment(),
        "SWITCHROOM_PLATFORM__USER_ID": "",
        "SWITCHROOM_PLATFORM__API_KEY": "",
    }
    done = CliRunner().invoke(group, arguments, env=environment, prog_name="switchroom")
    assert "platform.api_key: no credentials" in str(done.exception)


def test_data_of_another_platform_is_refused_without_credentials(run, home):
    done = run("key", "add", "crm", "--scope", "read", status=1, platform__base_url="https://api.example.com")
    assert "holds account 1000001 of http://127.0.0.1:9" in str(done.exception)
    assert "1000001" in (home.data_dir / ACCOUNT_FILE).read_text()


def test_a_command_names_the_data_dir_that_it_creates(run, tmp_path):
    folder = tmp_path / "mistyped"
    first = run("key", "add", "crm", "--scope", "read", storage__data_dir=str(folder))
    second = run("key", "add", "erp", "--scope", "read", storage__data_dir=str(folder))
    assert f"storage.data_dir: {folder} did not exist and is created" in first.stderr
    assert "is created" not in second.stderr


SHAPES = {
    ("key", "list"): {"keys": [
        "name", "user_id", "scope", "rights", "collections", "platform_user_id", "networks",
        "requests_per_minute", "created_at", "expires_at", "last_used_at", "last_used_from",
    ]},
    ("events", "list"): {"webhooks": [
        "name", "url", "kinds", "state", "created_at", "delivered_at", "failing_since", "next_at",
        "anonymous", "error",
    ]},
    ("user", "list"): {"users": [
        "email", "role", "rights", "platform_user_id", "last_login_at", "has_password",
    ]},
    ("hold", "--list"): {"holds": ["what", "kind", "since", "by", "reason"]},
    ("schedules",): {"schedules": []},
    ("catalogue",): {"operations": ["module", "method", "path", "answers", "facade", "mirror", "about"]},
    ("verify", "--quick"): {"complete": None, "findings": [], "files": None, "notes": []},
    ("export", "cdrs", "--count"): {"export": None, "rows": None},
    ("replay",): {"applied": None, "failed": None},
    ("erase", "+442079460001"): {
        "number": None, "stored": None, "held": None, "copies": [], "backups": [], "refusal": None,
    },
    ("upgrade", "--check"): {"version": None, "changes": []},
    ("backup", "copies"): {"path": None, "files": None, "bytes": None, "hard_links": None, "notes": []},
}  # fmt: skip
"""Fields of each result; a list has the fields of its first entry, [] if the list is empty."""


def test_json_is_one_object_with_the_documented_fields(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("key", "add", "crm", "--scope", "read")
    run("user", "add", "ann@example.com", "--role", "admin")
    run("hold", "+447700900123", "--reason", "case 7")
    run("events", "add", "crm", "https://crm.example.com/hook", "--kinds", "call.ended")
    assert run("user", "list").stdout.splitlines()[1].split() == [
        "ann@example.com",
        "admin",
        "export,recordings",
        "-",
        "-",
        "no",
    ]
    shapes = {}
    for arguments in SHAPES:
        document = json.loads(run(*arguments, "--json").stdout)
        shapes[arguments] = {
            name: list(value[0] if value else ()) if isinstance(value, list) else None
            for name, value in document.items()
        }
    assert shapes == SHAPES


def test_quiet_omits_messages_and_keeps_results(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "files," in run("backup", "one").stderr
    quiet = run("backup", "two", "--quiet")
    assert quiet.stderr == ""
    assert quiet.stdout.startswith("two/")
    assert run("key", "add", "crm", "--scope", "read", "--quiet").stdout.count(":") == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_script_of_a_shell(shell):
    done = CliRunner().invoke(group, ["completion", shell], prog_name="switchroom")
    assert done.exit_code == 0
    assert f"_SWITCHROOM_COMPLETE={shell}_complete" in done.stdout
    assert "switchroom" in done.stdout


@pytest.mark.parametrize(
    ("words", "position", "expected"),
    [
        ("switchroom ex", 1, ["export"]),
        ("switchroom sync vo", 2, ["voicemessages"]),
        ("switchroom export call-", 2, ["call-history"]),
        ("switchroom export cdrs --format ", 4, ["csv", "xlsx", "parquet", "jsonl", "zip"]),
        ("switchroom verify --coverage monit", 3, ["monitors"]),
        ("switchroom user ", 2, ["add", "change", "list", "passwd", "remove", "remove-second-factor"]),
        ("switchroom completion z", 2, ["zsh"]),
    ],
)
def test_commands_names_and_formats_are_completed(words, position, expected):
    environment = {
        "_SWITCHROOM_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(position),
    }
    done = CliRunner().invoke(
        group,
        [],
        prog_name="switchroom",
        env=environment,
        standalone_mode=True,
        complete_var="_SWITCHROOM_COMPLETE",
    )
    assert [line.partition(",")[2] for line in done.stdout.splitlines()] == expected


def test_an_outgoing_webhook_is_added_tested_rotated_and_removed(run):
    def events(*arguments, **options):
        return run("events", *arguments, **options, outgoing__allow_hosts="127.0.0.1")

    receiver = Server()
    receiver.routes["*"] = lambda _, reply: reply.json({}, status)
    status = 200
    secret = events(
        "add", "crm", f"{receiver.url}/hook", "--kinds", "call.ended, call.updated"
    ).stdout.strip()
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", secret)
    assert "accepted the test with 200" in events("test", "CRM").stderr
    assert receiver.requests[0].headers["webhook-signature"] == sign(receiver.requests[0], secret)
    status = 500
    assert "127.0.0.1 returned 500" in events("test", "crm", status=1).stderr
    (listed,) = json.loads(events("list", "--json").stdout)["webhooks"]
    assert (listed["name"], listed["kinds"], listed["state"]) == (
        "crm",
        ["call.ended", "call.updated"],
        "enabled",
    )
    assert secret not in events("list").stdout
    assert events("rotate", "crm").stdout.strip() not in ("", secret)
    assert "0 of 0 events" in events("replay", "crm", "--from", "2026-10-01").stderr
    events("enable", "crm")
    assert "No failed event waits" in str(events("skip", "crm", status=1).exception)
    events("remove", "crm")
    assert "There is no outgoing webhook 'crm'" in str(events("test", "crm", status=1).exception)
    receiver.close()
