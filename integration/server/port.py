"""The listening socket. The supervisor opens it and keeps it, the worker inherits it.

Granian's own sockets have SO_REUSEPORT set, so that a second server could share the port unnoticed; and
they are opened by the worker, so that nobody listens while a killed worker is replaced. One opened here
without SO_REUSEPORT refuses to share, and connections wait in its backlog meanwhile.
"""

from __future__ import annotations

import errno
import socket

from integration.core.errors import SwitchroomError

BACKLOG = 4096


def listen(host: str, port: int) -> socket.socket:
    """A socket listening on `host` (address or name) and `port` (0: a free one).

    Raises SwitchroomError naming the port and what to do, if it is in use or may not be had.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise SwitchroomError(f"server.host: {host!r} can't be resolved: {error.strerror}") from error
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
    """Where a browser on this machine finds it."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def _describe_error(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use by another program; stop it, or choose another server.port"
    if error.errno == errno.EACCES:
        return f"port {port} may not be opened by this user; choose a server.port above 1023"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"server.host: {host} is no address of this machine; 127.0.0.1, 0.0.0.0 and :: always are"
    return f"port {port} on {host} can't be opened: {error.strerror}"
