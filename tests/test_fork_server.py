"""Processes of the fork server behave like new interpreters."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import fork_server
from tests.support.harness import NOWHERE, wait_for

APP = [sys.executable, str(fork_server.ROOT / "app.py")]
NEW_INTERPRETER = [sys.executable, "-I", str(fork_server.ROOT / "app.py")]


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["hold", "--help"], marks=pytest.mark.exhaustive),
        ["serve", "--config", "absent.toml"],
    ],
)
def test_status_and_output_are_those_of_a_new_interpreter(tmp_path: Path, arguments: list[str]) -> None:
    forked, new = (
        fork_server.run_process([*program, *arguments], cwd=tmp_path, env=os.environ)
        for program in (APP, NEW_INTERPRETER)
    )
    assert (forked.returncode, forked.stdout, forked.stderr) == (new.returncode, new.stdout, new.stderr)


@pytest.mark.exhaustive
def test_a_forked_process_has_its_own_environment_folder_and_streams(tmp_path: Path) -> None:
    settings = {
        **os.environ,
        "SWITCHROOM_CONFIG": os.devnull,
        "SWITCHROOM_PLATFORM__BASE_URL": NOWHERE,
        "SWITCHROOM_PLATFORM__USER_ID": "1000001",
        "SWITCHROOM_PLATFORM__API_KEY": "0" * 40,
        "SWITCHROOM_STORAGE__DATA_DIR": "relative",
    }
    (tmp_path / "relative").mkdir()
    add = [*APP, "user", "add", "ann@example.com", "--role", "admin", "--password-stdin"]
    added = fork_server.run_process(add, cwd=tmp_path, env=settings, stdin="correct horse battery staple\n")
    assert added.returncode == 0, added.stderr
    listed = fork_server.run_process([*APP, "user", "list"], cwd=tmp_path, env=settings)
    assert (listed.stdout.splitlines()[1].split()[0], listed.stderr) == ("ann@example.com", "")
    assert (tmp_path / "relative" / "house.db").exists()
    elsewhere = fork_server.run_process([*APP, "user", "list"], cwd=Path("/"), env=os.environ)
    assert elsewhere.returncode == 2


def test_a_killed_process_has_the_signal_as_status(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.server.stub_product", str(tmp_path / "data"), "0", "lingers"]
    process = fork_server.start_process(
        program, cwd=fork_server.ROOT, env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert isinstance(process, fork_server.ForkedProcess)
    wait_for((tmp_path / "data" / "lingering").exists, "start of the product")
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait(30) == process.poll() == -signal.SIGKILL


def test_another_pythonpath_starts_a_new_interpreter(tmp_path: Path) -> None:
    process = fork_server.start_process(
        [*APP, "--version"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": "other"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert isinstance(process, subprocess.Popen)
    assert process.communicate(timeout=60)[0]
