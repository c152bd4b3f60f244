"""Command line: help, exit statuses and error lines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from integration import __version__
from integration.cli import COMMANDS
from tests.support.child_processes import ROOT, Running

Start = Callable[..., Running]
APP = ROOT / "app.py"


def test_help_lists_all_commands_without_importing_them(start: Start) -> None:
    overview = start("-X", "importtime", APP, "--help")
    assert overview.ended() == 0
    assert re.findall(r"^  ([a-z]+)  ", "\n".join(overview.out), re.MULTILINE) == list(COMMANDS)
    imported = "\n".join(overview.err)
    assert "integration.cli" in imported
    assert not re.search(
        r"\b(flask|granian|requests|apscheduler|rich|integration\.cli\.(?!console)\w+)\b", imported
    )


HELP_OF_EACH_COMMAND = """
import contextlib, io, sys
from integration.cli import COMMANDS, group
with contextlib.redirect_stdout(io.StringIO()):
    for name in COMMANDS:
        group.main([name, "--help"], standalone_mode=False)
print(*sys.modules)
"""


def test_help_of_each_command_imports_only_what_its_options_need(start: Start) -> None:
    help_texts = start("-c", HELP_OF_EACH_COMMAND)
    assert help_texts.ended() == 0, help_texts.err
    heavy = {
        "flask",
        "jinja2",
        "werkzeug",
        "requests",
        "phonenumbers",
        "sqlite_utils",
        "xlsxwriter",
    }
    heavy |= {"granian", "apscheduler", "rich", "pyarrow", "integration.factory", "integration.app_schema"}
    assert heavy.isdisjoint(help_texts.out[0].split())


def test_the_supervisor_does_not_import_libraries_of_the_worker(start: Start) -> None:
    loaded = start("-c", "import sys, integration.server.supervisor; print(*sys.modules)")
    assert loaded.ended() == 0
    heavy = {"flask", "jinja2", "requests", "apscheduler", "phonenumbers", "sqlite3", "prometheus_client"}
    heavy |= {"sqlite_utils", "pandas", "numpy", "rich"}
    assert heavy.isdisjoint(loaded.out[0].split())


def test_an_export_imports_neither_flask_nor_requests(start: Start) -> None:
    modules = "integration.cli.export, integration.app_schema, integration.exports.export_request"
    loaded = start("-c", f"import sys, {modules}; print(*sys.modules)")
    assert loaded.ended() == 0
    assert {"flask", "jinja2", "requests", "urllib3"}.isdisjoint(loaded.out[0].split())


def test_version_prints_the_version_and_the_commit(start: Start) -> None:
    version = start(APP, "--version")
    assert version.ended() == 0
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert version.out == [f"switchroom {__version__} (commit {head.stdout[:12]})"]


@pytest.mark.parametrize("arguments", [["nonsense"], ["serve", "--nonsense"], ["demo", "--speed", "0"]])
def test_a_usage_error_exits_with_2(start: Start, arguments: list[str]) -> None:
    wrong = start(APP, *arguments)
    assert wrong.ended() == 2
    assert wrong.err[-1].startswith("Error: ")
    assert wrong.out == []


def test_a_configuration_error_exits_with_2_and_a_line_for_each_mistake(start: Start, tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text("[server]\nport = 'x'\n[surprise]\n")
    wrong = start(APP, "serve", "--config", config, SWITCHROOM_SMTP__PROT="1")
    assert wrong.ended() == 2
    assert sorted(line.split(": ")[1].split(" ")[0] for line in wrong.err) == [
        "SWITCHROOM_SMTP__PROT",
        "platform.api_key",
        "platform.base_url",
        "server.port",
        "surprise",
    ]


def test_line_breaks_in_an_error_are_escaped(start: Start) -> None:
    wrong = start(APP, "serve", "--config", "absent\nforged: line\x1b[2J.toml")
    assert wrong.ended() == 2
    assert wrong.err == [
        "switchroom: absent\\nforged: line\\x1b[2J.toml: cannot be read: No such file or directory"
    ]


def test_a_closed_output_pipe_causes_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, str(APP), "--help"], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert done.stderr == ""
