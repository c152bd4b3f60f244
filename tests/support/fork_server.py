"""Start programs of the product by forks of a preloaded process.

A command takes 0.4 s of processor time, of which imports take 0.35 s; a fork takes 0.02 s. The started
process has its own descriptors, environment, folder, signals and exit status. `start_process` starts a new
interpreter unless `enable` was called, which only the test suite does: trials and benchmarks do not. All
workers of a test run share one fork server, because its imports take 1.5 s.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
PRELOADED = (
    "integration.factory",
    "integration.server.worker",
    "integration.server.supervisor",
    "integration.simulator.server",
    "tests.server.stub_product",
    "tests.server.stub_command",
)
"""Modules that the server imports, in addition to the modules of all commands."""
ADDRESS_VARIABLE = "TESTS_FORK_SERVER"
"""Environment variable with the address of the fork server of the test run."""
MAX_REQUEST_BYTES = 150_000
"""Largest request. The default buffer of a Unix socket is 212,992 bytes."""


class ForkedProcess:
    """Child of the fork server, with some methods of `subprocess.Popen`."""

    def __init__(self, pid: int, status: socket.socket, streams: Mapping[str, IO[str]]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdout = streams.get("stdout")
        self.stderr = streams.get("stderr")
        self._status = status

    def poll(self) -> int | None:
        """Return the exit status, or None while the process runs.

        A negative status is the number of the signal that ended the process.
        """
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status. Raises subprocess.TimeoutExpired after `timeout` seconds."""
        if self.returncode is None:
            # `settimeout(0)` means non-blocking, which raises BlockingIOError.
            self._status.settimeout(timeout)
            try:
                status = self._status.recv(16)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0) from None
            if not status:
                raise RuntimeError("the fork server ended")
            self.returncode = int(status)
            self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


_is_enabled = False
"""Whether `start_process` forks in this process."""


def enable() -> None:
    """Use the fork server for `start_process`, in this process only."""
    global _is_enabled
    _is_enabled = True


def share() -> None:
    """Start a fork server for this process and its children. It ends with this process."""
    # An abstract address has no file. The system chooses a free one.
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind("")
        listener.listen()
        os.environ[ADDRESS_VARIABLE] = listener.getsockname()[1:].decode()
        lifeline, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            descriptors = [listener.fileno(), other.fileno()]
            subprocess.Popen(
                [sys.executable, "-m", "tests.support.fork_server", *map(str, descriptors)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=descriptors,
            )
    atexit.register(lifeline.close)


def start_process(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdout: int | IO[Any],
    stderr: int | IO[Any],
    stdin: int | IO[Any] = subprocess.DEVNULL,
) -> subprocess.Popen[str] | ForkedProcess:
    """Start `command`, by a fork if that makes no difference.

    `stdout` and `stderr` are PIPE, which creates text streams, or a file. `stderr` may be STDOUT.
    """
    if not _is_enabled or not _is_forkable(command, env):
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            errors="replace",
        )
    if ADDRESS_VARIABLE not in os.environ:
        share()
    request = json.dumps({"arguments": list(command[1:]), "cwd": str(cwd), "env": dict(env)}).encode()
    assert len(request) < MAX_REQUEST_BYTES
    streams: dict[str, IO[str]] = {}
    descriptors, opened = [], []
    for name, target in (("stdin", stdin), ("stdout", stdout), ("stderr", stderr)):
        if target == subprocess.PIPE:
            reading, writing = os.pipe()
            streams[name] = open(reading, encoding="utf-8", errors="replace")  # noqa: SIM115
            opened.append(writing)
            descriptors.append(writing)
        elif target == subprocess.DEVNULL:
            opened.append(os.open(os.devnull, os.O_RDWR))
            descriptors.append(opened[-1])
        elif target == subprocess.STDOUT:
            descriptors.append(descriptors[1])
        else:
            descriptors.append(target if isinstance(target, int) else target.fileno())
    status = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    status.connect(f"\0{os.environ[ADDRESS_VARIABLE]}")
    socket.send_fds(status, [request], descriptors)
    for descriptor in opened:
        os.close(descriptor)
    return ForkedProcess(int(status.recv(16)), status, streams)


def run_process(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: str = "", timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run `command` to its end.

    After `timeout` seconds the process is killed, and subprocess.TimeoutExpired raised.
    """
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as given,
        tempfile.TemporaryFile("w+", encoding="utf-8") as out,
        tempfile.TemporaryFile("w+", encoding="utf-8") as err,
    ):
        given.write(stdin)
        given.seek(0)
        process = start_process(command, cwd=cwd, env=env, stdin=given, stdout=out, stderr=err)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(command, status, out.read(), err.read())


def _is_forkable(command: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether a fork behaves like a new interpreter for `command`.

    The program must be of the product, without options of the interpreter by argument or variable.
    """
    interpreter, program, *arguments = command
    is_of_product = program in ("app.py", str(ROOT / "app.py")) or (
        program == "-m" and arguments[0] in ("integration", *PRELOADED)
    )

    def options(variables: Mapping[str, str]) -> dict[str, str]:
        return {
            name: value
            for name, value in variables.items()
            if name.startswith("PYTHON") and name != "PYTHONUNBUFFERED"
        }

    return interpreter == sys.executable and is_of_product and options(env) == options(os.environ)


def _supervise(connection: socket.socket) -> list[str]:
    """Fork for a request, and send the process id and the exit status.

    Returns only in the forked process: the arguments of the request.
    """
    message, descriptors, _, _ = socket.recv_fds(connection, MAX_REQUEST_BYTES, 3)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        connection.close()
        return _become(json.loads(message), descriptors)
    for descriptor in set(descriptors):
        os.close(descriptor)
    connection.send(str(pid).encode())
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(BrokenPipeError):  # The test process has closed its end.
        connection.send(str(status).encode())
    os._exit(0)


def _become(request: dict[str, Any], standard: Sequence[int]) -> list[str]:
    """Set up streams, folder, environment and signals like a new interpreter.

    Returns the arguments of the request.
    """
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
    for descriptor in set(standard) - {0, 1, 2}:
        os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    is_unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    for name, number, errors in (("stdout", 1, "strict"), ("stderr", 2, "backslashreplace")):
        raw = open(number, "wb", buffering=0 if is_unbuffered else -1, closefd=False)  # noqa: SIM115
        stream = io.TextIOWrapper(
            raw, "utf-8", errors, line_buffering=number == 2, write_through=is_unbuffered
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # type: ignore[misc] # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return list(request["arguments"])


def main() -> None:
    listener, lifeline = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    # Ctrl-C at a terminal reaches the whole process group; the starter of this process closes `lifeline`.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # No import before the first test that needs a process.
    select.select([listener, lifeline], [], [])
    from integration.cli import COMMANDS

    for name in (*PRELOADED, *(f"integration.cli.{command}" for command in COMMANDS)):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Ended children leave no zombies.
    while listener in select.select([listener, lifeline], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            lifeline.close()
            _run(_supervise(connection))
            return
        connection.close()


def _run(arguments: list[str]) -> None:
    """Run a program as a new interpreter would."""
    program, *rest = arguments
    if program == "-m":
        sys.argv = [program, *rest[1:]]
        # `python -m` runs the module as `__main__`, and imports it a second time where it is imported.
        module = "integration.__main__" if rest[0] == "integration" else rest[0]
        sys.modules.pop(module, None)
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.argv = [program, *rest]
        runpy.run_path(str(ROOT / "app.py"), run_name="__main__")


if __name__ == "__main__":
    main()
