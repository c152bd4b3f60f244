"""HTTP server of the worker: Granian, on a listening socket that is already open.

Granian has no public function for this. Only this file uses names below its public interface, so
`pyproject.toml` pins its version, and `tests/server/test_http_server.py` fails with another.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from granian._granian import SocketHolder
from granian.constants import HTTPModes, Loops, RuntimeModes, SSLProtocols, TaskImpl
from granian.log import LogLevels
from granian.server.mp import MPServer

from integration.server import port
from integration.settings.model import Server
from integration.web.inflight import BLOCKING_THREADS

MAX_CONNECTIONS = 8192
"""Maximum number of connections, which Granian counts for back-pressure, including idle ones.

Far above the number of threads, or 320 idle browsers would block webhooks.
"""

IDLE_THREAD_SECONDS = 30
"""Seconds after which a thread without a request ends."""

SERVE_IN_PROCESS: Any = MPServer._spawn_wsgi_worker

LOGGING = {
    "handlers": {},
    "loggers": {"_granian": {"level": "WARNING"}, "granian.access": {"level": "WARNING"}},
}


def run(load: Callable[[], Callable[..., Any]], listener: socket.socket, server: Server) -> None:
    """Serve the WSGI application that `load` returns, on the main thread of this process.

    Connections wait in the backlog of `listener` until `load` returns. Returns after SIGTERM. The server
    closes the descriptor of `listener` when it stops accepting connections.
    """
    make_holder: Any = SocketHolder
    # As Granian pickles them: descriptor, whether it is a Unix socket, backlog.
    holder = make_holder(listener.detach(), False, port.BACKLOG)
    certificate = None if server.tls_cert is None else str(server.tls_cert.resolve())
    key = None if server.tls_key is None else str(server.tls_key.resolve())
    SERVE_IN_PROCESS(
        1,
        None,
        load,
        ((None, holder), None),
        None,
        Loops.auto,
        True,
        LogLevels.warning,
        LOGGING,
        (),
        runtime_mode=RuntimeModes.mt,
        runtime_threads=1,
        runtime_blocking_threads=512,
        blocking_threads=BLOCKING_THREADS,
        blocking_threads_idle_timeout=IDLE_THREAD_SECONDS,
        backpressure=MAX_CONNECTIONS,
        task_impl=TaskImpl.asyncio,
        # Granian has no deadlines for HTTP/2, and its streams keep their threads after a hang-up.
        http_mode=HTTPModes.http1,
        http1_settings=None,
        http2_settings=None,
        websockets=False,
        static_path=None,
        log_access_fmt=None,
        # TLS 1.2, because the default of 1.3 would refuse senders that support only 1.2.
        ssl_ctx=(certificate is not None, certificate, key, None, str(SSLProtocols.tls12), None, [], False),
        scope_opts={"url_path_prefix": None},
        metrics=(None, None),
    )
