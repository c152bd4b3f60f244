"""Commands reach the writer, and move between processes without lost work."""

from __future__ import annotations

import json
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from integration.core.commands import SOCKET_FILE
from integration.core.errors import ConfigurationError, SwitchroomError
from integration.core.health import Health
from integration.server import control_channel as channel_module
from integration.server import unfinished_commands
from integration.server.control_channel import YIELD_COMMAND, ControlChannel, send_command
from integration.server.run_command import run_command_with
from tests.server.stub_product import StubProduct, settings_for
from tests.support.child_processes import Running, wait_for

Start = Callable[..., Running]


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[ControlChannel]:
    opened = ControlChannel(tmp_path, StubProduct(settings_for(tmp_path)))
    yield opened
    opened.close(5)


def test_a_suspended_process_counts_as_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "ACCEPT_SECONDS", 0.05)
    with socket.socket(socket.AF_UNIX) as suspended:
        suspended.bind(str(tmp_path / SOCKET_FILE))
        suspended.listen()
        assert send_command(tmp_path, "count.up", {"to": 1}) is None


def test_errors_arrive_with_their_types(channel: ControlChannel, tmp_path: Path) -> None:
    with pytest.raises(SwitchroomError, match="the command is rejected"):
        send_command(tmp_path, "count.refuse", {})
    with pytest.raises(ConfigurationError) as caught:
        send_command(tmp_path, "count.misconfigure", {})
    assert caught.value.mistakes == ("one.key: is wrong", "other.key: too")
    with pytest.raises(SwitchroomError, match="because of an internal error"):
        send_command(tmp_path, "count.fail", {})
    with pytest.raises(SwitchroomError, match=r"no command 'count\.unknown'"):
        send_command(tmp_path, "count.unknown", {})


def test_the_socket_is_accessible_to_its_owner_only_and_its_path_may_be_long(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120) / ("e" * 120)
    deep.mkdir(parents=True)
    opened = ControlChannel(deep, StubProduct(settings_for(deep)))
    try:
        assert (deep / SOCKET_FILE).stat().st_mode & 0o777 == 0o600
        assert send_command(deep, "count.up", {"to": 1}) is not None
    finally:
        opened.close(5)
    assert not (deep / SOCKET_FILE).exists()


def test_a_command_is_cancelled_when_its_client_disconnects(tmp_path: Path) -> None:
    ended: list[dict[str, Any]] = []

    class Disconnected(Exception):
        pass

    def disconnect(facts: dict[str, Any]) -> None:
        raise Disconnected

    opened = ControlChannel(tmp_path, SimpleNamespace(folder=tmp_path, ended=ended))
    try:
        with pytest.raises(Disconnected):
            send_command(tmp_path, "count.watched", {"to": 5, "gate": str(tmp_path / "never")}, disconnect)
        wait_for(lambda: ended, "end of the work")
        assert ended[0]["from"] == 1
    finally:
        opened.close(5)


# --- processes --------------------------------------------------------------------------------------


def lines_of(process: Running) -> list[dict[str, Any]]:
    return [json.loads(line) for line in process.out]


def test_a_second_command_runs_in_the_process_of_the_first(start: Start, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    first = start("-m", "tests.server.stub_command", tmp_path, 2, gate)
    wait_for(lambda: first.out, "first progress")
    second = start("-m", "tests.server.stub_command", tmp_path, 3)
    assert second.ended() == 0
    assert lines_of(second)[-1] == {"done": 3, "pid": first.pid, "is_own_process": False}
    gate.touch()
    assert first.ended() == 0


def test_a_starting_serve_takes_over_a_command_and_finishes_it(start: Start, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    command = start("-m", "tests.server.stub_command", tmp_path, 3, gate)
    wait_for(lambda: command.out, "first progress")
    server = start("-m", "tests.server.stub_product", tmp_path, 0)
    assert server.port
    assert f"waiting for `switchroom count` (process {command.pid}," in server.err[0]
    gate.touch()
    assert command.ended() == 0
    assert len(command.err) == 1
    assert [line["done"] for line in lines_of(command)] == [1, 2, 3, 3]
    assert lines_of(command)[-1]["is_own_process"] is False


def test_a_serve_finishes_a_command_it_took_over_from_a_killed_process(start: Start, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    command = start("-m", "tests.server.stub_command", tmp_path, 3, gate)
    wait_for(lambda: command.out, "first progress")
    server = start("-m", "tests.server.stub_product", tmp_path, 0)
    assert server.port
    wait_for(lambda: (tmp_path / "counting").read_text() != str(command.pid), "hand-over")
    command.signal(signal.SIGKILL)
    gate.touch()
    wait_for(lambda: (tmp_path / "counted").exists(), "end of the work")
    assert (tmp_path / "counted").read_text() == "3"
    wait_for(lambda: not (tmp_path / unfinished_commands.UNFINISHED_FILE).exists(), "end of the stored work")


def test_stored_work_is_finished_after_the_end_of_its_command_from_where_it_ended(tmp_path: Path) -> None:
    product, stopping, beats = StubProduct(settings_for(tmp_path)), threading.Event(), list[str]()
    health = cast(Health, SimpleNamespace(beat=beats.append))

    def request_yield(facts: dict[str, Any]) -> None:
        if facts == {"done": 2}:
            send_command(tmp_path, YIELD_COMMAND, {})

    class Killed(BaseException):
        pass

    def check_and_die(_notice: str) -> None:
        unfinished_commands.finish(tmp_path, product, health, stopping)
        assert not (tmp_path / "counted").exists(), "its command requests the work"
        stored = tmp_path / unfinished_commands.UNFINISHED_FILE
        (tmp_path / "kept").write_text(stored.read_text())
        raise Killed

    with pytest.raises(Killed):
        run_command_with(
            tmp_path, "count.up", {"to": 5}, lambda: nullcontext(product), request_yield, check_and_die
        )
    unfinished = tmp_path / unfinished_commands.UNFINISHED_FILE
    assert not unfinished.exists(), "a command that ends otherwise leaves no work"
    (tmp_path / "kept").rename(unfinished)
    stopping.set()
    unfinished_commands.finish(tmp_path, product, health, stopping)
    assert unfinished.exists(), "a stop keeps the work"
    stopping.clear()
    unfinished_commands.finish(tmp_path, product, health, stopping)
    assert (tmp_path / "counted").read_text() == "5"
    assert len(beats) == 3, "the first two steps are not repeated"
    assert not unfinished.exists()


def test_a_command_continues_in_its_own_process_when_the_serve_stops(start: Start, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    server = start("-m", "tests.server.stub_product", tmp_path, 0)
    assert server.port
    command = start("-m", "tests.server.stub_command", tmp_path, 2, gate)
    wait_for(lambda: command.out, "first progress")
    server.signal(signal.SIGTERM)
    assert server.ended() == 0
    gate.touch()
    assert command.ended() == 0
    assert lines_of(command)[-1] == {"done": 2, "pid": command.pid, "is_own_process": True}


def test_a_command_fails_with_an_error_when_the_serve_is_killed(start: Start, tmp_path: Path) -> None:
    server = start("-m", "tests.server.stub_product", tmp_path, 0)
    assert server.port
    command = start("-m", "tests.server.stub_command", tmp_path, 2, tmp_path / "never")
    wait_for(lambda: command.out, "first progress")
    server.signal(signal.SIGKILL)
    assert command.ended() == 1
    assert command.err == [
        "switchroom: The running process ended before count.up was finished. Start the command again."
    ]


def test_a_command_can_start_after_another_was_killed(start: Start, tmp_path: Path) -> None:
    command = start("-m", "tests.server.stub_command", tmp_path, 2, tmp_path / "never")
    wait_for(lambda: command.out, "first progress")
    command.signal(signal.SIGKILL)
    second = start("-m", "tests.server.stub_command", tmp_path, 2)
    assert second.ended() == 0
    assert lines_of(second)[-1] == {"done": 2, "pid": second.pid, "is_own_process": True}
    assert not (tmp_path / SOCKET_FILE).exists()
