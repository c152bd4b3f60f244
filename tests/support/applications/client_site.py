"""Product and simulator as processes, for tests of API clients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.harness import Product, Simulator, run_installation, wait_for

NODE = {
    "accept": "*/*",
    "accept-language": "*",
    "sec-fetch-mode": "cors",
    "user-agent": "node",
    "accept-encoding": "gzip, deflate",
}
"""Request headers of `fetch` in Node."""
CRM = "https://crm.example.com"


@dataclass
class Site:
    """A simulator and the product as its client.

    `key` is a local key, in the form user_id:secret.
    """

    simulator: Simulator
    product: Product
    key: str

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, Any]:
        """Send a request. Returns status, body and headers.

        A JSON body is parsed; any other body is returned as bytes.
        """
        sent = None if body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        status, content, received = self.product.client.send(method, "/v1.2/voipstudio" + path, sent, named)
        is_json = "json" in (received["Content-Type"] or "") and content
        return status, json.loads(content) if is_json else content, received

    def find_user(self, **expected: Any) -> dict[str, Any]:
        """Return the first platform user whose fields have the expected values."""
        users = self.simulator.control("GET", "account")["people"]
        return next(row for row in users if all(row.get(name) == value for name, value in expected.items()))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    # The Singer tap requests one page of 10,000 records and no second page.
    settings = {"facade__cors_origins": CRM, "facade__max_limit": "100000"}
    folder = tmp_path_factory.mktemp("data")
    options = ("--seed", "5", "--no-traffic", "--cdrs", "6000")
    with run_installation(folder, *options, base="/v1.2/voipstudio", **settings) as (simulator, product):
        command = product.command("key", "add", "clients", "--scope", "write", "--grant", "export,recordings")
        client_site = Site(simulator, product, command.stdout.strip())
        token = client_site.key.partition(":")[2]

        def has_synced() -> bool:
            return all(
                client_site.request("GET", f"/{name}?limit=1", X_Auth_Token=token)[2]["X-Mirror-Complete"]
                == "true"
                for name in ("cdrs", "monitors", "users", "queues", "sms")
            )

        wait_for(has_synced, "the mirror", 180)
        yield client_site
