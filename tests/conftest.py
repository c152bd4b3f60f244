"""Shared fixtures: Debian's Chromium, and an installation as processes.

The installation consists of a simulator, the product with webhooks, and a logged-in browser.
"""

from __future__ import annotations

import importlib.util
import inspect
import io
import logging
import re
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest
import trustme
from hypothesis import HealthCheck

# Before the first import of `tests.support`: failing asserts of helpers show their values.
pytest.register_assert_rewrite("tests.support")

from integration.core import logs
from integration.sync.plan import list_full_sync_policies
from tests.support import speedups
from tests.support.application import app, platform, settings, wired_platform  # noqa: F401
from tests.support.clock import frozen_clock, movable_clock, stopped_clock  # noqa: F401
from tests.support.examples import EXHAUSTIVE
from tests.support.harness import Product, Simulator, run_installation, wait_for

EXTRAS = {"playwright": "browser", "fastmcp": "examples", "build": "release", "cyclonedx_py": "release"}
"""Modules of the tests `exhaustive` that the extra `test` does not install, and their extras."""

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
"""Debian's Chromium. The headless shell needs a third of the time for the same pages."""
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
        # A slow example is due to a slow machine, and examples share fixtures on purpose.
        profile,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.option.markexpr == "exhaustive":
        missing = {extra for module, extra in EXTRAS.items() if importlib.util.find_spec(module) is None}
        if missing:
            extras = ",".join(sorted(missing))
            raise pytest.UsageError(
                f"The tests `exhaustive` need more packages: .venv/bin/pip install -e '.[{extras}]'"
            )
    # Under nohup, started processes would inherit that SIGHUP is ignored, and the product respects this.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    hypothesis.settings.load_profile(EXHAUSTIVE if config.option.markexpr == "exhaustive" else "suite")
    speedups.install()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore files in which all tests are `exhaustive`, unless these are selected.

    The suite would import them only to deselect all of their tests. It runs without Playwright, so the folder
    of its tests is ignored completely.
    """
    if collection_path.name == "browser" and importlib.util.find_spec("playwright") is None:
        if any("tests/browser" in argument for argument in config.args):
            raise pytest.UsageError("The tests in a browser need .venv/bin/pip install -e '.[browser]'")
        return True
    if collection_path.suffix != ".py" or config.option.markexpr != "not exhaustive":
        return None
    if any(Path(argument.partition("::")[0]).resolve() == collection_path for argument in config.args):
        return None
    return True if "\npytestmark = pytest.mark.exhaustive\n" in collection_path.read_text() else None


def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Create no items for functions that are `exhaustive`, unless these are selected or named.

    The suite would deselect them, which takes each worker longer: many have hundreds of parameters.
    """
    config = collector.config
    if config.option.markexpr != "not exhaustive" or any("::" in argument for argument in config.args):
        return None
    if not inspect.isfunction(obj):
        return None
    return [] if any(mark.name == "exhaustive" for mark in getattr(obj, "pytestmark", ())) else None


LONG = (
    "browser/test_working_days", "server/", "cli/test_command_group",
    "cli/test_demo", "core/test_health", "web/", "sync/test_jobs", "sync/reading/test_full_sync", "browser/",
)  # fmt: skip
"""Files with a long time per test, longest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run LONG files first, so that all workers end together."""
    rank = {f"tests/{name}": number for number, name in enumerate(LONG)}
    items.sort(
        key=lambda item: min(
            (at for name, at in rank.items() if item.nodeid.startswith(name)), default=len(rank)
        )
    )


def pytest_collection_finish() -> None:
    speedups.freeze_modules()


@dataclass
class Installation:
    """A simulator without traffic and the product connected to it."""

    simulator: Simulator
    product: Product

    def script(self, name: str, **options: object) -> dict:
        """Simulate a call by script. Returns the ids that the simulator made."""
        return self.simulator.control("POST", "calls", {"script": name, **options})


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """Folder with a certificate for 127.0.0.1 and its authority."""
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    issued.private_key_pem.write_to_path(folder / "key.pem")
    for number, blob in enumerate(issued.cert_chain_pems):
        blob.write_to_path(folder / "cert.pem", append=number > 0)
    return folder


@pytest.fixture(scope="module")
def installation(tmp_path_factory):
    """Product and simulator, shared by the tests of a file.

    Each test uses calls of its own. Kept for the session, the processes would use 3 % of a core, because they
    poll every second.
    """
    data_dir = tmp_path_factory.mktemp("installation") / "data"
    with run_installation(
        data_dir,
        *("--seed", "7", "--cdrs", "60", "--no-traffic"),
        dashboard__country="GB",
        dashboard__timezone="Europe/London",
        sync__recent_interval="2",
        sync__live_interval="1",
    ) as (simulator, product):
        simulator.control("POST", "webhook", {"url": product.url + product.webhook_path})
        wait_for(lambda: _is_filled(data_dir / "mirror.db"), "a complete initial sync", 120)
        added = product.command("user", "add", EMAIL, "--role", "admin", "--password-stdin", stdin=PASSWORD)
        assert added.returncode == 0, added.stderr
        yield Installation(simulator, product)


def _is_filled(mirror: Path) -> bool:
    """Whether every collection is synced and all historic calls are computed."""
    with closing(sqlite3.connect(f"{mirror.as_uri()}?mode=ro", uri=True)) as connection:
        complete = {
            row[0] for row in connection.execute("SELECT collection FROM _walks WHERE complete_at > ''")
        }
        waiting = connection.execute("SELECT 1 FROM _due WHERE derived = 'legs' LIMIT 1").fetchone()
    return waiting is None and complete >= {policy.collection for policy in list_full_sync_policies()}


@pytest.fixture(scope="module")
def reader_key(installation):
    """A read key of the facade, as header `X-Auth-Token`."""
    added = installation.product.command(
        "key", "add", "tests", "--scope", "read", "--grant", "export,recordings"
    )
    assert added.returncode == 0, added.stderr
    user_id, _, secret = added.stdout.strip().partition(":")
    assert re.fullmatch(r"[0-9]{6,7}", user_id)
    assert re.fullmatch(r"[a-f0-9]{40}", secret)
    return {"X-Auth-Token": secret}


@pytest.fixture
def logged_in(installation, page):
    """A page of a logged-in administrator. A console error fails the test."""
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(installation.product.url + "/login")
    page.get_by_label("E-mail").fill(EMAIL)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(lambda url: "/login" not in url)
    yield page
    assert problems == []


@pytest.fixture
def facade(installation, reader_key):
    """`facade(path)`: parsed response of the facade to GET with a read key."""
    base = installation.simulator.base

    def get(path: str):
        return installation.product.client.json("GET", base + path, headers=reader_key)

    return get


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    """Start Debian's Chromium; Playwright downloads no browser."""
    if CHROMIUM is None:
        pytest.fail(
            "the browser tests need Debian's Chromium: sudo apt install chromium-headless-shell",
            pytrace=False,
        )
    # Imported here: the suite runs without Playwright.
    from playwright.sync_api import expect

    # Only a safety net: pages are slow while other tests use the processor.
    expect.set_options(timeout=30_000)
    return {
        **browser_type_launch_args,
        "executable_path": CHROMIUM,
        "args": CHROMIUM_ARGUMENTS,
    }


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[str]]]:
    """Lines on standard error since the last call, without their times."""
    written = io.StringIO()
    root = logging.getLogger()
    earlier_handlers, earlier_level = root.handlers[:], root.level
    root.handlers.clear()
    monkeypatch.setattr(sys, "stderr", written)
    logs.configure_logging()

    def read_lines() -> list[str]:
        lines = written.getvalue().splitlines()
        written.seek(0)
        written.truncate()
        return [line.split(" ", 2)[2] for line in lines]

    yield read_lines
    root.handlers[:] = earlier_handlers
    root.setLevel(earlier_level)
