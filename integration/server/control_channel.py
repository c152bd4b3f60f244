"""Control channel: sends commands to the writer.

The channel is a Unix socket `data_dir/control.sock`, accessible only to its owner. Messages are lines of
JSON. The client sends `{"command": …, "arguments": {…}}`. The server responds with `{"taken": true}` before
the command starts, any number of `{"progress": {…}}`, and one of `{"result": {…}}`,
`{"error": [line, …], "exit": 1|2}` or `{"moved": {arguments}}`. `moved` means that this process is ending and
that the client must send `arguments` to its successor.
"""

from __future__ import annotations

import json
import logging
import os
import select
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from integration.core import clock
from integration.core.commands import SOCKET_FILE, Arguments, Progress, Result, Unfinished, find_handler
from integration.core.errors import ConfigurationError, SwitchroomError

log = logging.getLogger(__name__)

YIELD_COMMAND = "yield"
"""Command by which a starting `serve` stops a command at its next commit."""

_RETRY_SECONDS = 1.0
"""Seconds after a connection that cannot be accepted, as with too many open files."""
_REQUEST_SECONDS = 10.0
"""Seconds for receiving a request."""
ACCEPT_SECONDS = 10.0
"""Seconds for the first response. A suspended process accepts the connection and never responds."""
_MAX_LINE_BYTES = 16 * 1024 * 1024


class ControlChannel:
    """Server of the channel.

    Opened only by the holder of the lock, so an existing socket is stale. `context` is passed to the
    handlers. `can_yield` is set in a command that works alone, which ends when a starting `serve` requests
    it.
    """

    def __init__(self, data_dir: Path, context: Any, *, can_yield: bool = False) -> None:
        self._context = context
        self._can_yield = can_yield
        self.stopping = threading.Event()
        """Set when commands must end at their next commit."""
        self._closing = threading.Event()
        self._command_threads: list[threading.Thread] = []
        self._path = data_dir / SOCKET_FILE
        self._path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with _short_path(self._path) as short_path:
            self._listener.bind(short_path)
        self._path.chmod(0o600)
        self._listener.listen(16)
        self._thread = threading.Thread(target=self._accept, name="control channel", daemon=True)
        self._thread.start()

    def close(self, seconds: float) -> None:
        """Refuse new commands and signal running ones to end.

        Waits up to `seconds` for their end.
        """
        self.stopping.set()
        self._closing.set()
        self._path.unlink(missing_ok=True)
        # Ends the wait for a connection.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        deadline = clock.monotonic() + seconds
        for thread in self._command_threads:
            thread.join(max(0.0, deadline - clock.monotonic()))

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(connection,), name="command", daemon=True)
                thread.start()
            # RuntimeError: the limit of threads is reached.
            except (OSError, RuntimeError) as error:
                if self._closing.wait(_RETRY_SECONDS):
                    return
                log.warning("cannot accept a control connection: %s", error)
                continue
            self._command_threads = [one for one in self._command_threads if one.is_alive()] + [thread]

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.settimeout(_REQUEST_SECONDS)
                with connection.makefile("rb") as lines:
                    line = lines.readline(_MAX_LINE_BYTES)
                if line and not self.stopping.is_set():
                    _send_message(connection, {"taken": True})
                    _send_message(connection, self._execute(json.loads(line), connection))
        except (OSError, ValueError) as error:
            log.info("control connection failed: %s", error)

    def _execute(self, request: Mapping[str, Any], connection: socket.socket) -> dict[str, Any]:
        command, arguments = str(request.get("command")), dict(request.get("arguments") or {})
        if command == YIELD_COMMAND and self._can_yield:
            self.stopping.set()
            return {"result": {}}

        def send_progress(facts: dict[str, Any]) -> None:
            try:
                _send_message(connection, {"progress": facts})
            except OSError:
                # The client disconnected; `can_continue` ends the work at its next commit.
                return

        progress = Progress(send_progress, lambda: self._can_continue(connection))
        try:
            return {"result": find_handler(command)(self._context, arguments, progress)}
        except Unfinished as unfinished:
            return {"moved": unfinished.arguments}
        except ConfigurationError as error:
            return _build_error(error.mistakes, 2)
        except SwitchroomError as error:
            return _build_error([str(error)])
        except Exception:
            log.exception("command %s failed", command)
            return _build_error(
                [
                    f"{command} failed because of an internal error. "
                    "The log of the running process has the traceback."
                ]
            )

    def _can_continue(self, client: socket.socket) -> bool:
        poll = select.poll()
        poll.register(client, select.POLLIN)
        # A client sends nothing after its request, so a readable connection was closed.
        return not self.stopping.is_set() and not poll.poll(0)


def send_command(
    data_dir: Path,
    command: str,
    arguments: Arguments,
    on_progress: Callable[[dict[str, Any]], None] = lambda _: None,
) -> Result | None:
    """Send `command` to the writer and return its result.

    Returns None without a response. Raises the error of the handler (SwitchroomError, ConfigurationError),
    Unfinished if the process is ending before the work is finished, and SwitchroomError if the process ended
    without a result.
    """
    connection = _connect(data_dir)
    if connection is None:
        return None
    is_accepted = False
    connection.settimeout(ACCEPT_SECONDS)
    with connection, connection.makefile("rb") as lines:
        try:
            _send_message(connection, {"command": command, "arguments": arguments})
            for line in lines:
                message = json.loads(line)
                if "taken" in message:
                    is_accepted = True
                    connection.settimeout(None)
                elif "progress" in message:
                    on_progress(message["progress"])
                elif "result" in message:
                    return dict(message["result"])
                elif "moved" in message:
                    raise Unfinished(dict(message["moved"]))
                elif message.get("exit") == 2:
                    raise ConfigurationError(message["error"])
                else:
                    raise SwitchroomError("\n".join(message["error"]))
        except (OSError, json.JSONDecodeError) as error:
            # The connection ended, perhaps within a line.
            log.debug("control channel failed: %s", error)
    if not is_accepted:
        return None
    raise SwitchroomError(
        f"The running process ended before {command} was finished. Start the command again."
    )


def _connect(data_dir: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short_path(data_dir / SOCKET_FILE) as short_path:
            connection.connect(short_path)
    except (FileNotFoundError, ConnectionRefusedError):
        # No socket, or the socket of a killed process.
        connection.close()
        return None
    except OSError as error:
        connection.close()
        raise SwitchroomError(
            f"{data_dir / SOCKET_FILE} cannot be opened: {error.strerror}. "
            "Run the command as the user that runs `switchroom serve`."
        ) from error
    return connection


@contextmanager
def _short_path(path: Path) -> Iterator[str]:
    """Yield an alias of `path` that fits into a Unix socket address.

    The address has at most 107 bytes.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        by_descriptor = Path(f"/proc/self/fd/{folder}")
        yield str(by_descriptor / path.name if by_descriptor.exists() else path)
    finally:
        os.close(folder)


def _send_message(connection: socket.socket, message: Mapping[str, Any]) -> None:
    connection.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")


def _build_error(lines: Any, status: int = 1) -> dict[str, Any]:
    return {"error": list(lines), "exit": status}
