"""Command `switchroom demo`: Switchroom, connected to a simulated platform over HTTP."""

from __future__ import annotations

import ctypes
import http.client
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import zoneinfo
from collections.abc import Callable
from datetime import timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from integration.cli.console import print_message
from integration.core import clock, process_lock, tokens
from integration.core.errors import SwitchroomError
from integration.maintenance.manifest import DATABASES
from integration.maintenance.version_record import RECORD_FILE
from integration.server import port
from integration.settings.data_dir_secrets import ACCOUNT_FILE, SECRET_FILE, load_webhook_secrets
from integration.settings.demo_marker import EMAIL, MARKER_FILE
from integration.settings.model import load
from integration.settings.sources import PREFIX
from integration.sqlite.database_files import CREATED_FILE

if TYPE_CHECKING:
    from integration.simulator.embed import Simulator

ZONE_NAME = "London (demo time)"
"""Time zone of the demo, in which it is morning at the start.

A file in the data folder defines it. `serve` finds it by PYTHONTZPATH. So pages and headings
have its name without a setting for it.
"""
FIRST_DATA_SECONDS = 60.0
"""Seconds that the demo waits for people, numbers, contacts and a webhook before it prints the login."""

_FOLDERS = ("recordings", "voicemail", "backups", "zoneinfo")
_SERVE_END_SECONDS = 10.0
_TICK_SECONDS = 0.1
_PR_SET_PDEATHSIG = 1


@click.command(
    "demo",
    help="Start a simulated platform with months of history and live calls, and Switchroom connected to it."
    " It is always morning in its office. Prints the URL, a login, and a link that logs in once."
    " Needs no configuration. Every start deletes the data of the previous demo.",
)
@click.option(
    "--port",
    "requested_port",
    default=8000,
    show_default=True,
    help="Port of the dashboard; 0 selects a free port.",
)
@click.option(
    "--data",
    default="demo-data",
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Data folder of the demo.",
)
@click.option("--speed", default=1.0, show_default=True, help="Speed factor of simulated calls.")
@click.option(
    "--seed", default=1, show_default=True, help="Seed of the account; equal seeds, equal accounts."
)
@click.option("--cdrs", default=40_000, show_default=True, help="Approximate number of CDRs of the history.")
@click.option(
    "--assigned-mobiles",
    is_flag=True,
    help="Give callers and contacts mobile numbers of an assigned range (+44 7400 123…) instead of those for"
    " fiction, which text back does not accept as mobile numbers.",
)
def command(
    requested_port: int, data: Path, speed: float, seed: int, cdrs: int, assigned_mobiles: bool
) -> None:
    if speed <= 0:
        raise click.UsageError(f"--speed: must be above 0, not {speed:g}")
    if not 0 <= requested_port <= 65535:
        raise click.UsageError(f"--port: must be from 0 to 65535, not {requested_port}")
    listener = _reserve_port(requested_port)
    # Imported here because `--help` does not need it.
    from integration.simulator import embed
    from integration.simulator.calls.office_hours import find_morning_offset

    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    password, link = prepare_data_dir(data, url)
    offset = find_morning_offset(clock.unix())
    add_zone(data, offset)
    print_message(f"It is {clock.now().astimezone(timezone(offset)):%H:%M} in {ZONE_NAME}.")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with listener:
        login_lines = f"Dashboard: {url}/\nLogin: {EMAIL}\nPassword: {password}\nOpen: {link}"
        print_message("Starting a simulated platform with months of history …")
        simulator = embed.start(
            seed=seed,
            cdrs=cdrs,
            speed=speed,
            time_zone=ZONE_NAME,
            live=True,
            office_day=True,
            assigned_mobiles=assigned_mobiles,
        )
        try:
            run_serve(data, listener, simulator, login_lines, stop)
        finally:
            simulator.stop()


def run_serve(
    data: Path, listener: socket.socket, simulator: Simulator, login_lines: str, stop: threading.Event
) -> None:
    """Run `serve` as a child process until `stop` is set.

    `listener` reserves the port of `serve` until its start. `login_lines` are printed when pages have names.
    Raises SwitchroomError.
    """
    environ = _build_environment(data, listener.getsockname()[1], simulator)
    settings = load(None, environ)
    url = f"http://127.0.0.1:{settings.server.port}"
    print_message("Starting Switchroom …")
    listener.close()
    # In a session of its own: Ctrl-C reaches only this process, which stops `serve`.
    serve = subprocess.Popen(
        [sys.executable, "-m", "integration", "serve", "--quiet"],
        env=environ,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_end_with_parent,
    )
    try:
        _wait_until(lambda: _is_responding(url), serve, stop)
        if stop.is_set():
            return
        simulator.context.webhook_sender.url = f"{url}/webhooks/{load_webhook_secrets(settings)[0]}"
        simulator.context.traffic_generator.schedule_first_calls()
        print_message("Reading people, numbers and contacts …")
        deadline = clock.monotonic() + FIRST_DATA_SECONDS
        _wait_until(lambda: _has_first_data(data) or clock.monotonic() > deadline, serve, stop)
        print(login_lines, flush=True)
        print_message("Press Ctrl-C to stop.")
        _wait_until(lambda: False, serve, stop)
    finally:
        serve.terminate()
        try:
            serve.wait(_SERVE_END_SECONDS)
        except subprocess.TimeoutExpired:
            serve.kill()
            serve.wait()


def _end_with_parent() -> None:
    """Let the kernel send SIGTERM to this process if its parent is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def prepare_data_dir(data: Path, url: str) -> tuple[str, str]:
    """Empty the folder of an earlier demo, or create it.

    `url`: address of the dashboard. Returns the password of the login, and the link that logs in once.

    The simulated platform has no persistent data and assigns the same ids again, so an old mirror would be
    wrong. Raises SwitchroomError for a folder that is in use or does not belong to a demo.
    """
    if data.resolve() == Path("data").resolve():
        raise click.UsageError("--data: 'data' is the data folder of `serve`. Choose another folder.")
    marker = data / MARKER_FILE
    try:
        data.mkdir(parents=True, exist_ok=True)
        if not marker.exists() and any(data.iterdir()):
            raise SwitchroomError(
                f"The folder {data} contains files that do not belong to a demo."
                " Choose another folder by --data."
            )
        with process_lock.acquire(data, "demo"):
            password = tokens.new(12)
            _remove_data(data)
            marker.write_text("{}\n")
            link = _add_login(data, password, url)
    except OSError as error:
        raise SwitchroomError(f"The folder {data} cannot be written: {error.strerror}.") from error
    return password, link


def add_zone(data: Path, offset: timedelta) -> None:
    """Define the time zone ZONE_NAME with a fixed offset from UTC, for this process.

    The file has the format TZif, version 1 (RFC 8536): one type of local time and no transitions.
    """
    folder = data.absolute() / "zoneinfo"
    folder.mkdir(exist_ok=True)
    designation = b"demo time\0"
    counts = struct.pack(">6l", 0, 0, 0, 0, 1, len(designation))
    local_time_type = struct.pack(">lbb", int(offset.total_seconds()), 0, 0)
    (folder / ZONE_NAME).write_bytes(b"TZif" + bytes(16) + counts + local_time_type + designation)
    zoneinfo.reset_tzpath([str(folder), *zoneinfo.TZPATH])


def _has_first_data(data: Path) -> bool:
    """Return whether people, numbers, contacts and a webhook are stored."""
    from integration.inbox.store import has_received
    from integration.mirror.sync_state import collection_state
    from integration.sqlite.readers import open_readonly
    from integration.sync.plan import has_read_names

    with open_readonly(data / "inbox.db") as connection:
        has_webhook = has_received(connection)
    with open_readonly(data / "mirror.db") as connection:
        return has_webhook and has_read_names(collection_state.list_states(connection))


def _remove_data(data: Path) -> None:
    """Remove the known files of a data_dir by name.

    A wrong --data can therefore not delete other files.
    """
    for name in DATABASES:
        for suffix in ("", "-wal", "-shm", "-journal"):
            (data / f"{name}{suffix}").unlink(missing_ok=True)
    for name in (ACCOUNT_FILE, SECRET_FILE, CREATED_FILE, RECORD_FILE):
        (data / name).unlink(missing_ok=True)
    for name in _FOLDERS:
        folder = data / name
        if folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder)


def _reserve_port(requested_port: int) -> socket.socket:
    """Return a socket with a usable port for the dashboard.

    The start of the simulator takes seconds, in which another program could take the port. Raises
    SwitchroomError.
    """
    try:
        return port.listen("127.0.0.1", requested_port)
    except SwitchroomError as error:
        raise SwitchroomError(str(error).replace("server.port", "--port")) from error


def _build_environment(data: Path, dashboard_port: int, simulator: Simulator) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    root = str(Path(__file__).parents[2])
    return inherited | {
        "PYTHONPATH": os.pathsep.join([root, *filter(None, [inherited.get("PYTHONPATH")])]),
        "PYTHONTZPATH": os.pathsep.join(zoneinfo.TZPATH),
        # Ignore a config.toml in the working directory: it belongs to a real account.
        "SWITCHROOM_CONFIG": os.devnull,
        "SWITCHROOM_PLATFORM__BASE_URL": simulator.url,
        "SWITCHROOM_PLATFORM__USER_ID": str(simulator.admin.id),
        "SWITCHROOM_PLATFORM__API_KEY": simulator.admin.api_key,
        "SWITCHROOM_SERVER__PORT": str(dashboard_port),
        "SWITCHROOM_STORAGE__DATA_DIR": str(data.absolute()),
        # What a simulated platform causes is no news for the visitor of a demo.
        "SWITCHROOM_LOG__LEVEL": "error",
        "SWITCHROOM_CALLS__PICKUP_CODE": "*8",
        "SWITCHROOM_DASHBOARD__COUNTRY": "GB",
        "SWITCHROOM_DASHBOARD__TIMEZONE": ZONE_NAME,
        # Receivers of events on this computer, such as examples/receive_events.py.
        "SWITCHROOM_OUTGOING__ALLOW_HOSTS": "127.0.0.1",
        # The simulated platform is local and costs nothing, so poll often.
        "SWITCHROOM_SYNC__RECENT_INTERVAL": "10",
        "SWITCHROOM_SYNC__LIVE_INTERVAL": "5",
        "SWITCHROOM_SYNC__MAX_REQUESTS_PER_MINUTE": "6000",
    }


def _add_login(data: Path, password: str, url: str) -> str:
    """Create the login, and return a link that logs in once.

    Without it `serve` would print a setup link for the first administrator.
    """
    # Imported here because `--help` does not need it.
    from integration.access import people, setup_links
    from integration.access.passwords import hash_password
    from integration.app_schema import open_app_db

    app_db = open_app_db(data / "house.db")
    try:
        people.create(app_db, EMAIL, "admin", password_hash=hash_password(password))
        return setup_links.create_link(app_db, EMAIL, url, setup_links.DEMO_PATH)
    finally:
        app_db.close()


def _is_responding(url: str) -> bool:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    try:
        connection.request("GET", "/login")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _wait_until(is_done: Callable[[], bool], serve: subprocess.Popen[bytes], stop: threading.Event) -> None:
    """Wait for `is_done()` or `stop`. Raises SwitchroomError if `serve` ends."""
    while not stop.wait(_TICK_SECONDS):
        if (status := serve.poll()) is not None:
            raise SwitchroomError(
                f"The demo stops because `switchroom serve` ended with status {status}. The lines above show"
                " the reason."
            )
        if is_done():
            return
