"""The unit, the user and the folders of deploy/systemd."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from integration.core.errors import ConfigurationError
from integration.server import supervisor, worker
from integration.settings.model import Server, load
from tests.deploy.debian_tools import find_tool, run_tool
from tests.support.child_processes import get
from tests.support.harness import ROOT, keep_port, wait_for

FOLDER = ROOT / "deploy"
UNITS = [
    "systemd/switchroom.service",
    "systemd/switchroom.socket",
    "restic/switchroom-restic.service",
    "restic/switchroom-restic.timer",
]
DESCRIPTION = "Description=Switchroom, local copy and dashboard of a hosted phone system"
DATA_DIR = "Environment=SWITCHROOM_STORAGE__DATA_DIR=/var/lib/switchroom"
STUB = [sys.executable, "-m", "tests.server.stub_product"]
MAX_EXPOSURE = 2.0
"""Largest exposure of `systemd-analyze security`. Without hardening it is 9.2."""


def read_unit(name: str) -> dict[str, dict[str, list[str]]]:
    """Return the values by section and key."""
    sections: dict[str, dict[str, list[str]]] = {}
    for line in (FOLDER / name).read_text().splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
        elif "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            section.setdefault(key, []).append(value)
    return sections


def write_executable(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def make_instance_unit() -> str:
    """Return `switchroom@.service`."""
    sources = FOLDER / "systemd/instance.sed", FOLDER / "systemd/switchroom.service"
    return run_tool("sed", "-f", *sources).stdout


def test_an_instance_has_settings_and_data_of_its_own() -> None:
    single = (FOLDER / "systemd/switchroom.service").read_text().splitlines()
    changed = [
        pair for pair in zip(make_instance_unit().splitlines(), single, strict=True) if pair[0] != pair[1]
    ]
    command = "/opt/switchroom/bin/switchroom serve --config /etc/switchroom"
    assert [pair for pair in changed if not pair[0].startswith("#")] == [
        (f"{DESCRIPTION} (%i)", DESCRIPTION),
        (f"ExecStart={command}/%i.toml", f"ExecStart={command}/config.toml"),
        (f"{DATA_DIR}/%i", DATA_DIR),
        ("StateDirectory=switchroom/%i", "StateDirectory=switchroom"),
    ]


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    # Programs and environment file are those of an installation: here they are below tmp_path.
    paths = []
    texts = {Path(name).name: (FOLDER / name).read_text() for name in UNITS}
    texts["switchroom@london.service"] = make_instance_unit()
    for name, text in texts.items():
        text = re.sub(r"=(/opt/switchroom/bin/switchroom|/usr/local/bin/\S+)", rf"={tmp_path}\1", text)
        for program in re.findall(rf"^ExecStart=({tmp_path}\S+)", text, re.M):
            write_executable(Path(program))
        path = tmp_path / name
        path.write_text(text)
        paths.append(path)
    checked = run_tool("systemd-analyze", "verify", "--man=no", *paths)
    assert checked.returncode == 0, checked.stderr
    assert str(tmp_path) not in checked.stderr


def test_the_hardening_is_good(tmp_path: Path) -> None:
    checked = run_tool(
        "systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={MAX_EXPOSURE * 10:.0f}",
        FOLDER / "systemd/switchroom.service",
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout
    assert (
        float(re.findall(r"exposure level for switchroom.service: (\S+)", checked.stdout)[0]) < MAX_EXPOSURE
    )


def test_the_user_is_created(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    created = run_tool("systemd-sysusers", f"--root={tmp_path}", FOLDER / "systemd/switchroom.sysusers.conf")
    assert created.returncode == 0, created.stderr
    entry = (tmp_path / "etc/passwd").read_text().strip().split(":")
    assert (entry[0], *entry[5:]) == ("switchroom", "/var/lib/switchroom", "/usr/sbin/nologin")


def test_the_unit_and_the_product_agree(tmp_path: Path) -> None:
    service = read_unit("systemd/switchroom.service")["Service"]
    assert service["Type"] == ["notify"]
    # The supervisor waits KILL_SECONDS before it kills its worker.
    assert int(service["TimeoutStopSec"][0]) > supervisor.KILL_SECONDS > worker.DRAIN_SECONDS
    # A stop request to the worker would end it before its supervisor has asked it to.
    assert service["KillMode"] == ["mixed"]
    assert service["RestartPreventExitStatus"] == ["2"]
    with pytest.raises(ConfigurationError):
        load(None, {"SWITCHROOM_SERVER__PORT": "no number"})
    (variable,) = service["Environment"]
    name, _, data_dir = variable.partition("=")
    platform = {
        "SWITCHROOM_PLATFORM__BASE_URL": "https://api.example.com/v1.2",
        "SWITCHROOM_PLATFORM__USER_ID": "100001",
        "SWITCHROOM_PLATFORM__API_KEY": "k",
    }
    assert str(load(None, {**platform, name: data_dir}).storage.data_dir) == data_dir
    assert data_dir == f"/var/lib/{service['StateDirectory'][0]}"
    # Granian raises the limit of files to 65536 itself, if the unit allows it.
    assert service["LimitNOFILE"] == ["65536"]


def test_the_socket_has_the_default_address_and_systemd_hands_it_over(tmp_path: Path) -> None:
    (address,) = read_unit("systemd/switchroom.socket")["Socket"]["ListenStream"]
    assert address == f"{Server().host}:{Server().port}"
    with keep_port() as kept:
        port = kept.getsockname()[1]
    activate = [find_tool("systemd-socket-activate"), f"--listen=127.0.0.1:{port}"]
    with subprocess.Popen([*activate, *STUB, tmp_path, "0"], cwd=ROOT) as activated:
        # The first connection starts the program, and waits for it.
        supervisor = wait_for(lambda: get(port).split()[1], "a response")
        activated.terminate()
    assert (supervisor, activated.returncode) == (str(activated.pid), 0)


def test_connections_wait_on_a_handed_socket_while_the_service_restarts(tmp_path: Path) -> None:
    hand_over = (
        "import os, sys; os.dup2(int(sys.argv[1]), 3);"
        "os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid())); os.execv(sys.argv[2], sys.argv[2:])"
    )
    with socket.create_server(("127.0.0.1", 0)) as handed:
        port, number = handed.getsockname()[1], handed.fileno()
        command = [sys.executable, "-c", hand_over, str(number), *STUB, tmp_path, "0"]
        with subprocess.Popen(command, cwd=ROOT, pass_fds=[number]) as first:
            assert get(port).split()[1] == str(first.pid)
            first.terminate()
        with socket.create_connection(("127.0.0.1", port), timeout=60) as waiting:
            waiting.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with subprocess.Popen(command, cwd=ROOT, pass_fds=[number]) as second:
                assert f" {second.pid} ".encode() in waiting.recv(4096)
                second.terminate()
