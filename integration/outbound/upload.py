"""Upload a file by HTTP PUT or POST, under a deadline.

The URL is that of a user, not of the platform.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import IO, Any
from urllib.parse import urlsplit, urlunsplit

from integration.core import clock
from integration.core.errors import PlatformError, SwitchroomError
from integration.outbound.exchange import Exchange
from integration.outbound.public_addresses import AddressRefused, PublicHosts
from integration.outbound.tls import describe_failure
from integration.outbound.urls import check_url

UPLOAD_SECONDS = 1800.0
"""Maximum seconds of the entire exchange."""


class UploadFailed(SwitchroomError):
    """The server did not accept the file.

    The error text has the reason, without the URL's query.
    """


def upload_file(
    url: str,
    file: IO[bytes],
    size: int,
    headers: Mapping[str, str],
    public_hosts: PublicHosts,
    seconds: float = UPLOAD_SECONDS,
    method: str = "PUT",
) -> int:
    """Send the `size` bytes of `file` and return the 2xx status.

    The exchange ends after `seconds`. Follows no redirect and uses no proxy. Raises UploadFailed for another
    status, a failed connection or a refused address, ValueError for a URL that `check_url` refuses.
    """
    split_url = urlsplit(check_url(url))
    exchange = Exchange(urlunsplit((split_url.scheme, split_url.netloc, "", "", "")), 1, public_hosts)
    target = urlunsplit(("", "", split_url.path or "/", split_url.query, ""))
    body = _DeadlineFile(file, clock.monotonic() + seconds)
    file.seek(0)
    request_headers = {"User-Agent": "Switchroom", **headers, "Content-Length": str(size)}
    try:
        with exchange.send(method, target, request_headers, body, seconds) as response:
            status = response.status
    except AddressRefused as error:
        raise UploadFailed(str(error)) from error
    except PlatformError as error:
        raise UploadFailed(f"{split_url.hostname}: {describe_failure(error)}") from error
    finally:
        exchange.close()
    if 300 <= status < 400:
        raise UploadFailed(f"{split_url.hostname} returned {status}, and redirects are not followed")
    if not 200 <= status < 300:
        raise UploadFailed(f"{split_url.hostname} returned {status}")
    return status


class _DeadlineFile(io.RawIOBase):
    """File that raises TimeoutError when read after `deadline`, in monotonic seconds.

    A server that accepts a few bytes at a time could delay the exchange without a limit.
    """

    def __init__(self, file: IO[bytes], deadline: float) -> None:
        self._file = file
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if clock.monotonic() > self._deadline:
            raise TimeoutError("the deadline of the exchange has passed")
        chunk = self._file.read(len(buffer))
        buffer[: len(chunk)] = chunk
        return len(chunk)
