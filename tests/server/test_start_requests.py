"""Requests during a long start of the product, with real processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.server.test_damaged_databases import (
    assert_each_applied_once,
    make_body,
    overwrite_header,
    query,
    send_legs,
)
from tests.support.harness import Product, wait_for

SLOW_START = """
import os, threading
from pathlib import Path
from integration.cli import main
from integration.maintenance import upgrade

prepare = upgrade.prepare_data_dir

def wait_and_prepare(*arguments):
    while not Path(os.environ["GO"]).exists():
        threading.Event().wait(0.05)
    prepare(*arguments)

upgrade.prepare_data_dir = wait_and_prepare
main()
"""
"""Program of the product whose start waits for a file before it copies and migrates databases."""

ERASED = "+442079460042"


class SlowProduct(Product):
    def ready(self, seconds: float = 0) -> None:
        """Wait for nothing."""


@pytest.fixture
def starting(tmp_path: Path) -> Iterator[Product]:
    """A second start that waits for the file `go`; ERASED was erased before."""
    data_dir = tmp_path / "data"
    product = Product(data_dir)
    send_legs(product, 1, 1)
    erased = product.command("erase", ERASED, "--yes")
    assert erased.returncode == 0, erased.stderr
    product.stop()
    slow = SlowProduct(data_dir, program=("-c", SLOW_START), environment={"GO": str(tmp_path / "go")})
    yield slow
    slow.stop()


def test_webhooks_are_stored_before_everything_else_has_started(starting: Product, tmp_path: Path) -> None:
    path = starting.webhook_path
    wait_for(lambda: starting.client.send("GET", path)[0] == 200, "the receiver")
    send_legs(starting, 100, 3)
    body = make_body(200, 0)[:-1] + b', "src": "' + ERASED.encode() + b'"}'
    assert starting.client.send("POST", path, body)[0] == 200
    assert starting.client.send("POST", path + "x", body)[0] == 404
    stored = query(tmp_path / "data" / "inbox.db", "SELECT status, body FROM inbox ORDER BY seq")
    assert [row[0] for row in stored] == ["done", "done", *["new"] * 7]
    assert ERASED.encode() not in stored[-1][1]
    status, answer, headers = starting.client.send("GET", "/healthz")
    assert (status, headers["Retry-After"]) == (503, "5")
    assert b"Switchroom is starting" in answer
    (tmp_path / "go").touch()
    Product.ready(starting)
    wait_for(
        lambda: (
            {row[0] for row in query(tmp_path / "data" / "inbox.db", "SELECT status FROM inbox")} == {"done"}
        ),
        "all webhooks applied",
    )
    wait_for(lambda: any("the start of the worker took" in line for line in starting.lines), "the duration")


@pytest.mark.parametrize("spoil", [Path.unlink, overwrite_header])
def test_webhooks_are_stored_before_a_lost_or_damaged_mirror_is_built_again(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    data_dir = tmp_path / "data"
    product = Product(data_dir)
    send_legs(product, 1, 1)
    product.stop()
    spoil(data_dir / "mirror.db")
    starting = SlowProduct(data_dir, program=("-c", SLOW_START), environment={"GO": str(tmp_path / "go")})
    try:
        wait_for(lambda: starting.client.send("GET", starting.webhook_path)[0] == 200, "the receiver")
        send_legs(starting, 2, 1)
        (tmp_path / "go").touch()
        assert_each_applied_once(data_dir, 2)
    finally:
        starting.stop()
