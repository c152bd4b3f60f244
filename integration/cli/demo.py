"""`switchroom demo`: a simulated platform, and the whole product wired to it over HTTP."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

import click

from integration.core import process_lock as lock
from integration.core.errors import SwitchroomError
from integration.server import port
from integration.server.subprocesses import Child
from integration.settings.data_dir_secrets import ACCOUNT_FILE, SECRET_FILE, webhook_secrets
from integration.settings.model import load
from integration.settings.sources import PREFIX

EMAIL = "demo@example.com"
MARK = "demo.json"
"""A folder with this file is a demo's, to be emptied at the next start; any other is left alone."""

_OURS = ("mirror.db", "inbox.db", "house.db")
_FOLDERS = ("recordings", "voicemail", "backups")
_START_SECONDS = 60.0
_SERVE_END_SECONDS = 10.0
_SIMULATOR_END_SECONDS = 5.0
_TICK_SECONDS = 0.1


@click.command(
    "demo",
    help="Start a simulated platform with months of history and live calls, and the whole product wired to"
    " it; prints the URL and a login. Nothing to configure. Every start begins anew.",
)
@click.option(
    "--port", "wanted_port", default=8000, show_default=True, help="Port of the dashboard; 0 is a free one."
)
@click.option(
    "--data",
    default="demo-data",
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the demo's data.",
)
@click.option("--speed", default=1.0, show_default=True, help="How much faster calls come and go.")
@click.option("--seed", default=1, show_default=True, help="The same seed gives the same account again.")
@click.option("--cdrs", default=20_000, show_default=True, help="About how many CDRs of history.")
def command(wanted_port: int, data: Path, speed: float, seed: int, cdrs: int) -> None:
    if speed <= 0:
        raise click.UsageError("--speed: must be above 0")
    if not 0 <= wanted_port <= 65535:
        raise click.UsageError("--port: must be from 0 to 65535")
    free_port = _probe(wanted_port)
    password = prepare(data)
    with _Signals() as stop:
        run(data, free_port, _Account(seed, cdrs, speed), password, stop)


@dataclass(frozen=True)
class _Account:
    """What the simulated platform has, and how much faster than real its calls come and go."""

    seed: int
    cdrs: int
    speed: float

    def options(self) -> tuple[str, ...]:
        return ("--seed", str(self.seed), "--cdrs", str(self.cdrs), "--speed", str(self.speed))


def run(data: Path, dashboard_port: int, account: _Account, password: str, stop: threading.Event) -> None:
    """Everything from the first process to the last, until `stop` is set. Raises SwitchroomError."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    children: list[Child] = []
    try:
        _say("Starting a simulated platform with months of history …")
        simulator = Child(
            "the simulated platform",
            *("simulator", "--port", "0", *account.options()),
            environ=plain,
        )
        children.append(simulator)
        base_url = simulator.line("Simulator: ", _START_SECONDS, stop)
        environ = plain | _environment(
            data,
            dashboard_port,
            base_url,
            user_id=simulator.line("User id: ", _START_SECONDS, stop),
            api_key=simulator.line("API key: ", _START_SECONDS, stop),
        )
        settings = load(None, environ)
        _say("Starting Switchroom …")
        serve = Child("`switchroom serve`", "serve", environ=environ)
        children.append(serve)
        url = f"http://127.0.0.1:{dashboard_port}"
        _wait(lambda: _answers(url), children, stop)
        if stop.is_set():
            return
        _send_webhooks(base_url, f"{url}/webhooks/{webhook_secrets(settings)[0]}")
        print(f"Dashboard: {url}/\nLogin: {EMAIL}\nPassword: {password}", flush=True)
        _say("Ctrl-C ends it.")
        _wait(lambda: False, children, stop)
    finally:
        for child, seconds in reversed(
            list(zip(children, (_SIMULATOR_END_SECONDS, _SERVE_END_SECONDS), strict=False))
        ):
            child.end(seconds)


def prepare(data: Path) -> str:
    """Empty the folder of an earlier demo, or make a new one; returns the password of its login.

    The simulated platform forgets everything at its end and gives out the same ids again, so that a copy of
    the last one would be wrong. Raises SwitchroomError for a folder that is in use or not a demo's.
    """
    if data.resolve() == Path("data").resolve():
        raise click.UsageError("--data: 'data' is where `serve` keeps real data")
    mark = data / MARK
    try:
        data.mkdir(parents=True, exist_ok=True)
        if not mark.exists() and any(data.iterdir()):
            raise SwitchroomError(f"{data} holds something that is not a demo's; choose another by --data")
        with lock.take(data, "demo"):
            password = _kept_password(mark)
            _empty(data)
            mark.write_text(json.dumps({"password": password}) + "\n")
            _add_login(data, password)
    except OSError as error:
        raise SwitchroomError(f"{data}: can't be written: {error.strerror}") from error
    return password


def _kept_password(mark: Path) -> str:
    """The password of the last demo on this data, so that a browser that remembers it is right."""
    try:
        kept = json.loads(mark.read_text())["password"]
        if isinstance(kept, str) and len(kept) >= 12:
            return kept
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return secrets.token_urlsafe(12)


def _empty(data: Path) -> None:
    """Remove what the product keeps in a data_dir, by name: nothing else can be lost by a wrong --data."""
    for name in _OURS:
        for suffix in ("", "-wal", "-shm", "-journal"):
            (data / f"{name}{suffix}").unlink(missing_ok=True)
    for name in (ACCOUNT_FILE, SECRET_FILE):
        (data / name).unlink(missing_ok=True)
    for name in _FOLDERS:
        folder = data / name
        if folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder)


def _probe(wanted: int) -> int:
    """The port that the dashboard gets; a clear error now rather than after the simulator has started."""
    try:
        with port.listen("127.0.0.1", wanted) as listener:
            return int(listener.getsockname()[1])
    except SwitchroomError as error:
        raise SwitchroomError(str(error).replace("server.port", "one by --port")) from error


def _environment(
    data: Path, dashboard_port: int, base_url: str, *, user_id: str, api_key: str
) -> dict[str, str]:
    return {
        # Whatever config.toml lies here is about a real account.
        "SWITCHROOM_CONFIG": os.devnull,
        "SWITCHROOM_PLATFORM__BASE_URL": base_url,
        "SWITCHROOM_PLATFORM__USER_ID": user_id,
        "SWITCHROOM_PLATFORM__API_KEY": api_key,
        "SWITCHROOM_SERVER__PORT": str(dashboard_port),
        "SWITCHROOM_STORAGE__DATA_DIR": str(data.absolute()),
        "SWITCHROOM_DASHBOARD__COUNTRY": "GB",
        "SWITCHROOM_DASHBOARD__TIMEZONE": "Europe/London",
        # The platform is next door and nobody's bill: look often.
        "SWITCHROOM_SYNC__RECENT_INTERVAL": "10",
        "SWITCHROOM_SYNC__LIVE_INTERVAL": "5",
        "SWITCHROOM_SYNC__MAX_REQUESTS_PER_MINUTE": "6000",
    }


def _add_login(data: Path, password: str) -> None:
    """Before `serve` starts, which would print a set-up link for its first administrator."""
    # Not at the top: `--help` needs none of it.
    from integration.access import people
    from integration.access.passwords import hash_password
    from integration.app_schema import open_house

    house = open_house(data / "house.db")
    try:
        people.create(house, EMAIL, "admin", password_hash=hash_password(password))
    finally:
        house.close()


def _send_webhooks(base_url: str, url: str) -> None:
    """Tell the simulated platform where webhooks go."""
    status, answer = _ask(base_url, "POST", "/_simulator/webhook", json.dumps({"url": url}))
    if status >= 300:
        raise SwitchroomError(f"the simulated platform refused the webhook address: {status} {answer}")


def _ask(base: str, method: str, path: str, body: str | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlsplit(base).netloc, timeout=10)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")[:500]
    finally:
        connection.close()


def _answers(url: str) -> bool:
    try:
        return _ask(url, "GET", "/login")[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def _wait(done: Callable[[], bool], children: list[Child], stop: threading.Event) -> None:
    """Until `done()` or `stop`. Raises SwitchroomError when one of `children` ends meanwhile."""
    while not stop.wait(_TICK_SECONDS):
        for child in children:
            if child.status is not None:
                raise SwitchroomError(f"{child.name} ended with status {child.status}; the demo ends, too")
        if done():
            return


class _Signals:
    """SIGTERM and SIGINT set an event instead of interrupting, so that processes end in order."""

    def __enter__(self) -> threading.Event:
        event = threading.Event()

        def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
            event.set()

        self._before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        return event

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
