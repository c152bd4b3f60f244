"""Commands that write reach the one writer, whoever that is, and change hands without losing their work."""

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
from integration.factory import build
from integration.server import control_channel as channel_module
from integration.server import unfinished_commands
from integration.server.control_channel import YIELD_COMMAND, CommandMoved, ControlChannel, send_command
from integration.server.run_command import run_command, run_command_with
from integration.server.unfinished_commands import UnfinishedCommands
from integration.server.worker import Worker
from tests.server.stub_product import StandIn, settings_for
from tests.support.child_processes import Running, wait_for

Start = Callable[..., Running]


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[ControlChannel]:
    opened = ControlChannel(tmp_path, StandIn(settings_for(tmp_path)))
    yield opened
    opened.close(5)


def test_progress_and_result_arrive(channel: ControlChannel, tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    result = send_command(tmp_path, "count.up", {"to": 3}, seen.append)
    assert result is not None
    assert result["done"] == 3
    assert seen == [{"done": 1}, {"done": 2}, {"done": 3}]


def test_nobody_there_is_none_also_where_a_killed_process_left_its_socket(tmp_path: Path) -> None:
    assert send_command(tmp_path, "count.up", {"to": 1}) is None
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(tmp_path / SOCKET_FILE))
    assert send_command(tmp_path, "count.up", {"to": 1}) is None
    ControlChannel(tmp_path, None).close(1)


def test_a_process_that_is_suspended_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "ACCEPT_SECONDS", 0.05)
    with socket.socket(socket.AF_UNIX) as suspended:
        suspended.bind(str(tmp_path / SOCKET_FILE))
        suspended.listen()
        assert send_command(tmp_path, "count.up", {"to": 1}) is None


def test_a_process_that_is_killed_within_a_line_is_told_of(tmp_path: Path) -> None:
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


def test_errors_arrive_as_what_they_are(channel: ControlChannel, tmp_path: Path) -> None:
    with pytest.raises(SwitchroomError, match="that can't be done"):
        send_command(tmp_path, "count.refuse", {})
    with pytest.raises(ConfigurationError) as caught:
        send_command(tmp_path, "count.misconfigure", {})
    assert caught.value.mistakes == ("one.key: is wrong", "other.key: too")
    with pytest.raises(SwitchroomError, match="because of an internal error"):
        send_command(tmp_path, "count.stumble", {})
    with pytest.raises(SwitchroomError, match=r"no command 'count\.unheard'"):
        send_command(tmp_path, "count.unheard", {})


@register("tea.brew")
def brew_tea(context: Any, arguments: dict[str, Any], _: Progress) -> dict[str, Any]:
    return {"cups": arguments["cups"], "folder": str(context.settings.storage.data_dir)}


def test_an_invented_command_of_one_file_is_reached_by_both_ways(tmp_path: Path) -> None:
    """Alone under the lock, and in the running product."""
    settings = settings_for(tmp_path)
    answer = {"cups": 2, "folder": str(tmp_path)}
    assert run_command(settings, "tea.brew", {"cups": 2}) == answer
    product = build(settings)
    opened = ControlChannel(tmp_path, product.context)
    try:
        assert send_command(tmp_path, "tea.brew", {"cups": 2}) == answer
    finally:
        opened.close(5)
        product.stop()


def test_a_process_of_an_earlier_version_gets_the_name_that_it_has(tmp_path: Path) -> None:
    """And the other way: what it stored under that name is finished here."""
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
    product = build(settings_for(tmp_path))
    try:
        unfinished_commands.save(tmp_path, "replay", {"after": 7, "applied": 5, "refused": 2})
        serve = UnfinishedCommands(tmp_path, product.context, product.health)
        stored = json.loads((tmp_path / unfinished_commands.UNFINISHED_FILE).read_text())
        progress = Progress(lambda _: None, lambda: True)
        assert serve.finish(stored["command"], stored["arguments"], progress) == {"applied": 5, "failed": 2}
    finally:
        product.stop()


def test_a_command_that_nobody_knows_is_refused_where_nothing_runs_too(tmp_path: Path) -> None:
    with pytest.raises(SwitchroomError, match=r"no command 'count\.unheard'"):
        run_command_with(tmp_path, "count.unheard", {}, nullcontext, lambda _: None, lambda _: None)
    assert send_command(tmp_path, "count.up", {"to": 1}) is None, "the way is free again"


def test_the_socket_is_for_its_owner_only_and_its_path_may_be_long(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120) / ("e" * 120)
    deep.mkdir(parents=True)
    opened = ControlChannel(deep, StandIn(settings_for(deep)))
    try:
        assert (deep / SOCKET_FILE).stat().st_mode & 0o777 == 0o600
        assert send_command(deep, "count.up", {"to": 1}) is not None
    finally:
        opened.close(5)
    assert not (deep / SOCKET_FILE).exists()


def test_work_that_is_cut_short_by_the_end_of_the_process_says_what_is_left(tmp_path: Path) -> None:
    opened = ControlChannel(tmp_path, StandIn(settings_for(tmp_path)))

    def end(facts: dict[str, Any]) -> None:
        opened.stopping.set()

    with pytest.raises(CommandMoved) as moved:
        send_command(tmp_path, "count.up", {"to": 5, "gate": str(tmp_path / "never")}, end)
    assert moved.value.arguments == {"to": 5, "gate": str(tmp_path / "never"), "from": 1}
    opened.close(5)


def test_work_ends_when_its_caller_goes_away(tmp_path: Path) -> None:
    ended: list[dict[str, Any]] = []

    class GoneAway(Exception):
        pass

    def go_away(facts: dict[str, Any]) -> None:
        raise GoneAway

    opened = ControlChannel(tmp_path, SimpleNamespace(folder=tmp_path, ended=ended))
    try:
        with pytest.raises(GoneAway):
            send_command(tmp_path, "count.watched", {"to": 5, "gate": str(tmp_path / "never")}, go_away)
        wait_for(lambda: ended, "end of the work")
        assert ended[0]["from"] == 1
    finally:
        opened.close(5)


# --- real processes --------------------------------------------------------------------------------------


def lines_of(process: Running) -> list[dict[str, Any]]:
    return [json.loads(line) for line in process.out]


def test_a_command_is_done_by_a_running_serve(start: Start, tmp_path: Path) -> None:
    server = start("-m", "tests.server.stub_product", tmp_path, 0)
    assert server.port
    command = start("-m", "tests.server.stub_command", tmp_path, 2)
    assert command.ended() == 0
    assert [line["done"] for line in lines_of(command)] == [1, 2, 2]
    assert lines_of(command)[-1]["mine"] is False


def test_a_command_works_alone_where_nothing_runs_and_leaves_nothing_behind(
    start: Start, tmp_path: Path
) -> None:
    command = start("-m", "tests.server.stub_command", tmp_path, 2)
    assert command.ended() == 0
    assert lines_of(command)[-1]["mine"] is True
    assert not (tmp_path / SOCKET_FILE).exists()


def test_a_second_command_is_done_by_the_one_that_works_alone(start: Start, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    first = start("-m", "tests.server.stub_command", tmp_path, 2, gate)
    wait_for(lambda: first.out, "first progress")
    second = start("-m", "tests.server.stub_command", tmp_path, 3)
    assert second.ended() == 0
    assert lines_of(second)[-1] == {"done": 3, "pid": first.pid, "mine": False}
    gate.touch()
    assert first.ended() == 0


def test_a_starting_serve_takes_over_at_the_next_commit_and_finishes_the_work(
    start: Start, tmp_path: Path
) -> None:
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
    assert lines_of(command)[-1]["mine"] is False


def test_a_serve_finishes_what_it_took_over_even_if_the_command_dies(start: Start, tmp_path: Path) -> None:
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


def test_a_serve_finishes_what_a_command_left_that_was_killed_on_its_way_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    product, health = StandIn(settings_for(tmp_path)), Health()

    def asked_to_yield(facts: dict[str, Any]) -> None:
        if facts == {"done": 2}:
            send_command(tmp_path, YIELD_COMMAND, {})

    class Killed(BaseException):
        pass

    def die(_notice: str) -> None:
        raise Killed

    with pytest.raises(Killed):
        run_command_with(tmp_path, "count.up", {"to": 5}, lambda: nullcontext(product), asked_to_yield, die)
    serve = UnfinishedCommands(tmp_path, product, health)
    serve.finish_due()
    assert not (tmp_path / "counted").exists(), "the command may come for it"
    monkeypatch.setattr(unfinished_commands, "GRACE_SECONDS", 0)
    counted: list[int] = []
    monkeypatch.setattr(health, "beat", counted.append)
    serve.finish_due()
    assert (tmp_path / "counted").read_text() == "5"
    assert len(counted) == 3, "the first two are not done again"
    serve.finish_due()
    assert not (tmp_path / unfinished_commands.UNFINISHED_FILE).exists()


def test_what_a_serve_can_not_finish_before_its_own_end_is_left_to_the_next(
    tmp_path: Path,
) -> None:
    product = StandIn(settings_for(tmp_path))
    asked = {"to": 3, "gate": str(tmp_path / "gate")}
    unfinished_commands.save(tmp_path, "count.up", asked)
    serve = UnfinishedCommands(tmp_path, product, Health())
    opened = ControlChannel(tmp_path, product, finish_command=serve.finish)
    try:
        with pytest.raises(CommandMoved):
            send_command(tmp_path, "count.up", asked, lambda _: opened.stopping.set(), finish=True)
    finally:
        opened.close(5)
    kept = json.loads((tmp_path / unfinished_commands.UNFINISHED_FILE).read_text())
    assert kept["arguments"] == {**asked, "from": 1}
    (tmp_path / "gate").touch()
    assert serve.finish("count.up", kept["arguments"], Progress(lambda _: None, lambda: True))["done"] == 3
    assert not (tmp_path / unfinished_commands.UNFINISHED_FILE).exists()


def test_work_left_that_hangs_is_cut_by_the_products_end(
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


def test_work_goes_on_alone_when_the_serve_that_does_it_stops(start: Start, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    server = start("-m", "tests.server.stub_product", tmp_path, 0)
    assert server.port
    command = start("-m", "tests.server.stub_command", tmp_path, 2, gate)
    wait_for(lambda: command.out, "first progress")
    server.signal(signal.SIGTERM)
    assert server.ended() == 0
    gate.touch()
    assert command.ended() == 0
    assert lines_of(command)[-1] == {"done": 2, "pid": command.pid, "mine": True}


def test_a_command_says_so_when_the_serve_that_does_it_is_killed(start: Start, tmp_path: Path) -> None:
    server = start("-m", "tests.server.stub_product", tmp_path, 0)
    assert server.port
    command = start("-m", "tests.server.stub_command", tmp_path, 2, tmp_path / "never")
    wait_for(lambda: command.out, "first progress")
    server.signal(signal.SIGKILL)
    assert command.ended() == 1
    assert command.err == [
        "switchroom: The running process ended before count.up was finished. Start the command again."
    ]


def test_a_command_killed_while_it_works_alone_leaves_the_way_free(start: Start, tmp_path: Path) -> None:
    command = start("-m", "tests.server.stub_command", tmp_path, 2, tmp_path / "never")
    wait_for(lambda: command.out, "first progress")
    command.signal(signal.SIGKILL)
    again = start("-m", "tests.server.stub_command", tmp_path, 2)
    assert again.ended() == 0
