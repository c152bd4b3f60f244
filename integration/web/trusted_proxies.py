"""Client address, scheme and host from `X-Forwarded-*` of configured proxies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from flask import Flask

from integration.access.browser import FORWARDED_KEY, PEER_KEY
from integration.settings.values import Network, is_in_networks, is_loopback

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_FORWARDING_HEADERS = (
    "HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_HOST", "HTTP_FORWARDED",
    "HTTP_X_REAL_IP", "HTTP_VIA",
)  # fmt: skip

_CLIENT_HEADERS = {
    "HTTP_X_FORWARDED_FOR": "X-Forwarded-For",
    "HTTP_FORWARDED": "Forwarded",
    "HTTP_X_REAL_IP": "X-Real-IP",
}
"""Headers that name the client of a proxy, by their key in the WSGI environment."""


class TrustedProxies:
    """WSGI middleware that applies `X-Forwarded-*` of configured proxies only.

    Werkzeug's ProxyFix is rejected: it counts hops and trusts any client that connects. `on_untrusted(peer,
    header)` is called for a forwarding header of a loopback peer that is not trusted.
    """

    def __init__(
        self,
        app: WSGIApplication,
        networks: Sequence[Network],
        on_untrusted: Callable[[str, str], None] = lambda _peer, _header: None,
    ) -> None:
        self._app = app
        self._on_untrusted = on_untrusted
        self._networks = networks

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        peer = environ.get("REMOTE_ADDR", "")
        environ[PEER_KEY] = peer
        environ[FORWARDED_KEY] = any(name in environ for name in _FORWARDING_HEADERS)
        if is_in_networks(self._networks, peer):
            self._apply_forwarded_headers(environ)
        elif environ[FORWARDED_KEY] and is_loopback(peer):
            for key, header in _CLIENT_HEADERS.items():
                if key in environ:
                    self._on_untrusted(peer, header)
                    break
        return self._app(environ, start_response)

    def _apply_forwarded_headers(self, environ: WSGIEnvironment) -> None:
        # Each proxy appends the address of its peer. The first address from the right that is not a trusted
        # proxy is the client; addresses further left were sent by the client and are not trusted.
        for forwarded_address in reversed(_header_values(environ, "HTTP_X_FORWARDED_FOR")):
            environ["REMOTE_ADDR"] = address = _without_port(forwarded_address)
            if not is_in_networks(self._networks, address):
                break
        protocols = _header_values(environ, "HTTP_X_FORWARDED_PROTO")
        if protocols and protocols[-1].lower() in ("http", "https"):
            environ["wsgi.url_scheme"] = protocols[-1].lower()
        hosts = _header_values(environ, "HTTP_X_FORWARDED_HOST")
        if hosts:
            environ["HTTP_HOST"] = hosts[-1]


def install(app: Flask, trusted_proxies: Sequence[Network], on_untrusted: Callable[[str, str], None]) -> None:
    """Put the middleware in front of `app`."""
    app.wsgi_app = TrustedProxies(app.wsgi_app, trusted_proxies, on_untrusted)  # type: ignore[method-assign]


def _header_values(environ: WSGIEnvironment, name: str) -> list[str]:
    return [part.strip() for part in str(environ.get(name, "")).split(",") if part.strip()]


def _without_port(address: str) -> str:
    """Return the address without a port: some proxies send '192.0.2.7:1234' or '[2001:db8::7]:1234'."""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.partition(":")[0] if address.count(":") == 1 else address
