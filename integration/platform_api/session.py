"""The line to the platform: one request with its turn, our credentials and their renewal, and what came of it
for those who ask next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

import orjson

import integration
from integration.core import clock
from integration.core.errors import PlatformBroken, PlatformThrottled, PlatformUnreachable
from integration.outbound.exchange import JSON_LIMIT, Answer, Body, Transport
from integration.platform_api.budget import Budget, Who
from integration.platform_api.failures import failure
from integration.platform_api.login import Account, Secret
from integration.platform_api.retry import retry_after


class Line:
    """Thread-safe. `make_account(post)` makes whose name we ask in; `post(path, body)` sends a login."""

    def __init__(
        self,
        transport: Transport,
        budget: Budget,
        seconds: float,
        make_account: Callable[[Callable[[str, Mapping[str, str]], Answer]], Account],
    ) -> None:
        self.budget = budget
        self.asked_at = clock.monotonic()
        self.away_since: float | None = None
        """Unix seconds since when nothing answers as it should; None while the platform is there."""
        self.account = make_account(self._post_login)
        self._transport = transport
        self._seconds = seconds

    def _post_login(self, path: str, body: Mapping[str, str]) -> Answer:
        """A login takes no slot: whoever waits for it may hold the last one."""
        content = orjson.dumps(dict(body))
        with self._transport.exchange("POST", path, _headers(content), content, self._seconds) as reply:
            answer = answer_of(reply)
        if answer.status >= 400:
            raise failure(path, answer.status, answer.headers, answer.body)
        return answer

    def ask(
        self,
        method: str,
        target: str,
        content: bytes | None,
        who: Who,
        caller: Secret | None,
        check: bool,
        seconds: float | None,
    ) -> Answer:
        """One request and its whole answer; with `check` a refusal or failure raises a PlatformError."""
        with self.exchange(method, target, content, who, caller, seconds or self._seconds) as body:
            answer = answer_of(body)
        self.judge(answer.status, answer.headers, caller)
        failed = answer.status >= (300 if method == "GET" else 400)
        if check and failed:
            raise failure(target, answer.status, answer.headers, answer.body)
        return answer

    @contextmanager
    def exchange(
        self,
        method: str,
        target: str,
        content: bytes | None,
        who: Who,
        caller: Secret | None,
        seconds: float,
        extra: Mapping[str, str] | None = None,
        silence: float | None = None,
    ) -> Iterator[Body]:
        """One request with its turn in the budget, and one renewal of our credentials on a 401. `seconds` and
        `silence` are those of `Transport.exchange`."""
        with ExitStack() as stack:

            def ask(secret: Secret) -> Body:
                headers = {**_headers(content), **secret.headers(), **(extra or {})}
                # A file may take its time, the wait for a slot not more than any request.
                stack.enter_context(self.budget.turn(who, min(seconds, self._seconds)))
                stack.enter_context(self._watched())
                return stack.enter_context(
                    self._transport.exchange(method, target, headers, content, seconds, silence)
                )

            secret = caller or self.account.current()
            body = ask(secret)
            if caller is None:
                self.asked_at = clock.monotonic()
                if body.status == 401:
                    # The slot is given back first: the login that follows may need it.
                    stack.close()
                    body = ask(self.account.renew(secret))
            yield body

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except (PlatformBroken, PlatformThrottled, PlatformUnreachable) as error:
            self.complain(error.retry_after)
            raise

    def judge(self, status: int, headers: Mapping[str, str], caller: Secret | None) -> None:
        """What an answer says of the platform, and of our credentials where they were ours."""
        if status >= 500 or status == 429:
            self.complain(retry_after(headers.get("Retry-After")))
        elif caller is None and status != 401:
            self.praise()

    def complain(self, seconds: float | None) -> None:
        """The platform was in trouble, and asked for so many seconds of rest."""
        self.budget.complain(seconds)
        if self.away_since is None:
            self.away_since = clock.unix()

    def praise(self) -> None:
        """A good answer to us."""
        self.budget.praise()
        self.away_since = None
        self.account.accepted()


def _headers(content: bytes | None) -> dict[str, str]:
    found = {
        "Accept": "application/json, */*",
        "Accept-Encoding": "gzip",
        "User-Agent": f"Switchroom/{integration.__version__}",
    }
    if content is not None:
        found["Content-Type"] = "application/json"
    return found


def answer_of(body: Body, until: float = float("inf")) -> Answer:
    """All of it, by `until` (of `clock.monotonic`) at the latest. Raises PlatformBroken beyond JSON_LIMIT and
    at an early end, PlatformUnreachable for one that takes longer."""
    return Answer(body.status, body.headers, whole(body, JSON_LIMIT, until), body.date)


def whole(body: Body, limit: int, until: float = float("inf")) -> bytes:
    """The body in one piece. Raises as `answer_of`."""
    pieces = []
    for piece in body.chunks(limit, at_once=until < float("inf")):
        if clock.monotonic() > until:
            raise PlatformUnreachable("the platform gave no answer in time", status=body.status)
        pieces.append(piece)
    return b"".join(pieces)
