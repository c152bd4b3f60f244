"""The restic recipe: backup beside the data, restore elsewhere, verify."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.debian_tools import find_tool
from tests.support.applications.data_dir import DataDir, query_database
from tests.support.harness import ROOT

SCRIPT = ROOT / "deploy" / "restic" / "switchroom-restic"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Environment of the recipe, with a repository in a folder."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "switchroom").write_text(f'#!/bin/sh\nexec {sys.executable} {ROOT}/app.py "$@"\n')
    (programs / "switchroom").chmod(0o755)
    (tmp_path / "password").write_text("correct horse\n")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SWITCHROOM_", "RESTIC_"))}
    return {
        **kept,
        "PATH": f"{programs}:{Path(find_tool('restic')).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "RESTIC_REPOSITORY": str(tmp_path / "repository"),
        "RESTIC_PASSWORD_FILE": str(tmp_path / "password"),
        "RESTIC_STAGING": str(tmp_path / "data" / "restic"),
    }


def run(environment: dict[str, str], *arguments: object) -> subprocess.CompletedProcess[str]:
    words = [str(argument) for argument in arguments]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=240)


@pytest.mark.exhaustive
def test_a_restic_backup_can_be_restored_and_verified(tmp_path: Path, environment: dict[str, str]) -> None:
    home = DataDir(tmp_path)
    home.receive(3)
    home.record(77, b"ID3" + bytes(5000))
    config = tmp_path / "config.toml"
    config.write_text(
        '[platform]\nbase_url = "http://127.0.0.1:9/v1.2"\nuser_id = "1000001"\napi_key = "k"\n'
        f'[storage]\ndata_dir = "{home.data_dir}"\n'
    )
    environment["SWITCHROOM_CONFIG"] = str(config)
    assert run_tool_in(environment, "init").returncode == 0
    for _ in range(2):
        backed_up = run(environment, SCRIPT)
        assert backed_up.returncode == 0, backed_up.stderr + backed_up.stdout
        # Nothing is left beside the data.
        assert list((home.data_dir / "restic").iterdir()) == []
    # Snapshots of one day are one: --keep-daily.
    assert run_tool_in(environment, "snapshots", "--json").stdout.count('"short_id"') == 1
    assert run_tool_in(environment, "check", "--read-data").returncode == 0
    fetched = run(environment, SCRIPT, "fetch", tmp_path / "fetched")
    assert fetched.returncode == 0, fetched.stderr
    folder = fetched.stdout.splitlines()[-1]
    assert Path(folder).is_dir()
    assert (tmp_path / "fetched" / str(config).lstrip("/")).read_text() == config.read_text()
    other = tmp_path / "other"
    environment["SWITCHROOM_STORAGE__DATA_DIR"] = str(other)
    restored = run(environment, "switchroom", "restore", folder)
    assert restored.returncode == 0, restored.stderr
    assert query_database(other / "inbox.db", "SELECT count(*) FROM inbox") == [(3,)]
    assert (other / "recordings/2026/03/01/77.mp3").read_bytes() == b"ID3" + bytes(5000)
    verified = run(environment, "switchroom", "verify")
    assert "damaged" not in verified.stdout + verified.stderr
    # The webhooks of the test were never applied: the next start of `serve` does that.
    findings = [line for line in verified.stdout.splitlines() if "applied" not in line]
    assert findings == [], verified.stdout


def run_tool_in(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(environment, find_tool("restic"), *arguments)


@pytest.mark.exhaustive
def test_a_failed_backup_makes_no_snapshot(tmp_path: Path, environment: dict[str, str]) -> None:
    environment["SWITCHROOM_CONFIG"] = str(tmp_path / "missing.toml")
    assert run_tool_in(environment, "init").returncode == 0
    failed = run(environment, SCRIPT)
    assert failed.returncode == 2
    assert "missing.toml" in failed.stderr
    assert '"short_id"' not in run_tool_in(environment, "snapshots", "--json").stdout
