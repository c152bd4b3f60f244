"""What every test folder shares: Debian's Chromium, and the whole product as processes.

The product is a simulator over HTTP, webhooks over HTTPS, and a logged-in browser.
"""

from __future__ import annotations

import re
import shutil
import signal
import sqlite3
import ssl
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest
import trustme
from hypothesis import HealthCheck
from playwright.sync_api import expect

# Before the first import of `tests.support`: failing asserts of helpers show their values.
pytest.register_assert_rewrite("tests.support")

from integration.sync.plan import list_full_sync_policies
from tests.support import speedups
from tests.support.application import app, platform, settings, wired_platform  # noqa: F401
from tests.support.clock import frozen_clock, movable_clock, stopped_clock  # noqa: F401
from tests.support.examples import EXHAUSTIVE
from tests.support.harness import Product, Simulator, wait_for

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
"""Debian's: the shell draws the same pages for a third of the time."""
CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # A process for each page and one for the network cost as much as the page.
    "--renderer-process-limit=1",
    "--enable-features=NetworkServiceInProcess2",
    "--in-process-gpu",
]
EMAIL, PASSWORD = "ann@example.com", "correct horse battery staple"


for profile in ("suite", EXHAUSTIVE):
    hypothesis.settings.register_profile(
        # What is slow is the machine; and a fixture that is shared by examples is meant to be.
        profile,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


def pytest_configure(config: pytest.Config) -> None:
    # Under nohup, started processes would inherit that SIGHUP is ignored, and the product respects this.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    hypothesis.settings.load_profile(EXHAUSTIVE if config.option.markexpr == "exhaustive" else "suite")
    speedups.install()
    if not hasattr(config, "workerinput"):
        speedups.compile_tests(len(config.getoption("tx", None) or ()))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files that the suite would import only to deselect all of their tests."""
    if collection_path.suffix != ".py" or config.option.markexpr != "not exhaustive":
        return None
    if any(Path(argument.partition("::")[0]).resolve() == collection_path for argument in config.args):
        return None
    return True if "\npytestmark = pytest.mark.exhaustive\n" in collection_path.read_text() else None


LONG = (
    "browser/test_webhook_to_page", "maintenance/test_backup_under_load", "server/", "cli/test_command_group",
    "cli/test_demo", "core/test_health", "web/", "sync/test_jobs", "sync/reading/test_full_sync", "browser/",
)  # fmt: skip
"""Files that take long for how many tests they have, longest wait first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long files come first: at the end, a worker would go on alone with one of them."""
    rank = {f"tests/{name}": number for number, name in enumerate(LONG)}
    items.sort(
        key=lambda item: min(
            (at for name, at in rank.items() if item.nodeid.startswith(name)), default=len(rank)
        )
    )


def pytest_collection_finish() -> None:
    speedups.leave_modules_alone()


@dataclass
class Whole:
    """A simulator with a small account and no traffic of its own, and the product wired to it."""

    simulator: Simulator
    product: Product
    ca: Path

    def script(self, name: str, **options: object) -> dict:
        """Have the simulator play a call; returns what it made."""
        return self.simulator.control("POST", "calls", {"script": name, **options})


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """A certificate for 127.0.0.1 and the authority that signed it, as files."""
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    issued.private_key_pem.write_to_path(folder / "key.pem")
    for number, blob in enumerate(issued.cert_chain_pems):
        blob.write_to_path(folder / "cert.pem", append=number > 0)
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory, certificates):
    """The product and a simulator, shared by the tests of a file: each works with calls of its own.

    They poll each other every second: until the end of the session they would use 3 % of a core.
    """
    simulator = Simulator(
        "--seed", "7", "--cdrs", "400", "--no-traffic", "--webhook-ca", str(certificates / "ca.pem")
    )
    product = None
    try:
        product = Product(
            tmp_path_factory.mktemp("whole") / "data",
            base_url=simulator.url,
            user_id=simulator.user_id,
            api_key=simulator.api_key,
            context=ssl.create_default_context(cafile=certificates / "ca.pem"),
            server__tls_cert=str(certificates / "cert.pem"),
            server__tls_key=str(certificates / "key.pem"),
            dashboard__country="GB",
            dashboard__timezone="Europe/London",
            sync__recent_interval="2",
            sync__live_interval="1",
            # Look-backs that often would use up what an office needs, and wait for each other.
            sync__max_requests_per_minute="60000",
        )
        simulator.control("POST", "webhook", {"url": product.url + product.webhook_path})
        mirror = product.data_dir / "mirror.db"
        wait_for(lambda: _is_filled(mirror), "all that the platform has", 120)
        added = product.command("user", "add", EMAIL, "--role", "admin", "--password-stdin", stdin=PASSWORD)
        assert added.returncode == 0, added.stderr
        yield Whole(simulator, product, certificates / "ca.pem")
    finally:
        if product is not None:
            product.stop()
        simulator.stop()


def _is_filled(mirror: Path) -> bool:
    """Whether every collection was read, and all calls of history are put together."""
    with closing(sqlite3.connect(f"{mirror.as_uri()}?mode=ro", uri=True)) as connection:
        complete = {
            row[0] for row in connection.execute("SELECT collection FROM _walks WHERE complete_at > ''")
        }
        waiting = connection.execute("SELECT 1 FROM _legs_due LIMIT 1").fetchone()
    return waiting is None and complete >= {policy.collection for policy in list_full_sync_policies()}


@pytest.fixture(scope="module")
def reader_key(whole):
    """A read key of the facade, as `Authorization` header."""
    added = whole.product.command("key", "add", "tests", "--scope", "read")
    assert added.returncode == 0, added.stderr
    user_id, _, secret = added.stdout.strip().partition(":")
    assert re.fullmatch(r"[0-9]{6,7}", user_id)
    assert re.fullmatch(r"[a-f0-9]{40}", secret)
    return {"X-Auth-Token": secret}


@pytest.fixture
def browser_context_args(browser_context_args):
    return {**browser_context_args, "ignore_https_errors": True}


@pytest.fixture
def logged_in(whole, page):
    """A browser page of a logged-in administrator. Console errors and failed loads end the test."""
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(whole.product.url + "/login")
    page.get_by_label("E-mail").fill(EMAIL)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(lambda url: "/login" not in url)
    yield page
    assert problems == []


@pytest.fixture
def facade(whole, reader_key):
    """`facade(path)` → parsed answer of the facade to a GET with a read key."""
    base = whole.simulator.base

    def get(path: str):
        return whole.product.client.json("GET", base + path, headers=reader_key)

    return get


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    """Debian's Chromium; a browser of playwright's own is never downloaded."""
    if CHROMIUM is None:
        pytest.fail(
            "the browser tests need Debian's Chromium: sudo apt install chromium-headless-shell",
            pytrace=False,
        )
    # A safety net, not a measure: a page may be slow where much else is at work.
    expect.set_options(timeout=30_000)
    return {
        **browser_type_launch_args,
        "executable_path": CHROMIUM,
        "args": CHROMIUM_ARGUMENTS,
    }
