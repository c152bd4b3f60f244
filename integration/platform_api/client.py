"""Client of the hosted platform: all requests to it pass through `Platform`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import orjson

from integration.core import clock
from integration.core.body_encodings import to_utf8
from integration.core.errors import PlatformBroken, UnusableBody
from integration.core.json_records import JsonRecord, RecordPage, read_item, read_page
from integration.outbound.exchange import Exchange, PlatformResponse
from integration.platform_api import downloads, paging
from integration.platform_api.budget import BACKGROUND, INTERACTIVE, Budget, Priority, PrioritySource
from integration.platform_api.failures import build_error
from integration.platform_api.login import ApiKey, Credentials, CredentialSource, Login, NoCredentials
from integration.platform_api.retry import call_with_retries
from integration.platform_api.session import LargeBodyTurn, Session, read_body, read_response
from integration.platform_api.shared_download import PassThroughDownload, SharedDownload
from integration.settings.model import Platform as PlatformSettings

T = TypeVar("T")

KEEP_ALIVE_SECONDS = 300.0
"""Seconds without a request before a ping.

The specification suggests a ping every 5 minutes; a token expires after 15 minutes without a request.
"""

BACKGROUND_TRIES = 3
"""Attempts of a read of the scheduler, the first included."""
INTERACTIVE_TRIES = 2
"""Attempts of a read for a user, the first included."""
ERROR_BODY_LIMIT = 1024 * 1024
"""Bytes read from the body of a failed download."""

READ_SECONDS = 30.0
"""Seconds that one read of a file may wait for a byte.

If platform.timeout is longer, it applies instead. The entire file may take minutes.
"""

PASS_THROUGH_SECONDS = 600.0
"""Seconds for the entire transfer of a passed-through file.

JSON is limited by platform.timeout.
"""


class Platform:
    """The hosted platform over HTTP. Thread-safe.

    `credentials` of each method: None for the configured account; or, to send a request for a client, that
    client's Credentials. These are never renewed, and a 401 for them does not affect the credentials of the
    configured account.
    """

    def __init__(
        self,
        settings: PlatformSettings,
        *,
        requests_per_minute: int = 600,
        exchange: Exchange | None = None,
    ) -> None:
        self._timeout = float(settings.timeout)
        self._read_timeout = max(READ_SECONDS, self._timeout)
        self._exchange = exchange or Exchange(
            settings.base_url, settings.max_concurrency, ca_file=settings.ca_file
        )
        self.budget = Budget(requests_per_minute, settings.max_concurrency)
        self._session = Session(
            self._exchange, self.budget, self._timeout, partial(_make_credential_source, settings)
        )
        self.credential_source = self._session.credential_source
        self._stopping = threading.Event()

    # --- requests ----------------------------------------------------------------------------------

    def get(
        self,
        path: str,
        params: Mapping[str, Any] | str | None = None,
        *,
        priority: Priority = BACKGROUND,
        credentials: Credentials | None = None,
        tries: int | None = None,
        check: bool = True,
        seconds: float | None = None,
    ) -> PlatformResponse:
        """GET `path` (below the base URL), with retries.

        At most `tries` attempts, after retryable errors only. With `check`, a status of 300 or above raises a
        PlatformError. Without it any status is returned (the facade passes it on) and only a missing or
        unusable HTTP response raises. `seconds` limits one attempt with its body (default: platform.timeout).
        """
        target = path + paging.format_query_string(params)
        return self._retry(
            lambda: self._session.request("GET", target, None, priority, credentials, check, seconds),
            priority,
            tries,
        )

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        params: Mapping[str, Any] | str | None = None,
        priority: Priority = INTERACTIVE,
        credentials: Credentials | None = None,
        check: bool = True,
        seconds: float | None = None,
    ) -> PlatformResponse:
        """Send a POST, PATCH or DELETE once.

        A repeated POST /calls would ring a customer twice. The only repeat is after a 401 for an expired
        token of the configured account, since such a request had no effect. Bytes as `body` are sent
        unchanged, None sends no body, any other value is sent as JSON. With `check`, a status of 400 or above
        raises a PlatformError; 301 is the success of PATCH /calls/{id}. `seconds` limits the exchange with
        its body (default: platform.timeout).
        """
        content = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
        return self._session.request(
            method,
            path + paging.format_query_string(params),
            content,
            priority,
            credentials,
            check,
            seconds,
        )

    def page(
        self,
        collection: str,
        *,
        filter: Iterable[paging.Condition] = (),
        sort: str | None = None,
        dir: str | None = None,
        page: int = 1,
        limit: int = paging.MAX_PAGE_RECORDS,
        priority: Priority = BACKGROUND,
        tries: int | None = None,
        seconds: float | None = None,
        on_response: Callable[[PlatformResponse], None] | None = None,
    ) -> RecordPage:
        """Fetch one page of a collection.

        `collection` is its path with or without a leading slash. `on_response` receives the PlatformResponse,
        for its `date`. `seconds` limits one attempt, as in `get`. Raises
        PlatformBroken for a response that is not a page.
        """
        params = {"page": str(page), "limit": str(limit)}
        names = ("property", "operator", "value")
        if conditions := [dict(zip(names, condition, strict=True)) for condition in filter]:
            params["filter"] = orjson.dumps(conditions).decode()
        if sort:
            params |= {"sort": sort, "dir": dir or "ASC"}
        target = f"/{collection.lstrip('/')}{paging.format_query_string(params)}"

        def attempt() -> RecordPage:
            with LargeBodyTurn() as turn:
                response = self._session.request("GET", target, None, priority, None, True, seconds, turn)
                page_records = self._parse(response, read_page)
            if on_response is not None:
                on_response(response)
            return page_records

        return self._retry(attempt, priority, tries)

    def item(
        self,
        path: str,
        *,
        priority: PrioritySource = BACKGROUND,
        tries: int | None = None,
        seconds: float | None = None,
    ) -> JsonRecord:
        """Fetch one record by its own path.

        A missing record raises PlatformRefused with status 404, a large one RecordTooLarge. `seconds` limits
        one attempt, as in `get`.
        """

        def attempt() -> JsonRecord:
            with LargeBodyTurn() as turn:
                response = self._session.request("GET", path, None, priority, None, True, seconds, turn)
                return self._parse(response, read_item)

        return self._retry(attempt, priority, tries)

    def download(
        self,
        path: str,
        target_path: Path,
        expected: downloads.Expected = downloads.ANY_FILE,
        *,
        priority: PrioritySource = BACKGROUND,
        seconds: float | None = None,
        shared_download: SharedDownload | None = None,
    ) -> downloads.DownloadedFile:
        """Download a file to `target_path`.

        `target_path` is created only when the file is complete and as `expected`. See `downloads.store`. One
        attempt; a file of unknown length takes two requests. `shared_download` receives the progress.
        `seconds` limits each request (default: by the expected size).

        Raises PlatformBroken for a wrong file, OSError if the file cannot be stored.
        """
        total = seconds or max(self._timeout, downloads.compute_timeout(expected.size))
        try:
            return self._fetch(path, target_path, expected, priority, total, shared_download)
        except downloads.UnknownLength as error:
            expected_repeat = replace(expected, sha256=error.sha256)
        return self._fetch(path, target_path, expected_repeat, priority, total, shared_download)

    def _fetch(
        self,
        path: str,
        target_path: Path,
        expected: downloads.Expected,
        priority: PrioritySource,
        seconds: float,
        shared_download: SharedDownload | None,
    ) -> downloads.DownloadedFile:
        with self._session.exchange(
            "GET",
            path,
            None,
            priority,
            None,
            seconds,
            {"Accept-Encoding": "identity"},
            read_timeout=self._read_timeout,
        ) as body:
            if body.status != 200:
                error_text = to_utf8(read_body(body, ERROR_BODY_LIMIT))
                raise build_error(path, body.status, body.headers, error_text)
            # The platform is reachable even if this file turns out to be wrong.
            self._session.record_success()
            try:
                return downloads.store(body, target_path, expected, shared_download)
            except downloads.WrongFile as error:
                wrong_file = error
        # Raised outside the exchange, which would record a failure of the platform.
        raise wrong_file

    def pass_through(
        self,
        path: str,
        params: Mapping[str, Any] | str | None = None,
        *,
        folder: Path,
        credentials: Credentials | None = None,
    ) -> PlatformResponse | PassThroughDownload:
        """GET `path` for a client, without mirroring the response.

        JSON and any status other than 200 are returned as a PlatformResponse. Any other body is returned as
        it arrives, through an unnamed file on the disk of `folder`. No status raises.

        Raises PlatformError without a usable response, OSError if the file cannot be stored.
        """
        target = path + paging.format_query_string(params)

        def attempt() -> PlatformResponse | PassThroughDownload:
            with ExitStack() as stack:
                exchange = self._session.exchange(
                    "GET",
                    target,
                    None,
                    INTERACTIVE,
                    credentials,
                    PASS_THROUGH_SECONDS,
                    read_timeout=self._read_timeout,
                )
                deadline = clock.monotonic() + self._timeout
                body = stack.enter_context(exchange)
                self._session.record_status(body.status, body.headers, credentials)
                if body.status != 200 or body.is_json:
                    return read_response(body, deadline)
                return PassThroughDownload(body, stack.pop_all(), folder)

        return self._retry(attempt, INTERACTIVE, None)

    def keep_alive(self) -> bool:
        """Send GET /ping if the last request is at least KEEP_ALIVE_SECONDS old.

        Requests with a client's credentials do not count. Returns whether a ping was sent; none is sent while
        the credentials are refused.
        """
        if (
            clock.monotonic() - self._session.last_request_at < KEEP_ALIVE_SECONDS
            or self.credential_source.problem
        ):
            return False
        self.get("/ping", tries=1)
        return True

    def count_responses(self) -> dict[str, int]:
        """Return the number of requests since the start, by status code.

        The code is 'none' without a response.
        """
        return dict(self._session.response_counts)

    @property
    def unreachable_since(self) -> float | None:
        """Unix time of the first failure since the last success.

        None while requests succeed.
        """
        return self._session.unreachable_since

    @property
    def problem(self) -> str | None:
        """Message about refused or paused credentials, or None.

        Such credentials block all requests.
        """
        return self.credential_source.problem

    def close(self) -> None:
        """Abort running requests. Every later request raises PlatformUnreachable."""
        self._stopping.set()
        self.budget.close()
        self._exchange.close()

    # --- internals ---------------------------------------------------------------------------------

    def _retry(self, attempt: Callable[[], T], priority: PrioritySource, tries: int | None) -> T:
        if tries is None:
            tries = INTERACTIVE_TRIES if priority == INTERACTIVE else BACKGROUND_TRIES
        seconds = self._timeout
        if self._session.unreachable_since is not None:
            # One attempt is enough to find out whether the platform is reachable.
            tries, seconds = 1, 0.0
        return call_with_retries(
            attempt,
            tries=tries,
            wait=lambda gap: not self._stopping.wait(gap),
            seconds=seconds,
        )

    def _parse(self, response: PlatformResponse, parse: Callable[[bytes], T]) -> T:
        try:
            return parse(response.body)
        except PlatformBroken as error:
            self._session.record_failure(None)
            if response.body.lstrip()[:1] == b"<":
                raise UnusableBody(
                    "the platform returned a web page instead of data", status=response.status
                ) from error
            raise


def _make_credential_source(
    settings: PlatformSettings, post: Callable[[str, Mapping[str, str]], PlatformResponse]
) -> CredentialSource:
    """Make the credential source of the configured account.

    The source is an API key, a login, or NoCredentials for a command that needs no platform.
    """
    if settings.api_key and settings.user_id:
        return ApiKey(str(settings.user_id), settings.api_key)
    if settings.email and settings.password:
        return Login(settings.email, settings.password, post)
    return NoCredentials()
