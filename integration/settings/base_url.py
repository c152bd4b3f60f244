"""URLs of the dashboard and the facade, for links in e-mails and exports."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from integration.settings.model import Settings


def find_base_url(settings: Settings) -> str:
    """Return the URL of the dashboard: `server.public_url`, else the listening address."""
    return settings.server.public_url or find_local_url(settings)


def find_api_url(settings: Settings) -> str:
    """Return the URL of the facade.

    It responds at the platform's path, so clients of the platform need only another host.
    """
    return find_base_url(settings).rstrip("/") + urlsplit(settings.platform.base_url).path.rstrip("/")


def find_local_url(settings: Settings) -> str:
    """Return the listening address as a URL."""
    server = settings.server
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(server.host, server.host)
    scheme = "https" if server.tls_cert else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{server.port}"
