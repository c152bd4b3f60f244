"""Platform: the one way to ask the hosted platform for something."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import orjson

from integration.core import clock
from integration.core.errors import ConfigurationError, PlatformBroken
from integration.core.json_records import Document, PageDocuments, read_item, read_page
from integration.outbound.exchange import Answer, Transport
from integration.platform_api import downloads as files
from integration.platform_api import paging
from integration.platform_api.budget import BACKGROUND, PEOPLE, Budget, Who
from integration.platform_api.failures import failure
from integration.platform_api.login import Account, ApiKey, Login, Secret
from integration.platform_api.pass_through_download import Passage
from integration.platform_api.retry import persist
from integration.platform_api.session import Line, answer_of, whole
from integration.platform_api.shared_download import Arrival

T = TypeVar("T")

KEEP_ALIVE_SECONDS = 300.0
"""The specification suggests a ping every 5 minutes; a token dies after 15 minutes of silence."""

BACKGROUND_TRIES = 3
PEOPLE_TRIES = 2
ERROR_BODY_LIMIT = 1024 * 1024

READ_SECONDS = 30.0
"""A file may take minutes, but not that long (nor platform.timeout) without a byte."""

PASSAGE_SECONDS = 600.0
"""Total for a file that is only passed on. JSON has platform.timeout like all other."""


class PlatformSettings(Protocol):
    """What is needed of the section `platform` of the settings."""

    @property
    def base_url(self) -> str: ...
    @property
    def user_id(self) -> str | None: ...
    @property
    def api_key(self) -> str | None: ...
    @property
    def email(self) -> str | None: ...
    @property
    def password(self) -> str | None: ...
    @property
    def timeout(self) -> float: ...
    @property
    def max_concurrency(self) -> int: ...


class Platform:
    """The hosted platform over HTTP. Thread-safe.

    `credentials` in every method: None for our own account; a Secret, or (user, secret, 'basic'|'token'), to
    ask with a caller's. A caller's credentials are never renewed, and their 401 says nothing about ours.
    """

    def __init__(self, settings: PlatformSettings, *, requests_per_minute: int = 600) -> None:
        self._seconds = float(settings.timeout)
        self._silence = max(READ_SECONDS, self._seconds)
        self._transport = Transport(settings.base_url, settings.max_concurrency)
        self.budget = Budget(requests_per_minute, settings.max_concurrency)
        self._line = Line(self._transport, self.budget, self._seconds, partial(_account, settings))
        self.account = self._line.account
        self._stopping = threading.Event()

    # --- asking ------------------------------------------------------------------------------------

    def get(
        self,
        path: str,
        params: Mapping[str, Any] | str | None = None,
        *,
        who: Who = BACKGROUND,
        credentials: Secret | tuple[str, str, str] | None = None,
        tries: int | None = None,
        check: bool = True,
        seconds: float | None = None,
    ) -> Answer:
        """GET `path` (below the base URL). Repeated after failures that may pass, `tries` times in all.

        With `check`, statuses from 300 up raise the PlatformError tree; without, any status is an answer
        (the facade passes it on), and only what is no HTTP answer at all raises. `seconds` is the total
        for one try, body included (default: platform.timeout).
        """
        caller, target = _caller(credentials), path + paging.query_string(params)
        return self._persist(
            lambda: self._line.ask("GET", target, None, who, caller, check, seconds), who, tries
        )

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        params: Mapping[str, Any] | str | None = None,
        who: Who = PEOPLE,
        credentials: Secret | tuple[str, str, str] | None = None,
        check: bool = True,
        seconds: float | None = None,
    ) -> Answer:
        """POST, PATCH or DELETE, sent once: a repeated POST /calls would ring a customer twice.

        Only a 401 for our own expired token is sent again after a login, since nothing was done. `body`:
        bytes pass as they are, None sends none, anything else goes as JSON. With `check`, statuses from
        400 up raise; 301 is the success of PATCH /calls/{id}.
        """
        content = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
        return self._line.ask(
            method, path + paging.query_string(params), content, who, _caller(credentials), check, seconds
        )

    def page(
        self,
        collection: str,
        *,
        filter: Iterable[paging.Condition] = (),
        sort: str | None = None,
        dir: str | None = None,
        page: int = 1,
        limit: int = paging.MOST,
        who: Who = BACKGROUND,
        tries: int | None = None,
        seen: Callable[[Answer], None] | None = None,
    ) -> PageDocuments:
        """One page of a collection, named by its path with or without a leading slash.

        `seen(answer)` gets the answer itself, for its `date`. Raises PlatformBroken for what is no page.
        """
        params = paging.parameters(conditions=filter, sort=sort, direction=dir, page=page, limit=limit)
        target = f"/{collection.lstrip('/')}{paging.query_string(params)}"

        def once() -> PageDocuments:
            answer = self._line.ask("GET", target, None, who, None, True, None)
            found = self._read(answer, read_page)
            if seen is not None:
                seen(answer)
            return found

        return self._persist(once, who, tries)

    def item(self, path: str, *, who: Who = BACKGROUND, tries: int | None = None) -> Document:
        """One record by its own path. A missing one is PlatformRefused with status 404."""
        return self._persist(
            lambda: self._read(self._line.ask("GET", path, None, who, None, True, None), read_item),
            who,
            tries,
        )

    def download(
        self,
        path: str,
        into: Path,
        expected: files.Expected = files.ANYTHING,
        *,
        who: Who = BACKGROUND,
        seconds: float | None = None,
        arrival: Arrival | None = None,
    ) -> files.Downloaded:
        """Fetch a file to `into`, which appears only when complete and as `expected` (see files.py). One try,
        of two requests where nothing tells how long the file is. `arrival` is told how far it is.

        Raises PlatformBroken for a wrong file, OSError for a disk that can't take it.
        """
        total = seconds or max(self._seconds, files.seconds_for(expected.size))
        try:
            return self._fetch(path, into, expected, who, total, arrival)
        except files.Untold as untold:
            again = replace(expected, sha256=untold.sha256)
        return self._fetch(path, into, again, who, total, arrival)

    def _fetch(
        self,
        path: str,
        into: Path,
        expected: files.Expected,
        who: Who,
        seconds: float,
        arrival: Arrival | None,
    ) -> files.Downloaded:
        with self._line.exchange(
            "GET", path, None, who, None, seconds, {"Accept-Encoding": "identity"}, silence=self._silence
        ) as body:
            if body.status != 200:
                raise failure(path, body.status, body.headers, whole(body, ERROR_BODY_LIMIT))
            # The platform is there, whatever this one file turns out to be.
            self._line.praise()
            try:
                return files.store(body, into, expected, arrival)
            except files.WrongFile as error:
                wrong = error
        # Out of the exchange, which would take it for the platform's trouble.
        raise wrong

    def through(
        self,
        path: str,
        params: Mapping[str, Any] | str | None = None,
        *,
        folder: Path,
        credentials: Secret | tuple[str, str, str] | None = None,
    ) -> Answer | Passage:
        """GET `path` for somebody of whom we only pass it on: JSON, and whatever is no 200, as an Answer;
        any other body as it comes, by way of the disk that `folder` is on. Any status is an answer.

        Raises PlatformError for no answer, OSError for a disk that can't take it.
        """
        caller, target = _caller(credentials), path + paging.query_string(params)

        def once() -> Answer | Passage:
            with ExitStack() as stack:
                exchange = self._line.exchange(
                    "GET", target, None, PEOPLE, caller, PASSAGE_SECONDS, silence=self._silence
                )
                until = clock.monotonic() + self._seconds
                body = stack.enter_context(exchange)
                self._line.judge(body.status, body.headers, caller)
                if body.status != 200 or "json" in body.headers.get("Content-Type", "json").lower():
                    return answer_of(body, until)
                return Passage(body, stack.pop_all(), folder)

        return self._persist(once, PEOPLE, None)

    def keep_alive(self) -> bool:
        """GET /ping if nothing was asked for five minutes. Returns whether it asked."""
        if clock.monotonic() - self._line.asked_at < KEEP_ALIVE_SECONDS or self.account.trouble:
            return False
        self.get("/ping", tries=1)
        return True

    @property
    def away_since(self) -> float | None:
        """Unix seconds since when nothing answers as it should; None while the platform is there."""
        return self._line.away_since

    @property
    def trouble(self) -> str | None:
        """What keeps our own requests from being made at all, for people: refused or paused credentials."""
        return self.account.trouble

    def close(self) -> None:
        """Cut what is under way; every later request raises PlatformUnreachable."""
        self._stopping.set()
        self.budget.close()
        self._transport.close()

    # --- inside ------------------------------------------------------------------------------------

    def _persist(self, once: Callable[[], T], who: Who, tries: int | None) -> T:
        if tries is None:
            tries = PEOPLE_TRIES if who == PEOPLE else BACKGROUND_TRIES
        if self._line.away_since is not None:
            # Asking once is enough to see whether it is back.
            tries = 1
        return persist(once, tries=tries, wait=lambda gap: not self._stopping.wait(gap))

    def _read(self, answer: Answer, reader: Callable[[bytes], T]) -> T:
        try:
            return reader(answer.body)
        except PlatformBroken as error:
            self._line.complain(None)
            if answer.body.lstrip()[:1] == b"<":
                raise PlatformBroken(
                    "the platform answered with a web page instead of data", status=answer.status
                ) from error
            raise


def _account(settings: PlatformSettings, post: Callable[[str, Mapping[str, str]], Answer]) -> Account:
    """Whose name we ask in."""
    if settings.api_key and settings.user_id:
        return ApiKey(str(settings.user_id), settings.api_key)
    if settings.email and settings.password:
        return Login(settings.email, settings.password, post)
    raise ConfigurationError(
        ["platform.user_id and platform.api_key, or platform.email and platform.password, are needed"]
    )


def _caller(credentials: Secret | tuple[str, str, str] | None) -> Secret | None:
    if credentials is None or isinstance(credentials, Secret):
        return credentials
    user, secret, kind = credentials
    if kind not in ("basic", "token"):
        raise ValueError(f"credentials of kind {kind!r}")
    return Secret(user, secret, "basic" if kind == "basic" else "token")
