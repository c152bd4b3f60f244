"""Session and adapter of requests, restricted to one host.

Requests use the given TLS context and end at the deadline of their exchange.
"""

from __future__ import annotations

import ssl
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from integration.outbound.connections import REPEATABLE_METHODS, PlainPool, SecurePool
from integration.outbound.public_addresses import PublicHosts


class PoolAdapter(HTTPAdapter):
    """Connections to the host of `base_url`, at most `connections` of them idle.

    `public_hosts` limits the addresses of the host; None allows any.
    """

    def __init__(
        self,
        base_url: str,
        context: ssl.SSLContext | None,
        connections: int,
        public_hosts: PublicHosts | None = None,
    ) -> None:
        # HTTPAdapter replaces both 0 and False by its own default, which wraps every error.
        super().__init__(max_retries=Retry(False, redirect=False))
        split_url = urlsplit(base_url)
        self._host = split_url.hostname or ""
        self._port = split_url.port
        self._origin_length = len(f"{split_url.scheme}://{split_url.netloc}")
        self._context = context
        self._public_hosts = public_hosts
        self._pool = self._make_pool(connections)

    def get_connection_with_tls_context(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> Any:
        """Return the shared pool for a read, otherwise a new pool.

        The server may close an idle connection while a request is in transit. A read is repeated in that
        case. A write must not be repeated, so it gets a new connection. Proxies and `verify` are ignored.
        """
        return self._pool if request.method in REPEATABLE_METHODS else self._make_pool(1)

    def cert_verify(self, *_: Any, **__: Any) -> None:
        """Do nothing: the TLS context validates certificates.

        The default sets certifi's bundle on the pool. The bundle would be loaded for each new connection
        (124 ms) and add public authorities to an installation that trusts only its own authority.
        """

    def request_url(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> str:
        """Return path and query of `request`, unchanged.

        `PreparedRequest.path_url` would drop tabs and an empty query.
        """
        return (request.url or "")[self._origin_length :]

    def close(self) -> None:
        self._pool.close()

    def _make_pool(self, connections: int) -> PlainPool | SecurePool:
        options: dict[str, Any] = {"maxsize": connections, "block": True, "public_hosts": self._public_hosts}
        if self._context is None:
            return PlainPool(self._host, self._port, **options)
        return SecurePool(self._host, self._port, ssl_context=self._context, **options)


class PlatformSession(requests.Session):
    """Session for URLs below `base_url`, without environment variables, cookies or redirects."""

    def __init__(self, base_url: str, adapter: PoolAdapter) -> None:
        super().__init__()
        self.trust_env = False
        self.headers.clear()
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self.adapters.clear()
        self.mount(base_url, adapter)

    def get_redirect_target(self, _response: requests.Response) -> None:
        """Return None for every response.

        With a target, `Session.send` reads the body of a 3xx without a limit, even if it does not follow.
        """
