"""A file to an address that a person named, by HTTP PUT or POST: not the platform, but with the same care."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import IO, Any, cast
from urllib.parse import urlsplit, urlunsplit

from integration.core import clock
from integration.core.errors import PlatformError, SwitchroomError
from integration.outbound.exchange import Transport
from integration.platform_api.failures import reason
from integration.settings.values import is_loopback

SECONDS = 1800.0
"""For the whole exchange, whatever the other side does."""


class PutFailed(SwitchroomError):
    """The other side did not take the file. Says why, without the URL's query."""


def checked(url: str) -> str:
    """`url` if a file may be put there. Raises ValueError saying what is wrong."""
    if any(ord(sign) <= 32 or ord(sign) == 127 for sign in url):
        raise ValueError("The address has a blank or a control character in it.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"The address can't be read ({error}).") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError("The address has to begin with https:// and name a host.")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ValueError("The address has to begin with https://; http:// is only for this machine itself.")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise ValueError("The address must not have credentials or # in it; the header field takes them.")
    return url


def put(
    url: str,
    file: IO[bytes],
    size: int,
    headers: Mapping[str, str],
    seconds: float = SECONDS,
    method: str = "PUT",
) -> int:
    """Send the `size` bytes of `file` from its start; returns the status, one of 2xx. Redirects are not
    followed, no proxy is asked. Raises PutFailed, ValueError as `checked`."""
    parts = urlsplit(checked(url))
    transport = Transport(urlunsplit((parts.scheme, parts.netloc, "", "", "")), 1)
    target = urlunsplit(("", "", parts.path or "/", parts.query, ""))
    body = _Until(file, clock.monotonic() + seconds)
    file.seek(0)
    sent = {"User-Agent": "Switchroom", **headers, "Content-Length": str(size)}
    try:
        # urllib3 reads a file bit by bit; only `bytes` are what the platform is sent.
        with transport.exchange(method, target, sent, cast(bytes, body), seconds) as answer:
            status = answer.status
    except PlatformError as error:
        raise PutFailed(f"{parts.hostname}: {reason(error)}") from error
    finally:
        transport.close()
    if 300 <= status < 400:
        raise PutFailed(f"{parts.hostname} answered {status}, and redirects are not followed")
    if not 200 <= status < 300:
        raise PutFailed(f"{parts.hostname} answered {status}")
    return status


class _Until(io.RawIOBase):
    """A file whose reading ends with the exchange: who takes a few bytes now and then holds us no longer."""

    def __init__(self, file: IO[bytes], deadline: float) -> None:
        self._file = file
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if clock.monotonic() > self._deadline:
            raise TimeoutError("the deadline of the whole request has passed")
        piece = self._file.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)
