"""Does our own receiver answer under the address that the platform is to use?"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from urllib.parse import urlsplit

import orjson

from integration.core.errors import PlatformError
from integration.maintenance.check_result import Level, Line
from integration.outbound.exchange import JSON_LIMIT, Transport
from integration.platform_api.failures import reason
from integration.settings.data_dir_secrets import SECRET_FILE, webhook_secrets
from integration.settings.model import Settings
from integration.settings.values import is_loopback

SECONDS = 10.0


def examine(settings: Settings) -> Iterator[Line]:
    """Asks from outside, as the platform would."""
    url = settings.server.public_url
    if url is None:
        advice = "the platform delivers webhooks to HTTPS addresses only; set server.public_url"
        yield Line("warn", "public address", "none is set", advice)
        return
    parts = urlsplit(url)
    if parts.scheme != "https":
        level: Level = "warn" if is_loopback(parts.hostname or "") else "fail"
        advice = "the platform takes only https://; put a proxy with a certificate before Switchroom"
        yield Line(level, "public address", f"{url} is not HTTPS", advice)
    secret = _secret(settings)
    if secret is None:
        yield Line("warn", "public address", "not asked: no webhook secret yet", "start `switchroom serve`")
        return
    transport = Transport(url, 1)
    try:
        with transport.exchange("GET", f"/webhooks/{secret}", _headers(settings), None, SECONDS) as body:
            content = b"".join(body.chunks(JSON_LIMIT))
        yield _answered(settings, url, body.status, content)
    except PlatformError as error:
        yield Line("fail", "public address", f"{url}: {reason(error)}", "check DNS, firewall and proxy")
    finally:
        transport.close()


def _secret(settings: Settings) -> str | None:
    """The receiver's secret, where there is one already: making one is for `serve`."""
    kept = settings.storage.data_dir / SECRET_FILE
    return webhook_secrets(settings)[0] if settings.webhooks.secret or kept.exists() else None


def _headers(settings: Settings) -> dict[str, str]:
    hooks = settings.webhooks
    if hooks.username is None:
        return {"Accept": "application/json"}
    pair = base64.b64encode(f"{hooks.username}:{hooks.password or ''}".encode()).decode()
    return {"Accept": "application/json", "Authorization": f"Basic {pair}"}


def _answered(settings: Settings, url: str, status: int, content: bytes) -> Line:
    about = "public address"
    if status == 200 and _is_ours(content):
        return Line("ok", about, f"our receiver answers at {url}")
    if status == 404 and settings.webhooks.allow_from:
        advice = "webhooks.allow_from keeps this machine out, as it should; send a test from the platform"
        return Line("warn", about, f"{url} answers 404", advice)
    if status in (502, 503, 504):
        advice = "is `switchroom serve` running, and does the proxy lead to its port?"
    elif status == 401:
        advice = "webhooks.username and password are not the ones that `serve` was started with"
    elif 300 <= status < 400:
        advice = "the platform may not follow a redirect; set server.public_url to the address it leads to"
    else:
        advice = "something else answers there: lead the proxy to this Switchroom, with this data_dir"
    return Line("fail", about, f"{url} answers {status}, not as our receiver would", advice)


def _is_ours(content: bytes) -> bool:
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        return False
    return isinstance(body, dict) and isinstance(body.get("status"), str)
