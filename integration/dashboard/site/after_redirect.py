"""Values that the page after a form shows once.

An example is the secret of a new key. A form responds with a redirect, so that a reload of the next page
sends no form again. The values are in memory only: a secret is in no URL, cookie or database. They belong to
one session and one page, and the first GET of that page removes them.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from flask import Response, current_app, g, make_response, redirect, request

from integration.core import clock, tokens

EXTENSION = "switchroom values after redirects"
KEEP_SECONDS = 120
"""Seconds after which values that no page has shown are dropped."""


@dataclass(slots=True)
class OnceValues:
    """Values by hashed session token and path, with their time."""

    _values: dict[tuple[bytes, str], tuple[float, dict[str, Any]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, token: str, path: str, values: dict[str, Any]) -> None:
        """Store `values` in place of earlier ones of this session and page."""
        now = clock.monotonic()
        with self._lock:
            self._values = {
                key: entry for key, entry in self._values.items() if now - entry[0] < KEEP_SECONDS
            }
            self._values[tokens.digest(token), path] = (now, values)

    def take(self, token: str, path: str) -> dict[str, Any]:
        """Return the values of this session and page, and remove them."""
        with self._lock:
            stored_at, values = self._values.pop((tokens.digest(token), path), (0.0, {}))
        return values if clock.monotonic() - stored_at < KEEP_SECONDS else {}


def put(path: str, *, token: str | None = None, **values: Any) -> None:
    """Store values for the next GET of the page `path`.

    `token`: the token of a session that this response starts. The default is the current session.
    """
    _current_values().put(token or g.session_token, path, values)


def put_message(path: str, message: str, *, token: str | None = None) -> None:
    """Store a message for the next GET of the page `path`. All pages show it in the same place."""
    put(_message_key(path), token=token, message=message)


def redirect_to(url: str, message: str = "", **shown_once: Any) -> Response:
    """Redirect to a page that shows `message`, and has the values `shown_once`, once."""
    path = urlsplit(url).path
    if message:
        put_message(path, message)
    if shown_once:
        put(path, **shown_once)
    return make_response(redirect(url, 303))


def take_message() -> str:
    """Return the message for the requested page, '' without one."""
    if request.method != "GET" or "session_token" not in g:
        return ""
    message: str = _current_values().take(g.session_token, _message_key(request.path)).get("message", "")
    return message


def _message_key(path: str) -> str:
    return f"message {path}"


def take() -> dict[str, Any]:
    """Return the values for the requested page. A HEAD request leaves them."""
    return {} if request.method == "HEAD" else _current_values().take(g.session_token, request.path)


def _current_values() -> OnceValues:
    values: OnceValues = current_app.extensions.setdefault(EXTENSION, OnceValues())
    return values
