"""Requests during a long start of the product, with real processes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration.server import start_requests
from integration.server.start_requests import StartRequests
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
    assert any("the start of the worker took" in line for line in starting.lines)


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


def call(application: StartRequests, path: str, method: str = "GET") -> tuple[str, bytes]:
    statuses: list[str] = []
    body = application(
        {"PATH_INFO": path, "REQUEST_METHOD": method}, lambda status, _headers: statuses.append(status)
    )
    return statuses[0], b"".join(body)


def respond(word: bytes) -> start_requests.Application:
    def application(_environ: object, start_response: object) -> list[bytes]:
        start_response("200 OK", [])  # type: ignore[operator]
        return [word]

    return application


def test_a_request_waits_for_what_answers_it_but_not_longer_than_a_start_may_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    application = StartRequests()
    answers: list[tuple[str, bytes]] = []
    waiting = [
        threading.Thread(target=lambda path=path: answers.append(call(application, path)))
        for path in ("/webhooks/secret", "/calls")
    ]
    waiting[0].start()
    application.open_receiver("/webhooks/", respond(b"receiver"))
    waiting[0].join(30)
    waiting[1].start()
    application.open_all(respond(b"all"))
    waiting[1].join(30)
    assert answers == [("200 OK", b"receiver"), ("200 OK", b"all")]
    monkeypatch.setattr(start_requests, "PATIENCE_SECONDS", 0.0)
    late = StartRequests()
    assert call(late, "/calls") == ("503 Service Unavailable", start_requests.BODY)
    assert call(late, "/webhooks/secret", "HEAD") == ("503 Service Unavailable", b"")
