"""Running requests: their count, and the addresses whose requests are computed or wait for a body.

A stop waits only for running requests. Granian's drain also waits for open connections without a request. The
idle connection of a browser, or one whose header never ends, would delay a stop without a limit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from integration.core import clock
from integration.web.wsgi_bodies import ClosingBody, ObservedInput

BLOCKING_THREADS = 320
"""Maximum number of concurrent requests.

Each live stream occupies a thread; streams can use half of them.
"""


class InflightRequests:
    """WSGI middleware that counts requests until the end of their response body.

    It also records which addresses wait for a response, and for which request bodies the product waits.
    """

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._changed = threading.Condition()
        self._count = 0
        self._states: dict[object, _State] = {}

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with self._changed:
            self._count += 1
        # Here REMOTE_ADDR is the address of the connection; trusted proxies change it later.
        recorder = _StateRecorder(environ["REMOTE_ADDR"], self._states)
        environ["wsgi.input"] = ObservedInput(environ["wsgi.input"], recorder.reading)
        try:
            body = self._application(environ, start_response)
        except BaseException:
            self._finish_request()
            raise
        finally:
            recorder.end()
        if isinstance(body, list):
            # Granian writes a list in one piece; a wrapped list would be streamed.
            self._finish_request()
            return body
        return ClosingBody(body, self._finish_request)

    def _finish_request(self) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def find_addresses(self, seconds: float, *, is_reading: bool) -> set[str]:
        """Return the addresses with a request that has waited for its body for `seconds`.

        Without `is_reading`: those with a request that has been computed for `seconds`.
        """
        latest = clock.monotonic() - seconds
        states = self._states.copy().values()
        return {one.address for one in states if one.is_reading == is_reading and one.since <= latest}

    def wait_until_idle(self, idle_seconds: float, timeout: float) -> bool:
        """Wait until no request has run for `idle_seconds`.

        Returns False after `timeout` seconds.
        """
        deadline = clock.monotonic() + timeout
        with self._changed:
            while True:
                remaining = deadline - clock.monotonic()
                if remaining <= 0 or not self._changed.wait_for(lambda: self._count == 0, remaining):
                    return False
                if not self._changed.wait_for(lambda: self._count != 0, idle_seconds):
                    return True


class _State(NamedTuple):
    address: str
    since: float
    is_reading: bool


class _StateRecorder:
    """Records the state of one request. It counts as computed except while its body is read."""

    def __init__(self, address: str, states: dict[object, _State]) -> None:
        self._address = address
        self._states = states
        self._is_ended = False
        self._set_state(is_reading=False)

    @contextmanager
    def reading(self) -> Iterator[None]:
        self._set_state(is_reading=True)
        try:
            yield
        finally:
            self._set_state(is_reading=False)

    def end(self) -> None:
        self._is_ended = True
        self._states.pop(self, None)

    def _set_state(self, *, is_reading: bool) -> None:
        # A response body can read the request body after the call of the application.
        if not self._is_ended:
            self._states[self] = _State(self._address, clock.monotonic(), is_reading)
