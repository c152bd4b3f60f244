"""Listening socket. The supervisor opens it, or takes it from systemd, and keeps it; the worker inherits it.

Sockets that Granian opens have SO_REUSEPORT, so a second server could share the port unnoticed. They are
opened by the worker, so no socket listens while a killed worker is replaced. The socket of this module has no
SO_REUSEPORT, and connections wait in its backlog during a restart of the worker.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator, MutableMapping

from integration.core.errors import SwitchroomError
from integration.core.process_lock import find_writer
from integration.maintenance.check_result import CheckResult
from integration.settings.model import Settings

BACKLOG = 4096
"""Maximum number of connections that wait to be accepted."""
KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)
"""Options that close a connection whose client is unreachable for 60 s.

Accepted connections inherit them. Without, a request that such a client has sent in part occupies a thread
until the next restart.
"""


FIRST_HANDED_DESCRIPTOR = 3
"""Descriptor of the first socket that systemd hands over (sd_listen_fds(3))."""


def listen_or_take(host: str, port: int, environ: MutableMapping[str, str]) -> socket.socket:
    """Return the socket that systemd hands over, otherwise one that listens on `host` and `port`.

    A handed socket stays open while the service restarts, so that connections wait. Its unit decides the
    address. The variables are removed, because they are not for child processes. Raises SwitchroomError.
    """
    process, count = environ.pop("LISTEN_PID", ""), environ.pop("LISTEN_FDS", "")
    environ.pop("LISTEN_FDNAMES", None)
    if process != str(os.getpid()) or not count:
        return listen(host, port)
    if count != "1":
        raise SwitchroomError(f"The socket unit hands over {count} sockets. Give it one line ListenStream=.")
    listener = socket.socket(fileno=FIRST_HANDED_DESCRIPTOR)
    if listener.family == socket.AF_UNIX or listener.type != socket.SOCK_STREAM:
        raise SwitchroomError("The socket of the socket unit is not a TCP socket. Correct its ListenStream=.")
    listener.set_inheritable(False)
    _prepare(listener)
    return listener


def _prepare(listener: socket.socket) -> None:
    for option in KEEPALIVE:
        listener.setsockopt(*option)
    listener.listen(BACKLOG)
    listener.setblocking(False)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on `host` and `port`.

    `host`: address or name. `port`: 0 for any free port. Raises SwitchroomError if the port is in use or
    cannot be opened.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise SwitchroomError(
            f"server.host: {host!r} cannot be resolved: {error.strerror}. Use an address of this machine."
        ) from error
    is_dual_stack = family == socket.AF_INET6 and host == "::" and socket.has_dualstack_ipv6()
    try:
        listener = socket.create_server(address, family=family, dualstack_ipv6=is_dual_stack)
    except OSError as error:
        raise SwitchroomError(_describe_error(error, host, port)) from error
    _prepare(listener)
    return listener


def check_port(settings: Settings) -> Iterator[CheckResult]:
    """Check that the port can be opened, for `doctor` and `init`.

    Yields nothing while a process uses `data_dir`.
    """
    try:
        if find_writer(settings.storage.data_dir, "doctor") is not None:
            return
    except SwitchroomError:
        return  # Reported by the check of the process.
    try:
        listen(settings.server.host, settings.server.port).close()
    except SwitchroomError as error:
        yield CheckResult("fail", "port", str(error))
    else:
        yield CheckResult("ok", "port", f"{settings.server.host}:{settings.server.port} is free")
    if settings.server.metrics_listen:
        yield _check_metrics_port(settings.server.metrics_listen)


def _check_metrics_port(address: str) -> CheckResult:
    host, _, port = address.rpartition(":")
    try:
        listen(host.strip("[]"), int(port)).close()
    except SwitchroomError as error:
        message = str(error).replace("server.port", "port in server.metrics_listen")
        return CheckResult("fail", "port", message.replace("server.host:", "server.metrics_listen:"))
    return CheckResult("ok", "port", f"{address} of /metrics is free")


def build_url(listener: socket.socket, tls: bool) -> str:
    """Return the URL of the listener for a browser on this machine."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def _describe_error(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} on {host} is in use by another program. "
            "Stop that program, or choose another server.port."
        )
    if error.errno == errno.EACCES:
        return f"port {port} cannot be opened by this user. Choose a server.port above 1023."
    if error.errno == errno.EADDRNOTAVAIL:
        return (
            f"server.host: {host} is not an address of this machine. "
            "127.0.0.1, 0.0.0.0 and :: are always available."
        )
    return f"port {port} on {host} cannot be opened: {error.strerror}."
