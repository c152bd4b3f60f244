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

from integration.core.commands import SOCKET_FILE, Progress
from integration.core.commands import command as register
from integration.core.errors import ConfigurationError, SwitchroomError
from integration.core.health import Health
from integration.core.scheduler import Scheduler
from integration.server import control_channel as channel_module
from integration.server import unfinished_commands
from integration.server.control_channel import YIELD_COMMAND, CommandMoved, ControlChannel, send_command
from integration.server.run_command import run_command, run_command_with
from integration.server.unfinished_commands import UnfinishedCommands
from integration.server.worker import Worker
from tests.server.stub_product import StubProduct, settings_for
from tests.support.application import running_app
from tests.support.child_processes import Running, wait_for

Start = Callable[..., Running]


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[ControlChannel]:
    opened = ControlChannel(tmp_path, StubProduct(settings_for(tmp_path)))
    yield opened
    opened.close(5)


def test_progress_and_result_arrive(channel: ControlChannel, tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    result = send_command(tmp_path, "count.up", {"to": 3}, seen.append)
    assert result is not None
    assert result["done"] == 3
    assert seen == [{"done": 1}, {"done": 2}, {"done": 3}]


def test_without_a_process_send_command_returns_none_also_with_a_stale_socket(tmp_path: Path) -> None:
    assert send_command(tmp_path, "count.up", {"to": 1}) is None
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(tmp_path / SOCKET_FILE))
    assert send_command(tmp_path, "count.up", {"to": 1}) is None
    ControlChannel(tmp_path, None).close(1)


def test_a_suspended_process_counts_as_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "ACCEPT_SECONDS", 0.05)
    with socket.socket(socket.AF_UNIX) as suspended:
        suspended.bind(str(tmp_path / SOCKET_FILE))
        suspended.listen()
        assert send_command(tmp_path, "count.up", {"to": 1}) is None


def test_a_process_that_ends_within_a_line_raises_an_error(tmp_path: Path) -> None:
    def cut(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(b'{"taken": true}\n{"resu')

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / SOCKET_FILE))
        listener.listen()
        threading.Thread(target=cut, args=(listener,), daemon=True).start()
        with pytest.raises(SwitchroomError, match="ended before"):
            send_command(tmp_path, "count.up", {"to": 1})


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


@register("tea.brew")
def brew_tea(context: Any, arguments: dict[str, Any], _: Progress) -> dict[str, Any]:
    return {"cups": arguments["cups"], "folder": str(context.settings.storage.data_dir)}


def test_a_new_command_runs_in_the_command_line_and_in_the_running_product(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    result = {"cups": 2, "folder": str(tmp_path)}
    assert run_command(settings, "tea.brew", {"cups": 2}) == result
    with running_app(tmp_path) as app:
        opened = ControlChannel(tmp_path, app.context)
        try:
            assert send_command(tmp_path, "tea.brew", {"cups": 2}) == result
        finally:
            opened.close(5)


def test_former_command_names_are_sent_to_earlier_versions_and_accepted_from_them(tmp_path: Path) -> None:
    received = []

    def respond(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as lines:
            received.append(json.loads(lines.readline())["command"])
            connection.sendall(b'{"taken": true}\n{"result": {}}\n')

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / SOCKET_FILE))
        listener.listen()
        threading.Thread(target=respond, args=(listener,), daemon=True).start()
        run_command(settings_for(tmp_path), "webhooks.replay", {})
    assert received == ["replay"]
    with running_app(tmp_path) as app:
        unfinished_commands.save(tmp_path, "replay", {"after": 7, "applied": 5, "refused": 2})
        serve = UnfinishedCommands(tmp_path, app.context, app.product.health)
        stored = json.loads((tmp_path / unfinished_commands.UNFINISHED_FILE).read_text())
        progress = Progress(lambda _: None, lambda: True)
        assert serve.finish(stored["command"], stored["arguments"], progress) == {"applied": 5, "failed": 2}


def test_an_unknown_command_is_rejected_without_a_running_process(tmp_path: Path) -> None:
    with pytest.raises(SwitchroomError, match=r"no command 'count\.unknown'"):
        run_command_with(tmp_path, "count.unknown", {}, nullcontext, lambda _: None, lambda _: None)
    assert send_command(tmp_path, "count.up", {"to": 1}) is None, "the channel is closed"


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


def test_a_command_interrupted_by_a_stop_returns_the_remaining_work(tmp_path: Path) -> None:
    opened = ControlChannel(tmp_path, StubProduct(settings_for(tmp_path)))

    def end(facts: dict[str, Any]) -> None:
        opened.stopping.set()

    with pytest.raises(CommandMoved) as moved:
        send_command(tmp_path, "count.up", {"to": 5, "gate": str(tmp_path / "never")}, end)
    assert moved.value.arguments == {"to": 5, "gate": str(tmp_path / "never"), "from": 1}
    opened.close(5)


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


def test_a_command_runs_in_a_running_serve(start: Start, tmp_path: Path) -> None:
    server = start("-m", "tests.server.stub_product", tmp_path, 0)
    assert server.port
    command = start("-m", "tests.server.stub_command", tmp_path, 2)
    assert command.ended() == 0
    assert [line["done"] for line in lines_of(command)] == [1, 2, 2]
    assert lines_of(command)[-1]["is_own_process"] is False


def test_without_a_running_process_a_command_runs_itself_and_removes_its_socket(
    start: Start, tmp_path: Path
) -> None:
    command = start("-m", "tests.server.stub_command", tmp_path, 2)
    assert command.ended() == 0
    assert lines_of(command)[-1]["is_own_process"] is True
    assert not (tmp_path / SOCKET_FILE).exists()


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
    assert command.err == ["`switchroom serve` is starting and takes over this command"]
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


def test_a_serve_finishes_a_command_whose_process_was_killed_before_the_hand_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    product, health = StubProduct(settings_for(tmp_path)), Health()

    def request_yield(facts: dict[str, Any]) -> None:
        if facts == {"done": 2}:
            send_command(tmp_path, YIELD_COMMAND, {})

    class Killed(BaseException):
        pass

    def die(_notice: str) -> None:
        raise Killed

    with pytest.raises(Killed):
        run_command_with(tmp_path, "count.up", {"to": 5}, lambda: nullcontext(product), request_yield, die)
    serve = UnfinishedCommands(tmp_path, product, health)
    serve.finish_due()
    assert not (tmp_path / "counted").exists(), "the process of the command may still connect"
    monkeypatch.setattr(unfinished_commands, "GRACE_SECONDS", 0)
    counted: list[int] = []
    monkeypatch.setattr(health, "beat", counted.append)
    serve.finish_due()
    assert (tmp_path / "counted").read_text() == "5"
    assert len(counted) == 3, "the first two steps are not repeated"
    serve.finish_due()
    assert not (tmp_path / unfinished_commands.UNFINISHED_FILE).exists()


def test_a_command_that_a_serve_cannot_finish_before_its_stop_is_left_to_the_next(
    tmp_path: Path,
) -> None:
    product = StubProduct(settings_for(tmp_path))
    arguments = {"to": 3, "gate": str(tmp_path / "gate")}
    unfinished_commands.save(tmp_path, "count.up", arguments)
    serve = UnfinishedCommands(tmp_path, product, Health())
    opened = ControlChannel(tmp_path, product, finish_command=serve.finish)
    try:
        with pytest.raises(CommandMoved):
            send_command(tmp_path, "count.up", arguments, lambda _: opened.stopping.set(), finish=True)
    finally:
        opened.close(5)
    stored = json.loads((tmp_path / unfinished_commands.UNFINISHED_FILE).read_text())
    assert stored["arguments"] == {**arguments, "from": 1}
    (tmp_path / "gate").touch()
    assert serve.finish("count.up", stored["arguments"], Progress(lambda _: None, lambda: True))["done"] == 3
    assert not (tmp_path / unfinished_commands.UNFINISHED_FILE).exists()


def test_an_unfinished_command_that_hangs_is_cancelled_by_the_stop_of_the_product(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unfinished_commands, "GRACE_SECONDS", 0)
    begun, cut = threading.Event(), threading.Event()

    context = SimpleNamespace(begun=begun, cut=cut)
    unfinished_commands.save(tmp_path, "count.wait", {})
    worker = Worker(settings_for(tmp_path), "", -1, -1)
    worker.unfinished_commands = UnfinishedCommands(tmp_path, context, Health())
    worker.product = cast(Any, SimpleNamespace(stop=cut.set, health=Health()))
    scheduler = Scheduler(Health())
    scheduler.every("unfinished", 5, worker.unfinished_commands.finish_due, executor="maintenance")
    scheduler.start()
    assert begun.wait(60)
    worker.stop_product()
    assert json.loads((tmp_path / unfinished_commands.UNFINISHED_FILE).read_text())["arguments"] == {
        "from": 7
    }
    scheduler.stop(10)


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
