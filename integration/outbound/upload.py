"""Upload a file by HTTP PUT or POST, under a deadline.

The URL is that of a user, not of the platform.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from typing import IO, Any
from urllib.parse import urlsplit, urlunsplit

from integration.core import clock
from integration.core.errors import PlatformError, SwitchroomError
from integration.outbound.exchange import Exchange
from integration.outbound.public_addresses import AddressRefused, PublicHosts
from integration.outbound.tls import describe_failure
from integration.settings.values import is_loopback

UPLOAD_SECONDS = 1800.0
"""Maximum seconds of the entire exchange."""


class UploadFailed(SwitchroomError):
    """The server did not accept the file.

    The error text has the reason, without the URL's query.
    """


def check_url(url: str, plain_hosts: Collection[str] = ()) -> str:
    """Return `url`.

    Raises ValueError with the reason if uploads to it are not allowed. The URL needs https (http only for a
    loopback host and for `plain_hosts`), and no credentials and no fragment.
    """
    if any(ord(character) <= 32 or ord(character) == 127 for character in url):
        raise ValueError("The URL contains a blank or a control character.")
    try:
        split_url = urlsplit(url)
        port = split_url.port
    except ValueError as error:
        raise ValueError(f"The URL is invalid ({error}).") from None
    if split_url.scheme not in ("http", "https") or not split_url.hostname or port == 0:
        raise ValueError("The URL must begin with https:// and name a host.")
    is_plain = split_url.scheme == "http" and split_url.hostname not in plain_hosts
    if is_plain and not is_loopback(split_url.hostname):
        raise ValueError("The URL must begin with https://. http:// is allowed for this computer only.")
    if split_url.username is not None or split_url.password is not None or split_url.fragment:
        raise ValueError("The URL must not contain credentials or #. Header fields may have credentials.")
    return url


def check_new_url(url: str, public_hosts: PublicHosts, plain_hosts: Collection[str] = ()) -> str:
    """Return `url`, which a user entered. `plain_hosts`: as in `check_url`.

    Raises ValueError if `check_url` refuses it or its host has an address that is refused. A name that cannot
    be resolved is accepted: name servers fail, and each upload checks the address.
    """
    split_url = urlsplit(check_url(url, plain_hosts))
    try:
        public_hosts.resolve(split_url.hostname or "", split_url.port or 443)
    except AddressRefused as error:
        raise ValueError(str(error)) from None
    except OSError:
        return url
    return url


def shorten_url(url: str) -> str:
    """Return scheme and host of a URL, for pages and logs.

    Many services have credentials in the path.
    """
    parsed = urlsplit(url)
    return f"{parsed.scheme}://{parsed.netloc}/" + ("…" if parsed.path.strip("/") or parsed.query else "")


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
