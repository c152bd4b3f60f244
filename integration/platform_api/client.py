"""Platform: the one way to ask the hosted platform for something."""

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
from integration.core.errors import ConfigurationError, PlatformBroken
from integration.core.json_records import JsonRecord, RecordPage, read_item, read_page
from integration.outbound.exchange import Exchange, HttpExchange, PlatformResponse
from integration.platform_api import downloads, paging
from integration.platform_api.budget import BACKGROUND, INTERACTIVE, Budget, Priority
from integration.platform_api.failures import build_error
from integration.platform_api.login import ApiKey, Credentials, CredentialSource, Login
from integration.platform_api.retry import call_with_retries
from integration.platform_api.session import Session, read_body, read_response
from integration.platform_api.shared_download import PassThroughDownload, SharedDownload
from integration.settings.model import Platform as PlatformSettings

T = TypeVar("T")

KEEP_ALIVE_SECONDS = 300.0
"""The specification suggests a ping every 5 minutes; a token dies after 15 minutes of silence."""

BACKGROUND_TRIES = 3
INTERACTIVE_TRIES = 2
ERROR_BODY_LIMIT = 1024 * 1024

READ_SECONDS = 30.0
"""A file may take minutes, but not that long (nor platform.timeout) without a byte."""

PASS_THROUGH_SECONDS = 600.0
"""Total for a file that is only passed on. JSON has platform.timeout like all other."""


class Platform:
    """The hosted platform over HTTP. Thread-safe.

    `credentials` in every method: None for our own account; a Secret, or (user, secret, 'basic'|'token'), to
    ask with a caller's. A caller's credentials are never renewed, and their 401 says nothing about ours.
    """

    def __init__(
        self,
        settings: PlatformSettings,
        *,
        requests_per_minute: int = 600,
        exchange: HttpExchange | None = None,
    ) -> None:
        self._timeout = float(settings.timeout)
        self._read_timeout = max(READ_SECONDS, self._timeout)
        self._exchange = exchange or Exchange(settings.base_url, settings.max_concurrency)
        self.budget = Budget(requests_per_minute, settings.max_concurrency)
        self._session = Session(
            self._exchange, self.budget, self._timeout, partial(_make_credential_source, settings)
        )
        self.credential_source = self._session.credential_source
        self._stopping = threading.Event()

    # --- asking ------------------------------------------------------------------------------------

    def get(
        self,
        path: str,
        params: Mapping[str, Any] | str | None = None,
        *,
        priority: Priority = BACKGROUND,
        credentials: Credentials | tuple[str, str, str] | None = None,
        tries: int | None = None,
        check: bool = True,
        seconds: float | None = None,
    ) -> PlatformResponse:
        """GET `path` (below the base URL). Repeated after failures that may pass, `tries` times in all.

        With `check`, statuses from 300 up raise the PlatformError tree; without, any status is an answer
        (the facade passes it on), and only what is no HTTP answer at all raises. `seconds` is the total
        for one try, body included (default: platform.timeout).
        """
        client_credentials, target = _to_credentials(credentials), path + paging.format_query_string(params)
        return self._retry(
            lambda: self._session.request("GET", target, None, priority, client_credentials, check, seconds),
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
        credentials: Credentials | tuple[str, str, str] | None = None,
        check: bool = True,
        seconds: float | None = None,
    ) -> PlatformResponse:
        """POST, PATCH or DELETE, sent once: a repeated POST /calls would ring a customer twice.

        Only a 401 for our own expired token is sent again after a login, since nothing was done. `body`:
        bytes pass as they are, None sends none, anything else goes as JSON. With `check`, statuses from
        400 up raise; 301 is the success of PATCH /calls/{id}.
        """
        content = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
        return self._session.request(
            method,
            path + paging.format_query_string(params),
            content,
            priority,
            _to_credentials(credentials),
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
        on_response: Callable[[PlatformResponse], None] | None = None,
    ) -> RecordPage:
        """One page of a collection, named by its path with or without a leading slash.

        `on_response(answer)` gets the answer itself, for its `date`. Raises PlatformBroken for what is no
        page.
        """
        params = paging.build_parameters(conditions=filter, sort=sort, direction=dir, page=page, limit=limit)
        target = f"/{collection.lstrip('/')}{paging.format_query_string(params)}"

        def attempt() -> RecordPage:
            response = self._session.request("GET", target, None, priority, None, True, None)
            page_records = self._parse(response, read_page)
            if on_response is not None:
                on_response(response)
            return page_records

        return self._retry(attempt, priority, tries)

    def item(self, path: str, *, priority: Priority = BACKGROUND, tries: int | None = None) -> JsonRecord:
        """One record by its own path. A missing one is PlatformRefused with status 404."""
        return self._retry(
            lambda: self._parse(
                self._session.request("GET", path, None, priority, None, True, None), read_item
            ),
            priority,
            tries,
        )

    def download(
        self,
        path: str,
        target_path: Path,
        expected: downloads.Expected = downloads.ANY_FILE,
        *,
        priority: Priority = BACKGROUND,
        seconds: float | None = None,
        shared_download: SharedDownload | None = None,
    ) -> downloads.DownloadedFile:
        """Fetch a file to `target_path`, which appears only when complete and as `expected` (see files.py).
        One try, of two requests where nothing tells how long the file is. `shared_download` is told how far
        it is.

        Raises PlatformBroken for a wrong file, OSError for a disk that can't take it.
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
        priority: Priority,
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
                raise build_error(path, body.status, body.headers, read_body(body, ERROR_BODY_LIMIT))
            # The platform is there, whatever this one file turns out to be.
            self._session.record_success()
            try:
                return downloads.store(body, target_path, expected, shared_download)
            except downloads.WrongFile as error:
                wrong_file = error
        # Out of the exchange, which would take it for the platform's trouble.
        raise wrong_file

    def pass_through(
        self,
        path: str,
        params: Mapping[str, Any] | str | None = None,
        *,
        folder: Path,
        credentials: Credentials | tuple[str, str, str] | None = None,
    ) -> PlatformResponse | PassThroughDownload:
        """GET `path` for somebody of whom we only pass it on: JSON, and whatever is no 200, as an Answer;
        any other body as it comes, by way of the disk that `folder` is on. Any status is an answer.

        Raises PlatformError for no answer, OSError for a disk that can't take it.
        """
        client_credentials, target = _to_credentials(credentials), path + paging.format_query_string(params)

        def attempt() -> PlatformResponse | PassThroughDownload:
            with ExitStack() as stack:
                exchange = self._session.exchange(
                    "GET",
                    target,
                    None,
                    INTERACTIVE,
                    client_credentials,
                    PASS_THROUGH_SECONDS,
                    read_timeout=self._read_timeout,
                )
                deadline = clock.monotonic() + self._timeout
                body = stack.enter_context(exchange)
                self._session.record_status(body.status, body.headers, client_credentials)
                if body.status != 200 or "json" in body.headers.get("Content-Type", "json").lower():
                    return read_response(body, deadline)
                return PassThroughDownload(body, stack.pop_all(), folder)

        return self._retry(attempt, INTERACTIVE, None)

    def keep_alive(self) -> bool:
        """GET /ping if nothing was asked for five minutes. Returns whether it asked."""
        if (
            clock.monotonic() - self._session.last_request_at < KEEP_ALIVE_SECONDS
            or self.credential_source.problem
        ):
            return False
        self.get("/ping", tries=1)
        return True

    @property
    def unreachable_since(self) -> float | None:
        """Unix seconds since when nothing answers as it should; None while the platform is there."""
        return self._session.unreachable_since

    @property
    def problem(self) -> str | None:
        """What keeps our own requests from being made at all, for people: refused or paused credentials."""
        return self.credential_source.problem

    def close(self) -> None:
        """Cut what is under way; every later request raises PlatformUnreachable."""
        self._stopping.set()
        self.budget.close()
        self._exchange.close()

    # --- inside ------------------------------------------------------------------------------------

    def _retry(self, attempt: Callable[[], T], priority: Priority, tries: int | None) -> T:
        if tries is None:
            tries = INTERACTIVE_TRIES if priority == INTERACTIVE else BACKGROUND_TRIES
        if self._session.unreachable_since is not None:
            # Asking once is enough to see whether it is back.
            tries = 1
        return call_with_retries(attempt, tries=tries, wait=lambda gap: not self._stopping.wait(gap))

    def _parse(self, response: PlatformResponse, parse: Callable[[bytes], T]) -> T:
        try:
            return parse(response.body)
        except PlatformBroken as error:
            self._session.record_failure(None)
            if response.body.lstrip()[:1] == b"<":
                raise PlatformBroken(
                    "the platform answered with a web page instead of data", status=response.status
                ) from error
            raise


def _make_credential_source(
    settings: PlatformSettings, post: Callable[[str, Mapping[str, str]], PlatformResponse]
) -> CredentialSource:
    """Whose name we ask in."""
    if settings.api_key and settings.user_id:
        return ApiKey(str(settings.user_id), settings.api_key)
    if settings.email and settings.password:
        return Login(settings.email, settings.password, post)
    raise ConfigurationError(
        ["platform.user_id and platform.api_key, or platform.email and platform.password, are needed"]
    )


def _to_credentials(credentials: Credentials | tuple[str, str, str] | None) -> Credentials | None:
    if credentials is None or isinstance(credentials, Credentials):
        return credentials
    user, secret, kind = credentials
    if kind not in ("basic", "token"):
        raise ValueError(f"credentials of kind {kind!r}")
    return Credentials(user, secret, "basic" if kind == "basic" else "token")
