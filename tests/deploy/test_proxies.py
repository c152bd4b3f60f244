"""Caddy and nginx with the published files proxy a running Switchroom."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from tests.benchmarks.tools import load
from tests.deploy.proxies import EMAIL, FORGED, HOST, PASSWORD, Proxy, log_in, run_proxy, verify_live_stream
from tests.support.applications.data_dir import webhook
from tests.support.harness import Product, free_port, wait_for

SECRET = "s" * 43
KINDS = ("caddy", "nginx")
pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return {kind: free_port() for kind in KINDS}


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory, ports: dict[str, int]) -> Iterator[Product]:
    data_dir = tmp_path_factory.mktemp("proxied") / "data"
    server = Product(
        data_dir,
        server__trusted_proxies="127.0.0.1",
        server__public_url=f"https://{HOST}:{ports['nginx']}",
        webhooks__secret=SECRET,
    )
    try:
        added = server.command(
            "user", "add", EMAIL, "--role", "admin", "--password-stdin", stdin=PASSWORD + "\n"
        )
        assert added.returncode == 0, added.stderr
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def proxies(
    product: Product, ports: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Proxy]]:
    with ExitStack() as stack:
        yield {
            kind: stack.enter_context(
                run_proxy(kind, tmp_path_factory.mktemp(kind), product.port or 0, ports[kind])
            )
            for kind in KINDS
        }


@pytest.fixture(params=KINDS)
def proxy(request: pytest.FixtureRequest, proxies: dict[str, Proxy]) -> Proxy:
    return proxies[request.param]


def test_a_login_through_the_proxy_is_one_over_https_from_the_client(proxy: Proxy, product: Product) -> None:
    cookie = log_in(proxy)
    status, headers, page = proxy.exchange(f"GET /calls HTTP/1.1\nCookie: {cookie}")
    assert status == 200, page[:500]
    assert headers["Strict-Transport-Security"].startswith("max-age=")
    with closing(sqlite3.connect(f"file:{product.data_dir}/house.db?mode=ro", uri=True)) as database:
        rows = database.execute("SELECT * FROM audit ORDER BY id DESC LIMIT 5").fetchall()
    assert "127.0.0.1" in str(rows)
    assert "203.0.113.9" not in str(rows)


def test_forwarding_headers_of_a_client_are_replaced(proxy: Proxy, product: Product) -> None:
    # A client that could claim to be local would read the errors of /readyz and the metrics.
    status, _, body = proxy.exchange(f"GET /readyz HTTP/1.1\n{FORGED.replace('203.0.113.9', '127.0.0.1')}")
    assert status == 200
    assert all(check.keys() == {"state"} for check in json.loads(body)["checks"].values())
    status, _, _ = proxy.exchange("GET /metrics HTTP/1.1\nX-Forwarded-For: 127.0.0.1")
    assert status == 401


def test_webhooks_pass_up_to_their_limit(proxy: Proxy, product: Product) -> None:
    number = proxy.port
    assert proxy.exchange(f"POST /webhooks/{SECRET} HTTP/1.1", webhook(number))[0] == 200
    assert proxy.exchange(f"POST /webhooks/{'x' * 43} HTTP/1.1", webhook(number))[0] == 404
    large = json.dumps({"id": f"large.{number}", "text": "x" * 255_000}).encode()
    assert proxy.exchange(f"POST /webhooks/{SECRET} HTTP/1.1", large)[0] == 200
    # Spaces are an empty body, a probe.
    assert proxy.exchange(f"POST /webhooks/{SECRET} HTTP/1.1", b" " * 262_144)[0] == 200
    for size in (262_145, 300_000, 1_100_000):
        assert proxy.exchange(f"POST /webhooks/{SECRET} HTTP/1.1", b" " * size)[0] == 413


def test_a_burst_of_webhooks_passes(proxy: Proxy, product: Product) -> None:
    posts, first = 2_000, proxy.port * 10_000

    def count_stored() -> int:
        with closing(sqlite3.connect(f"file:{product.data_dir}/inbox.db?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT count(*) FROM inbox").fetchone()[0])

    before = count_stored()
    burst = load.run(
        proxy.port,
        f"/webhooks/{SECRET}",
        requests=posts,
        connections=500,
        first=first,
        host=HOST,
        context=proxy.context,
    )
    assert (burst.failures, count_stored() - before) == (0, posts)


def test_a_request_to_the_rest_api_passes_with_a_body_of_several_megabytes(
    proxy: Proxy, product: Product
) -> None:
    key = product.command("key", "add", f"large-{proxy.port}", "--scope", "write").stdout.strip()
    body = json.dumps({"name": "x" * 5_500_000}).encode()
    headers = f"X-Auth-Token: {key.partition(':')[2]}\nContent-Type: application/json"
    status, _, answer = proxy.exchange(f"POST /v1.2/contacts HTTP/1.1\n{headers}", body)
    # The product responds: the platform is unreachable.
    assert status == 502
    assert "platform" in json.loads(answer)["message"]


def test_a_request_line_passes_up_to_the_limit_of_switchroom(proxy: Proxy) -> None:
    def send(size: int) -> tuple[int, bytes]:
        line = f"GET /healthz?{'x' * (size - len('GET /healthz? HTTP/1.1'))} HTTP/1.1"
        status, _, body = proxy.exchange(line)
        return status, body

    assert send(64_000) == (200, b"ok\n")
    status, body = send(64_001)
    assert status == 414
    assert "limit of 64,000" in json.loads(body)["message"]


def test_events_arrive_while_the_live_stream_is_open(proxy: Proxy, product: Product) -> None:
    cookie = log_in(proxy)
    event = json.loads(webhook(proxy.port)) | {
        "id": f"stream.{proxy.port}",
        "call_id": 4_400_000_000 + proxy.port,
    }
    event["event_time"] = event["start_time"] = "2026-03-01 12:00:00"

    def send_webhook() -> None:
        assert product.client.send("POST", f"/webhooks/{SECRET}", json.dumps(event).encode())[0] == 200

    verify_live_stream(proxy, cookie, send_webhook)


def test_json_is_compressed_and_compared_by_its_tag(proxy: Proxy, product: Product) -> None:
    for number in range(20):
        event = json.loads(webhook(proxy.port + number)) | {"id": f"packed.{proxy.port}.{number}"}
        event["call_id"] = 4_500_000_000 + proxy.port * 100 + number
        assert product.client.send("POST", f"/webhooks/{SECRET}", json.dumps(event).encode())[0] == 200
    key = product.command("key", "add", f"packed-{proxy.port}", "--scope", "read").stdout.strip()
    request = f"GET /v1.2/calls HTTP/1.1\nX-Auth-Token: {key.partition(':')[2]}\nAccept-Encoding: gzip"

    def count_calls() -> int:
        body = proxy.exchange(request)[2]
        return len(json.loads(gzip.decompress(body))["data"]) if body[:2] == b"\x1f\x8b" else 0

    wait_for(lambda: count_calls() >= 20, "the calls of the webhooks, compressed")
    status, headers, body = proxy.exchange(request)
    assert (status, headers["Content-Encoding"]) == (200, "gzip")
    assert headers["ETag"].startswith('W/"')
    assert "accept-encoding" in ",".join(headers.get_all("Vary", [])).lower()
    status, unchanged, body = proxy.exchange(f"{request}\nIf-None-Match: {headers['ETag']}")
    assert (status, body, unchanged["ETag"]) == (304, b"", headers["ETag"])
    # A live stream that is compressed can be held back.
    with proxy.connect() as stream:
        stream.sendall(
            f"GET /live/stream HTTP/1.1\r\nHost: {HOST}:{proxy.port}\r\nCookie: {log_in(proxy)}\r\n"
            "Accept-Encoding: gzip\r\n\r\n".encode()
        )
        received = b""
        while b"\r\n\r\n" not in received:
            received += stream.recv(4096)
    assert b"200 OK" in received
    assert b"content-encoding" not in received.lower()


def test_secrets_are_not_in_the_log_of_the_proxy(proxy: Proxy, product: Product) -> None:
    proxy.exchange(f"GET /webhooks/{SECRET} HTTP/1.1")
    proxy.exchange("GET /healthz HTTP/1.1")
    log = proxy.log_path
    wait_for(lambda: log.exists() and "/healthz" in log.read_text(), "the log of the proxy")
    assert SECRET not in log.read_text()
