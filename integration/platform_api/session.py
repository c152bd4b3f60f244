"""Single requests to the platform, with budget, credentials and their renewal.

The result of each request is recorded for the rate and the circuit breaker.
"""

from __future__ import annotations

import io
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import TracebackType

import orjson

import integration
from integration.core import clock
from integration.core.body_encodings import to_utf8
from integration.core.errors import PlatformBroken, PlatformThrottled, PlatformUnreachable
from integration.outbound.exchange import JSON_LIMIT, Exchange, PlatformResponse, ResponseBody
from integration.platform_api.budget import Budget, PrioritySource
from integration.platform_api.failures import build_error
from integration.platform_api.login import Credentials, CredentialSource
from integration.platform_api.retry import parse_retry_after

LARGE_BODY_BYTES = 8 * 1024 * 1024
"""Bytes of a body that are read without the place."""

_place = threading.Lock()

NO_RESPONSE = "none"
"""Status of a request without a response."""


class LargeBodyTurn:
    """Context that takes the only place for a large body, and releases it at its end.

    A body and its records take several times its bytes. Reads that run beside each other would add up.

    Its owner must not wait for the request budget: readers that hold a slot of the budget wait for the place.
    """

    def __init__(self) -> None:
        self._is_held = False

    def wait(self) -> float:
        """Take the place, unless this turn has it. Returns the seconds that it took."""
        if self._is_held:
            return 0.0
        began = clock.monotonic()
        _place.acquire()
        self._is_held = True
        return clock.monotonic() - began

    def __enter__(self) -> LargeBodyTurn:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._is_held:
            self._is_held = False
            _place.release()


class Session:
    """Sends requests to the platform. Thread-safe.

    `make_credential_source(post)` returns the source of credentials; `post(path, body)` sends a login.
    `seconds` is the default time limit of a request.
    """

    def __init__(
        self,
        exchange: Exchange,
        budget: Budget,
        seconds: float,
        make_credential_source: Callable[
            [Callable[[str, Mapping[str, str]], PlatformResponse]], CredentialSource
        ],
    ) -> None:
        self.budget = budget
        self.last_request_at = clock.monotonic()
        self.unreachable_since: float | None = None
        """Unix time of the first failure since the last success.

        None while requests succeed.
        """
        self.response_counts = Counter[str]()
        """Requests sent, by status code or NO_RESPONSE."""
        self._count_lock = threading.Lock()
        self._exchange = exchange
        self._timeout = seconds
        self.credential_source = make_credential_source(self._post_login)

    def _post_login(self, path: str, body: Mapping[str, str]) -> PlatformResponse:
        """Send a login without a slot.

        Requests that wait for the login may hold all slots.
        """
        content = orjson.dumps(dict(body))
        with self._send("POST", path, _build_headers(content), content, self._timeout) as response_body:
            response = read_response(response_body)
        if response.status >= 400:
            raise build_error(path, response.status, response.headers, response.body)
        return response

    def request(
        self,
        method: str,
        target: str,
        content: bytes | None,
        priority: PrioritySource,
        client_credentials: Credentials | None,
        check: bool,
        seconds: float | None,
        turn: LargeBodyTurn | None = None,
    ) -> PlatformResponse:
        """Send one request and read its complete response.

        `turn` is that of a caller that parses the response. Without one it ends with the body.
        With `check`, a GET status of 300 or above and any other status of 400 or above raise a PlatformError.
        """
        with self.exchange(
            method, target, content, priority, client_credentials, seconds or self._timeout
        ) as body:
            response = read_response(body, turn=turn)
        self.record_status(response.status, response.headers, client_credentials)
        is_failed = response.status >= (300 if method == "GET" else 400)
        if check and is_failed:
            raise build_error(target, response.status, response.headers, response.body)
        return response

    @contextmanager
    def exchange(
        self,
        method: str,
        target: str,
        content: bytes | None,
        priority: PrioritySource,
        client_credentials: Credentials | None,
        seconds: float,
        extra_headers: Mapping[str, str] | None = None,
        read_timeout: float | None = None,
    ) -> Iterator[ResponseBody]:
        """Send one request within the budget.

        On a 401, renew the credentials and send the request once more. Credentials of a client are not
        renewed. `seconds` and `read_timeout` are those of `Exchange.send`.
        """
        with ExitStack() as stack:

            def send(credentials: Credentials) -> ResponseBody:
                headers = {**_build_headers(content), **credentials.headers(), **(extra_headers or {})}
                # A file may take longer than other requests; the wait for its slot may not.
                stack.enter_context(self.budget.turn(priority, min(seconds, self._timeout)))
                stack.enter_context(self._reporting_failures())
                return stack.enter_context(
                    self._send(method, target, headers, content, seconds, read_timeout)
                )

            credentials = client_credentials or self.credential_source.current()
            body = send(credentials)
            if client_credentials is None:
                self.last_request_at = clock.monotonic()
                if body.status == 401:
                    # Release the slot before the login and the second request.
                    stack.close()
                    body = send(self.credential_source.renew(credentials))
            yield body

    @contextmanager
    def _send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        content: bytes | None,
        seconds: float,
        read_timeout: float | None = None,
    ) -> Iterator[ResponseBody]:
        """Send one request and count it by the status of its response."""
        code = NO_RESPONSE
        try:
            with self._exchange.send(method, target, headers, content, seconds, read_timeout) as body:
                code = str(body.status)
                yield body
        finally:
            with self._count_lock:
                self.response_counts[code] += 1

    @contextmanager
    def _reporting_failures(self) -> Iterator[None]:
        try:
            yield
        except (PlatformBroken, PlatformThrottled, PlatformUnreachable) as error:
            self.record_failure(error.retry_after)
            raise

    def record_status(
        self, status: int, headers: Mapping[str, str], client_credentials: Credentials | None
    ) -> None:
        """Record success or failure of the platform by a status.

        5xx and 429 are failures. Other statuses except 401 are successes, unless a client's credentials were
        used.
        """
        if status >= 500 or status == 429:
            self.record_failure(parse_retry_after(headers.get("Retry-After")))
        elif client_credentials is None and status != 401:
            self.record_success()

    def record_failure(self, seconds: float | None) -> None:
        """Record a failure of the platform. `seconds` is its `Retry-After`, or None."""
        self.budget.record_failure(seconds)
        if self.unreachable_since is None:
            self.unreachable_since = clock.unix()

    def record_success(self) -> None:
        """Record a successful request with the credentials of the configured account."""
        self.budget.record_success()
        self.unreachable_since = None
        self.credential_source.mark_accepted()


def _build_headers(content: bytes | None) -> dict[str, str]:
    headers = {
        "Accept": "application/json, */*",
        "Accept-Encoding": "gzip",
        "User-Agent": f"Switchroom/{integration.__version__}",
    }
    if content is not None:
        headers["Content-Type"] = "application/json"
    return headers


def read_response(
    body: ResponseBody, deadline: float = float("inf"), turn: LargeBodyTurn | None = None
) -> PlatformResponse:
    """Read a complete response until `deadline`, in seconds of `clock.monotonic`.

    JSON in another encoding of `to_utf8` becomes UTF-8.

    Raises PlatformBroken for over JSON_LIMIT bytes or an early end, PlatformUnreachable after `deadline`.
    """
    content = read_body(body, JSON_LIMIT, deadline, turn)
    if not body.is_json:
        return PlatformResponse(body.status, body.headers, content, body.date)
    text = to_utf8(content, body.charset)
    headers = body.headers if text is content else body.headers_without_charset
    return PlatformResponse(body.status, headers, text, body.date)


def read_body(
    body: ResponseBody, limit: int, deadline: float = float("inf"), turn: LargeBodyTurn | None = None
) -> bytes:
    """Read a complete body of at most `limit` bytes.

    Beyond LARGE_BODY_BYTES it waits for its turn, which does not count as time of the platform. Raises the
    errors of `read_response`.
    """
    if turn is None:
        with LargeBodyTurn() as own_turn:
            return read_body(body, limit, deadline, own_turn)
    # Unlike a list of chunks, BytesIO returns its content without a copy.
    content = io.BytesIO()
    for chunk in body.chunks(limit, unbuffered=deadline < float("inf")):
        if clock.monotonic() > deadline:
            raise PlatformUnreachable("the platform did not respond in time", status=body.status)
        content.write(chunk)
        if content.tell() > LARGE_BODY_BYTES:
            seconds = turn.wait()
            body.deadline.ends_at += seconds
            deadline += seconds
    return content.getvalue()
