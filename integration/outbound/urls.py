"""URLs that users enter, for uploads and notifications: checks and short forms. Imports no HTTP client."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from integration.outbound.public_addresses import AddressRefused, PublicHosts
from integration.settings.values import is_loopback


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
    be resolved is accepted, because name servers fail.
    """
    split_url = urlsplit(check_url(url, plain_hosts))
    try:
        public_hosts.resolve(split_url.hostname or "", split_url.port or 443)
    except AddressRefused as error:
        raise ValueError(str(error)) from None
    except OSError:
        pass  # Each upload checks the address.
    return url


def shorten_url(url: str) -> str:
    """Return scheme and host of a URL, for pages and logs.

    Many services have credentials in the path.
    """
    parsed = urlsplit(url)
    return f"{parsed.scheme}://{parsed.netloc}/" + ("…" if parsed.path.strip("/") or parsed.query else "")
