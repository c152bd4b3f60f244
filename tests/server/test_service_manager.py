"""Notifications of the real supervisor to a service manager."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from tests.support.child_processes import Running, get, wait_for
from tests.support.harness import alive

LIMIT_SECONDS = 1.2
Start = Callable[..., Running]


@pytest.fixture
def notifications(tmp_path: Path) -> Iterator[socket.socket]:
    """Socket of the service manager."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(30)
        yield manager


def start_unit(start: Start, tmp_path: Path, *arguments: object, **environ: str) -> Running:
    return start(
        "-m", "tests.server.stub_product", tmp_path / "data", 0, *arguments,
        NOTIFY_SOCKET=str(tmp_path / "notify"), **environ,
    )  # fmt: skip


def receive_all(notifications: socket.socket, seconds: float) -> list[str]:
    """Receive until no message arrives for `seconds`."""
    messages = []
    notifications.settimeout(seconds)
    try:
        while len(messages) < 100:
            messages.append(notifications.recv(4096).decode())
    except TimeoutError:
        return messages
    raise AssertionError("messages do not end")


def test_the_end_of_the_start_and_the_stop_are_reported(
    start: Start, tmp_path: Path, notifications: socket.socket
) -> None:
    server = start_unit(start, tmp_path)
    assert notifications.recv(4096).decode() == f"READY=1\nSTATUS=Listening on http://127.0.0.1:{server.port}"
    assert get(server.port)
    server.signal(signal.SIGTERM)
    assert notifications.recv(4096).decode() == "STOPPING=1\nSTATUS=Stopping"
    assert server.ended() == 0


def test_a_start_that_fails_is_never_ready(
    start: Start, tmp_path: Path, notifications: socket.socket
) -> None:
    assert start_unit(start, tmp_path, "refuses").ended() == 1
    assert receive_all(notifications, 0.01) == []


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_worker_that_hangs_sends_no_sign_of_life(
    start: Start, tmp_path: Path, notifications: socket.socket, scheme: str
) -> None:
    if scheme == "https":
        certificate = trustme.CA().issue_cert("calls.example.com")
        certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
        certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    tls = ("build", tmp_path) if scheme == "https" else ()
    server = start_unit(start, tmp_path, *tls, WATCHDOG_USEC=str(int(LIMIT_SECONDS * 1e6)))
    assert notifications.recv(4096).startswith(b"READY=1")
    for _ in range(3):
        assert notifications.recv(4096) == b"WATCHDOG=1"
    (worker,) = list_children(server.pid)
    os.kill(worker, signal.SIGSTOP)
    try:
        # One sign may be on its way; then there is none for as long as systemd waits.
        assert len(receive_all(notifications, LIMIT_SECONDS)) <= 2
    finally:
        os.kill(worker, signal.SIGCONT)
    notifications.settimeout(30)
    assert notifications.recv(4096) == b"WATCHDOG=1"


@pytest.mark.exhaustive
def test_a_worker_whose_requests_hang_sends_no_sign_of_life(
    start: Start, tmp_path: Path, notifications: socket.socket
) -> None:
    start_unit(start, tmp_path, WATCHDOG_USEC=str(int(LIMIT_SECONDS * 1e6)))
    assert notifications.recv(4096).startswith(b"READY=1")
    assert notifications.recv(4096) == b"WATCHDOG=1"
    (tmp_path / "data" / "blocked").touch()
    assert len(receive_all(notifications, LIMIT_SECONDS)) <= 2


def test_the_replacement_of_a_dead_worker_is_no_hang(
    start: Start, tmp_path: Path, notifications: socket.socket
) -> None:
    server = start_unit(start, tmp_path, WATCHDOG_USEC=str(int(LIMIT_SECONDS * 1e6)))
    assert notifications.recv(4096).startswith(b"READY=1")
    (worker,) = list_children(server.pid)
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: not alive(worker), "end of the worker")
    assert [notifications.recv(4096) for _ in range(5)] == [b"WATCHDOG=1"] * 5
    assert get(server.port)


def list_children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
