"""What every answer carries, how the browser's cookie is named, and whose word is taken for who is asking."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flask import Flask, Request, Response, request

from integration.access import sessions
from integration.settings.values import Network, contains, is_loopback

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

log = logging.getLogger(__name__)

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)

# Not `no-referrer`: with it browsers send `Origin: null` along with our own forms.
_ALWAYS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_HSTS = "max-age=31536000"

PEER = "switchroom.peer"
"""Key in the WSGI environment: the address the connection came from, whatever headers say."""
FORWARDED = "switchroom.forwarded"
"""Key in the WSGI environment: whether the request has any forwarding header, believed or not."""
_FORWARDING = ("HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_HOST", "HTTP_FORWARDED",
               "HTTP_X_REAL_IP", "HTTP_VIA")  # fmt: skip


class TrustedProxies:
    """WSGI middleware: takes client address, scheme and host from `X-Forwarded-*` of configured proxies only.

    Werkzeug's ProxyFix is rejected: it counts hops and believes whoever connects.
    """

    def __init__(self, app: WSGIApplication, networks: Sequence[Network]) -> None:
        self._app = app
        self._networks = networks

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        peer = environ.get("REMOTE_ADDR", "")
        environ[PEER] = peer
        environ[FORWARDED] = any(name in environ for name in _FORWARDING)
        if contains(self._networks, peer):
            self._believe(environ)
        return self._app(environ, start_response)

    def _believe(self, environ: WSGIEnvironment) -> None:
        # Each proxy appends who came to it: the first one from the right that is no proxy of ours is the
        # client; what stands further left is what the client said of itself.
        for told in reversed(_values(environ, "HTTP_X_FORWARDED_FOR")):
            environ["REMOTE_ADDR"] = address = _without_port(told)
            if not contains(self._networks, address):
                break
        protocols = _values(environ, "HTTP_X_FORWARDED_PROTO")
        if protocols and protocols[-1].lower() in ("http", "https"):
            environ["wsgi.url_scheme"] = protocols[-1].lower()
        hosts = _values(environ, "HTTP_X_FORWARDED_HOST")
        if hosts:
            environ["HTTP_HOST"] = hosts[-1]


def install(app: Flask, trusted_proxies: Sequence[Network]) -> None:
    """Put the middleware in front of `app` and the headers on its every answer."""
    app.wsgi_app = TrustedProxies(app.wsgi_app, trusted_proxies)  # type: ignore[method-assign]
    app.after_request(add_headers)


def add_headers(response: Response) -> Response:
    for name, value in _ALWAYS.items():
        response.headers[name] = value
    if request.is_secure:
        response.headers["Strict-Transport-Security"] = _HSTS
    # Only what is the same for everyone may stay in a cache.
    if request.endpoint != "static" or response.status_code >= 400:
        response.headers["Cache-Control"] = "no-store"
    return response


# --- the cookie ------------------------------------------------------------------------------------------

_warned = threading.Event()


def cookie_name(request: Request) -> str:
    """`__Host-session` under HTTPS, where browsers let no other host or path plant it; else `session`."""
    return "__Host-session" if request.is_secure else "session"


def browser_token(request: Request) -> str | None:
    """The random token this browser carries, logged in or not."""
    token = request.cookies.get(cookie_name(request), "")
    return token if 32 <= len(token) <= 128 and token.isascii() else None


def from_here(request: Request) -> bool:
    """Whether this machine asks for itself: a proxy on it speaks for others, and says so by its headers; a
    page whose name was made to lead here (DNS rebinding) speaks for its maker, and asks by that name."""
    peer, forwarded = request.environ[PEER], request.environ[FORWARDED]
    return is_loopback(peer) and not forwarded and _names_an_address(request.host)


def _names_an_address(host: str) -> bool:
    """Whether the Host header is an address, or a name that is this machine's wherever it is looked up."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return is_loopback(name) or bool(ip_address(name))
    except ValueError:
        return False


def put_cookie(response: Response, token: str, *, logged_in: bool) -> None:
    """Give the browser its token; one that is logged in keeps it over its restart."""
    if logged_in and not request.is_secure and not from_here(request) and not _warned.is_set():
        _warned.set()
        log.warning(
            "a login over plain HTTP: password and session can be read on the way; "
            "serve HTTPS (server.tls_cert), or name the HTTPS proxy in server.trusted_proxies"
        )
    response.set_cookie(
        cookie_name(request),
        token,
        max_age=int(sessions.ABSOLUTE) if logged_in else None,
        path="/",
        secure=request.is_secure,
        httponly=True,
        samesite="Lax",
    )


def drop_cookie(response: Response) -> None:
    response.delete_cookie(
        cookie_name(request), path="/", secure=request.is_secure, httponly=True, samesite="Lax"
    )


# --- where a request comes from --------------------------------------------------------------------------


def foreign_origin(request: Request, public_url: str | None) -> str | None:
    """The origin that made the browser send this request, if it isn't ours; None if it is, or if there was no
    browser that says (then the CSRF token alone decides)."""
    origin = request.headers.get("Origin")
    if origin is None:
        site = request.headers.get("Sec-Fetch-Site")
        if site is not None and site not in ("same-origin", "none"):
            return f"a {site} page"
        referrer = request.headers.get("Referer")
        origin = _origin(referrer) if referrer else None
    if origin is None:
        return None
    ours = {_origin(request.host_url)}
    if public_url:
        ours.add(_origin(public_url))
    return None if _origin(origin) in ours else origin


def _origin(url: str) -> str:
    """'scheme://host[:port]' in the spelling browsers use, without the scheme's own port; else as it is."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url
    if not parts.scheme or not parts.hostname:
        return url
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return f"{parts.scheme}://{host}" + ("" if port in (None, usual) else f":{port}")


def _values(environ: WSGIEnvironment, name: str) -> list[str]:
    return [part.strip() for part in str(environ.get(name, "")).split(",") if part.strip()]


def _without_port(told: str) -> str:
    """The address of '192.0.2.7:1234' and '[2001:db8::7]:1234', as some proxies tell it."""
    if told.startswith("["):
        return told[1:].partition("]")[0]
    return told.partition(":")[0] if told.count(":") == 1 else told
