"""Granian's interface below its public one, which `http_server` uses."""

from __future__ import annotations

import inspect
from importlib.metadata import version

from granian._granian import SocketHolder, WSGIWorker

from integration.server import http_server


def test_granian_is_the_version_whose_interface_was_read() -> None:
    """With another version, compare `http_server.run` with `MPServer` of Granian, then pin it."""
    assert version("granian") == "2.8.7"
    assert SocketHolder
    assert WSGIWorker
    worker = inspect.unwrap(http_server.SERVE_IN_PROCESS)
    assert list(inspect.signature(worker).parameters) == [
        "worker_id", "callback", "sock", "ipc", "loop", "runtime_mode", "runtime_threads",
        "runtime_blocking_threads", "blocking_threads", "blocking_threads_idle_timeout", "backpressure",
        "task_impl", "http_mode", "http1_settings", "http2_settings", "websockets", "static_path",
        "log_access_fmt", "ssl_ctx", "scope_opts", "metrics",
    ]  # fmt: skip
