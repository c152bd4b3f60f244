"""Supervisor and worker: rejected starts, clean stops and kills."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.core import process_lock
from integration.server import worker as product_worker
from integration.server.run_command import acquire_for_serve
from tests.support.certificates import write_certificate
from tests.support.child_processes import Running, get, open_stream, wait_for
from tests.support.harness import alive

Start = Callable[..., Running]
HTTP_2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
"""First bytes of an HTTP/2 connection (RFC 9113, 3.4), with an empty SETTINGS frame."""


def worker_of(server: Running) -> int:
    pid, parent, _ = get(server.port).split(" ", 2)
    assert int(parent) == server.pid
    return int(pid)


def has_waited(server: Running) -> bool:
    """Return whether the stop waited for open requests until its time limit."""
    return any("requests are still running" in line for line in server.err)


@pytest.fixture
def server(start: Start, tmp_path: Path) -> Running:
    return start("-m", "tests.server.stub_product", tmp_path / "data", 0)


def test_a_second_start_on_the_same_data_names_the_process_that_uses_it(
    server: Running, start: Start, tmp_path: Path
) -> None:
    assert server.port
    second = start("-m", "tests.server.stub_product", tmp_path / "data", 0)
    assert second.ended() == 1
    (line,) = second.err
    assert f"{tmp_path}/data is in use by `switchroom serve` (process {server.pid}," in line
    assert get(server.port)


def test_a_port_in_use_is_an_error_even_with_so_reuseport(start: Start, tmp_path: Path) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        refused = start("-m", "tests.server.stub_product", tmp_path / "data", port)
        assert refused.ended() == 1
    assert refused.err == [
        f"switchroom: port {port} on 127.0.0.1 is in use by another program."
        " Stop that program, or choose another server.port."
    ]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stop_by_signal_with_open_streams_is_clean(server: Running, tmp_path: Path, number: int) -> None:
    worker = worker_of(server)
    with open_stream(server.port), open_stream(server.port):
        server.signal(number)
        assert server.ended() == 0
    assert not has_waited(server)
    assert not alive(worker)
    assert (tmp_path / "data" / "stopped-cleanly").read_text() == str(worker)


def test_the_supervisor_has_one_thread(server: Running) -> None:
    """A fork copies no lock that another thread holds, and no other thread receives its signals."""
    assert worker_of(server)
    assert len(list(Path(f"/proc/{server.pid}/task").iterdir())) == 1


def test_a_stop_ends_within_ten_seconds_with_a_hanging_request(server: Running, tmp_path: Path) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as hanging:
        hanging.sendall(b"GET /hang HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_for((tmp_path / "data" / "requested").exists, "the request")
        server.signal(signal.SIGTERM)
        assert server.ended() == 0
    assert has_waited(server)
    assert not any("did not stop" in line for line in server.err)
    assert product_worker.DRAIN_SECONDS + product_worker.STOP_SECONDS < 10
    assert (tmp_path / "data" / "stopped-cleanly").exists()


def test_a_product_that_is_stopping_gets_no_request_whichever_thread_got_the_signal(
    server: Running, tmp_path: Path
) -> None:
    worker, data_dir = worker_of(server), tmp_path / "data"
    (data_dir / "prolonged-stop").touch()
    get(server.port, "/stop")
    wait_for((data_dir / "stopping").exists, "the stop of the product")
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as waiting:
        waiting.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        (data_dir / "prolonged-stop").unlink()
        response = waiting.recv(4096).decode()
    assert response.rpartition("\r\n\r\n")[2].split()[0] != str(worker)
    assert response.startswith("HTTP/1.1 200")


def test_the_worker_of_a_killed_supervisor_ends_and_a_new_start_succeeds(
    server: Running, start: Start, tmp_path: Path
) -> None:
    port = server.port
    worker = worker_of(server)
    with open_stream(port):
        server.signal(signal.SIGKILL)
        second = start("-m", "tests.server.stub_product", tmp_path / "data", port)
        assert second.port == port
    assert not alive(worker)
    assert worker_of(second) != worker


def test_a_start_waits_for_a_killed_supervisor_that_has_not_ended(tmp_path: Path) -> None:
    lock = process_lock.acquire(tmp_path, "serve")
    ending = threading.Timer(0.2, lock.release)
    ending.start()
    acquire_for_serve(tmp_path, pytest.fail).release()
    ending.join()


def test_a_killed_worker_is_replaced_while_connections_wait(server: Running) -> None:
    for _ in range(4):
        worker = worker_of(server)
        os.kill(worker, signal.SIGKILL)
        wait_for(lambda worker=worker: not alive(worker), "end of the worker")  # type: ignore[misc]
        assert worker_of(server) != worker
    assert not any("starting another in" in line for line in server.err), "a worker that was ready"
    server.signal(signal.SIGTERM)
    assert server.ended() == 0


def test_a_product_that_cannot_start_exits_with_one_error_line(start: Start, tmp_path: Path) -> None:
    server = start("-m", "tests.server.stub_product", tmp_path / "data", 0, "refuses")
    assert server.ended() == 1
    assert server.err == ["switchroom: mirror.db was written by a newer version"]


def test_settings_of_the_environment_do_not_reach_requests(start: Start, tmp_path: Path) -> None:
    environ = {"SWITCHROOM_PLATFORM__API_KEY": "canary"}
    server = start("-m", "tests.server.stub_product", tmp_path / "data", 0, **environ)
    assert get(server.port).endswith(" []")


def test_a_stop_during_the_start_is_clean(start: Start, tmp_path: Path) -> None:
    server = start("-m", "tests.server.stub_product", tmp_path / "data", 0, "lingers")
    wait_for((tmp_path / "data" / "lingering").exists, "start of the product")
    server.signal(signal.SIGTERM)
    assert server.ended() == 0
    assert server.err == []


@pytest.fixture
def secure(start: Start, tmp_path: Path) -> tuple[Running, ssl.SSLContext]:
    """A server with HTTPS, and a context that trusts its certificate."""
    context = write_certificate(tmp_path, "localhost")
    return start("-m", "tests.server.stub_product", tmp_path / "data", 0, "build", tmp_path), context


def test_a_configured_key_pair_serves_https(secure: tuple[Running, ssl.SSLContext]) -> None:
    server, context = secure
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(("127.0.0.1", server.port)) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert b"200 OK" in connection.recv(4096)


def test_http_2_is_not_offered_over_tls(secure: tuple[Running, ssl.SSLContext]) -> None:
    server, context = secure
    context.set_alpn_protocols(["h2", "http/1.1"])
    with socket.create_connection(("127.0.0.1", server.port)) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as connection:
            assert connection.selected_alpn_protocol() == "http/1.1"
            connection.sendall(HTTP_2_PREFACE)
            assert connection.recv(4096) == b""
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(("127.0.0.1", server.port)) as plain:
        with pytest.raises(ssl.SSLError, match="no application protocol"):
            context.wrap_socket(plain, server_hostname="localhost")


def test_http_2_is_not_offered_without_tls(server: Running) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(HTTP_2_PREFACE)
        assert connection.recv(4096) == b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(
            b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
            b"HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
        )
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 OK")


def test_the_server_probes_whether_clients_of_open_connections_exist(server: Running) -> None:
    """A client that lost its network does not close its connection."""
    with socket.create_connection(("127.0.0.1", server.port)) as half:
        half.sendall(b"GET / HT")
        ports = [f"{port:04X}" for port in (server.port, half.getsockname()[1])]

        def has_keepalive_timer() -> bool:
            rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
            # Columns: local address, remote address, …, kind of timer and its time. Kind 2 is keepalive.
            (timer,) = [row[5] for row in rows if [row[1][9:], row[2][9:]] == ports]
            return timer.startswith("02:")

        wait_for(has_keepalive_timer, "a keepalive timer of the connection")
