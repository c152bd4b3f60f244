"""Limit of the request line, over real connections."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.support.harness import Product

LIMIT = 64_000
ORIGIN = "https://crm.example.com"


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    folder = tmp_path_factory.mktemp("request-line")
    server = Product(folder / "data", facade__cors_origins=ORIGIN)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def key(product: Product) -> dict[str, str]:
    return {
        "X-Auth-Token": product.command("key", "add", "reader", "--scope", "read")
        .stdout.strip()
        .partition(":")[2]
    }


def pad(path: str, size: int) -> str:
    """Return `path` with a parameter that makes the line of a GET `size` bytes long."""
    return path + "x" * (size - len(f"GET {path} HTTP/1.1"))


@pytest.mark.parametrize("path", ["/healthz?", "/login?next=%2F", "/v1.2/ping?x=", "/v1.2/users/%C3%A9%20?"])
def test_a_longer_line_gets_414_as_json_that_names_the_limit(product: Product, path: str) -> None:
    assert product.client.send("GET", pad(path, LIMIT))[0] != 414
    for size in (LIMIT + 1, LIMIT + 1_400):
        status, body, headers = product.client.send("GET", pad(path, size))
        assert (status, headers["Content-Type"]) == (414, "application/json")
        assert json.loads(body) == {
            "message": f"The request line has {size:,} bytes, more than the limit of 64,000. Use fewer or"
            " shorter values, or several requests.",
            "errors": [],
        }


def test_scripts_of_an_allowed_origin_can_read_a_refusal_of_the_facade(product: Product) -> None:
    long, encoded = pad("/v1.2/ping?x=", LIMIT + 1), {"Content-Encoding": "gzip"}
    for path, status, sent in ((long, 414, {}), ("/v1.2/ping", 415, encoded)):
        for origin, allowed in ((ORIGIN, ORIGIN), ("https://evil.example", None)):
            got, _, headers = product.client.send("GET", path, headers={**sent, "Origin": origin})
            assert (got, headers["Access-Control-Allow-Origin"]) == (status, allowed)
            assert "Origin" in headers["Vary"]


def test_a_filter_has_room_for_5000_ids_of_ten_digits(product: Product, key: dict[str, str]) -> None:
    def request(count: int, separator: str) -> int:
        ids = separator.join(str(4_278_000_000 + number) for number in range(count))
        condition = '[{"property":"live_id","operator":"in","value":[IDS]}]'
        path = "/v1.2/cdrs?filter=" + quote(condition, safe="").replace("IDS", ids)
        return product.client.send("GET", path, headers=key)[0]

    # 502: the mirror is empty and the platform is unreachable.
    assert request(5000, ",") == 502
    assert request(4900, "%2C") == 502
    assert request(4550, "%2C+") == 502
    assert request(3980, "%2C%20") == 502
    assert request(5000, "%2C") == 414
    assert request(4000, "%2C%20") == 414
