"""Check of `doctor` at the public URL: the webhook receiver responds."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from urllib.parse import urlsplit

import orjson

from integration.core.errors import PlatformError
from integration.maintenance.check_result import CheckResult, Level
from integration.outbound.exchange import JSON_LIMIT, Exchange
from integration.outbound.tls import TlsFaultKind, describe_failure, find_tls_fault
from integration.settings.data_dir_secrets import load_webhook_secrets
from integration.settings.model import Settings
from integration.settings.values import is_loopback

TIMEOUT_SECONDS = 10.0
"""Seconds for the request."""


def check_public_url(settings: Settings) -> Iterator[CheckResult]:
    """Request the webhook receiver at `server.public_url`, as the platform does."""
    url = settings.server.public_url
    if url is None:
        advice = "the platform delivers webhooks to HTTPS URLs only; set server.public_url"
        yield CheckResult("warn", "public address", "not set", advice)
        return
    parsed_url = urlsplit(url)
    if parsed_url.scheme != "https":
        level: Level = "warn" if is_loopback(parsed_url.hostname or "") else "fail"
        advice = "the platform accepts only https://; use a reverse proxy with a certificate"
        yield CheckResult(level, "public address", f"{url} is not HTTPS", advice)
    if not (settings.storage.data_dir / "inbox.db").exists():
        finding = f"{url}: not checked before the first start"
        advice = "start `switchroom serve`, then repeat `switchroom doctor`"
        yield CheckResult("warn", "public address", finding, advice)
        return
    path = f"/webhooks/{load_webhook_secrets(settings)[0]}"
    exchange = Exchange(url, 1)
    try:
        with exchange.send("GET", path, _make_headers(settings), None, TIMEOUT_SECONDS) as response:
            content = b"".join(response.chunks(JSON_LIMIT))
    except PlatformError as error:
        yield _judge_failure(url, error)
    else:
        yield _judge_response(settings, url, response.status, content)
    finally:
        exchange.close()


_TLS_ADVICE: dict[TlsFaultKind, str] = {
    "authority": "the platform accepts no private authority; use a certificate of a public one, and let the"
    " server send the intermediate certificates",
    "expired": "renew the certificate, or check the clock of this host",
    "early": "check the clock of this host",
    "name": "use a certificate for the host name of server.public_url",
    "plain": "this port has no TLS; correct the port in server.public_url, or switch TLS on in the proxy",
    "other": "check the TLS settings of the proxy",
}
"""What to do about a fault of TLS at the public URL."""


def _judge_failure(url: str, error: PlatformError) -> CheckResult:
    fault = find_tls_fault(error)
    advice = "check DNS, firewall and proxy" if fault is None else _TLS_ADVICE[fault.kind]
    return CheckResult("fail", "public address", f"{url}: {describe_failure(error)}", advice)


def _make_headers(settings: Settings) -> dict[str, str]:
    webhook_settings = settings.webhooks
    if webhook_settings.username is None:
        return {"Accept": "application/json"}
    credentials = base64.b64encode(
        f"{webhook_settings.username}:{webhook_settings.password or ''}".encode()
    ).decode()
    return {"Accept": "application/json", "Authorization": f"Basic {credentials}"}


def _judge_response(settings: Settings, url: str, status: int, content: bytes) -> CheckResult:
    subject = "public address"
    if status == 200 and _is_switchroom_response(content):
        return CheckResult("ok", subject, f"the webhook receiver responds at {url}")
    if status == 404 and settings.webhooks.allow_from:
        advice = "webhooks.allow_from excludes this host, as expected; send a test from the platform"
        return CheckResult("warn", subject, f"{url} returns status 404", advice)
    if status in (502, 503, 504):
        advice = "check that `switchroom serve` runs and that the proxy forwards to its port"
    elif status == 401:
        advice = (
            "webhooks.username and webhooks.password differ from those of the running `serve`; restart it"
        )
    elif 300 <= status < 400:
        advice = "the platform may not follow a redirect; set server.public_url to the target of the redirect"
    else:
        advice = "another program responds; make the proxy forward to this Switchroom with this data_dir"
    return CheckResult(
        "fail",
        subject,
        f"{url} returns status {status}, which is not the webhook receiver's response",
        advice,
    )


def _is_switchroom_response(content: bytes) -> bool:
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        return False
    return isinstance(body, dict) and isinstance(body.get("status"), str)
