"""Session and device cookies of a browser; origin of a request."""

from __future__ import annotations

import logging
from ipaddress import ip_address
from urllib.parse import urlsplit

from flask import Request, Response, current_app, request

from integration.access import sessions
from integration.access.login import devices
from integration.settings.values import is_loopback

log = logging.getLogger(__name__)

PEER_KEY = "switchroom.peer"
"""Key in the WSGI environment: peer address of the connection, regardless of headers."""
FORWARDED_KEY = "switchroom.forwarded"
"""Key in the WSGI environment: True if any forwarding header is present, trusted or not."""
_WARNED_EXTENSION = "switchroom.plain_http_warned"
"""Key in `Flask.extensions`: present after a login over plain HTTP was logged."""


def cookie_name(request: Request) -> str:
    """Return `__Host-session` under HTTPS, else `session`.

    Browsers let no other host or path set a cookie with the prefix `__Host-`.
    """
    return "__Host-session" if request.is_secure else "session"


def browser_token(request: Request) -> str | None:
    """Return the random token of this browser, None if missing or malformed.

    Browsers that are not logged in have a token as well.
    """
    return _read_token(request, cookie_name(request))


def device_token(request: Request) -> str | None:
    """Return the token of a known device, None if missing or malformed.

    See `login/devices`.
    """
    return _read_token(request, _device_cookie_name(request))


def _read_token(request: Request, name: str) -> str | None:
    token = request.cookies.get(name, "")
    return token if 32 <= len(token) <= 128 and token.isascii() else None


def _device_cookie_name(request: Request) -> str:
    return "__Host-device" if request.is_secure else "device"


def is_local_request(request: Request) -> bool:
    """Return whether the request originates on this machine.

    A local proxy sends requests of remote clients; its forwarding headers show that. A web page can resolve
    its own host name to this machine (DNS rebinding); its requests have that name in the Host header.
    """
    peer, forwarded = request.environ[PEER_KEY], request.environ[FORWARDED_KEY]
    return is_loopback(peer) and not forwarded and _is_address_or_loopback(request.host)


def _is_address_or_loopback(host: str) -> bool:
    """Return whether a Host header has an IP address or loopback name."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return is_loopback(name) or bool(ip_address(name))
    except ValueError:
        return False


def put_cookie(response: Response, token: str, *, logged_in: bool) -> None:
    """Set the cookie with the browser's token.

    After a login the cookie survives a restart of the browser.
    """
    if logged_in and not request.is_secure and not is_local_request(request):
        _warn_of_plain_http()
    _set_cookie(response, cookie_name(request), token, sessions.MAX_AGE_SECONDS if logged_in else None)


def put_device_cookie(response: Response, token: str) -> None:
    """Set the cookie that marks the browser as a known device.

    It survives a logout.
    """
    _set_cookie(response, _device_cookie_name(request), token, devices.KEEP_SECONDS)


def _set_cookie(response: Response, name: str, token: str, max_age: float | None) -> None:
    response.set_cookie(
        name,
        token,
        max_age=None if max_age is None else int(max_age),
        path="/",
        secure=request.is_secure,
        httponly=True,
        samesite="Lax",
    )


def drop_cookie(response: Response) -> None:
    response.delete_cookie(
        cookie_name(request), path="/", secure=request.is_secure, httponly=True, samesite="Lax"
    )


def foreign_origin(request: Request, public_url: str | None) -> str | None:
    """Return the origin of a browser request if it is foreign.

    None for this server's own origin. None also if no header names an origin; then only the CSRF token
    protects the request.
    """
    origin = request.headers.get("Origin")
    if origin is None:
        site = request.headers.get("Sec-Fetch-Site")
        if site is not None and site not in ("same-origin", "none"):
            return f"a {site} page"
        referrer = request.headers.get("Referer")
        origin = _origin(referrer) if referrer else None
    if origin is None:
        return None
    own_origins = {_origin(request.host_url)}
    if public_url:
        own_origins.add(_origin(public_url))
    return None if _origin(origin) in own_origins else origin


def _origin(url: str) -> str:
    """Return 'scheme://host[:port]' as browsers write it, without the scheme's default port.

    A URL that has no origin is returned unchanged.
    """
    try:
        split_url = urlsplit(url)
        port = split_url.port
    except ValueError:
        return url
    if not split_url.scheme or not split_url.hostname:
        return url
    host = f"[{split_url.hostname}]" if ":" in split_url.hostname else split_url.hostname
    default_port = {"http": 80, "https": 443}.get(split_url.scheme)
    return f"{split_url.scheme}://{host}" + ("" if port in (None, default_port) else f":{port}")


def _warn_of_plain_http() -> None:
    """Log that a login was sent over plain HTTP, once per application."""
    if _WARNED_EXTENSION not in current_app.extensions:
        current_app.extensions[_WARNED_EXTENSION] = True
        log.warning(
            "login over plain HTTP: password and session can be read in transit; "
            "serve HTTPS (server.tls_cert), or name the HTTPS proxy in server.trusted_proxies"
        )
