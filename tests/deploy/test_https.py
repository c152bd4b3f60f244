"""Switchroom with HTTPS of its own: cookies, headers and the live stream."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.deploy.proxies import EMAIL, HOST, PASSWORD, Proxy, log_in, verify_live_stream
from tests.support.applications.data_dir import webhook
from tests.support.certificates import write_certificate
from tests.support.harness import Product, keep_port

pytestmark = pytest.mark.exhaustive


def test_login_headers_and_live_stream_over_https(tmp_path: Path) -> None:
    context = write_certificate(tmp_path, HOST, "127.0.0.1")
    with keep_port() as kept:
        port = kept.getsockname()[1]
        product = Product(
            tmp_path / "data",
            context=context,
            port=port,
            server__tls_cert=str(tmp_path / "cert.pem"),
            server__tls_key=str(tmp_path / "key.pem"),
            server__public_url=f"https://{HOST}:{port}",
        )
        try:
            added = product.command(
                "user", "add", EMAIL, "--role", "admin", "--password-stdin", stdin=PASSWORD
            )
            assert added.returncode == 0, added.stderr
            direct = Proxy(port, context, tmp_path / "no-log")
            cookie = log_in(direct)
            assert cookie.startswith("__Host-session=")
            status, headers, _ = direct.exchange(f"GET /calls HTTP/1.1\nCookie: {cookie}")
            assert status == 200
            assert headers["Strict-Transport-Security"].startswith("max-age=")
            # Without the prefix the cookie is another one, which no login sets under HTTPS.
            plain = cookie.removeprefix("__Host-")
            assert direct.exchange(f"GET /calls HTTP/1.1\nAccept: text/html\nCookie: {plain}")[0] in (
                302,
                303,
            )

            def send_webhook() -> None:
                event = json.loads(webhook(1)) | {"id": "stream.1"}
                body = json.dumps(event).encode()
                assert product.client.send("POST", product.webhook_path, body)[0] == 200

            verify_live_stream(direct, cookie, send_webhook)
        finally:
            product.stop()
