"""Listening socket. The supervisor opens and keeps it; the worker inherits it.

Sockets that Granian opens have SO_REUSEPORT, so a second server could share the port unnoticed. They are
opened by the worker, so no socket listens while a killed worker is replaced. The socket of this module has no
SO_REUSEPORT, and connections wait in its backlog during a restart of the worker.
"""

from __future__ import annotations

import errno
import socket

from integration.core.errors import SwitchroomError

BACKLOG = 4096
"""Maximum number of connections that wait to be accepted."""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on `host` and `port`.

    `host`: address or name. `port`: 0 for any free port. Raises SwitchroomError if the port is in use or
    cannot be opened.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise SwitchroomError(
            f"server.host: {host!r} cannot be resolved: {error.strerror}. Use an address of this machine."
        ) from error
    family, _, _, _, address = addresses[0]
    is_dual_stack = family == socket.AF_INET6 and host == "::" and socket.has_dualstack_ipv6()
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not is_dual_stack))
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise SwitchroomError(_describe_error(error, host, port)) from error
    listener.setblocking(False)
    return listener


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
