"""`doctor`: is everything there that an installation needs, and if not, what to do. Changes nothing."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import sqlite3
import ssl
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import orjson

from integration import clock, database_files
from integration.errors import (
    CredentialsRefused,
    PlatformError,
    PlatformRefused,
    StorageError,
    SwitchroomError,
)
from integration.platform_api.budget import PEOPLE
from integration.platform_api.client import Platform
from integration.platform_api.transport import JSON_LIMIT, Transport
from integration.secrets import ACCOUNT_FILE, SECRET_FILE, claim_data_dir, webhook_secrets
from integration.settings import Settings, warnings
from integration.settings_values import is_loopback
from integration.upkeep.manifest import DATABASES
from integration.upkeep.writer import writer

Level = Literal["ok", "warn", "fail"]

SECONDS = 10.0
"""For one question to the platform or to ourselves from outside."""

LEAST_FREE = 2 * 10**9
"""Bytes that downloads always leave free (interface.md §2); below, they stop."""

LITTLE_FREE = 5 * 10**9
SKEW_SECONDS = 10
SKEW_TOO_MUCH = 300


@dataclass(frozen=True, slots=True)
class Line:
    """What was found about one thing, and what to do where it is not well."""

    level: Level
    about: str
    text: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.level:<5} {self.about}: {self.text}" + (f"; {self.advice}" if self.advice else "")


def examine(settings: Settings) -> Iterator[Line]:
    """A line for each thing looked at, in an order in which the first fault explains those after it."""
    yield from _configuration(settings)
    yield from _sqlite()
    yield from _folder(settings)
    yield from _databases(settings)
    yield from _platform(settings)
    yield from public_address(settings)


def _configuration(settings: Settings) -> Iterator[Line]:
    found = warnings(settings)
    for warning in found:
        yield Line("warn", "configuration", warning)
    if not found:
        yield Line("ok", "configuration", "every setting can be used")


def _sqlite() -> Iterator[Line]:
    if sqlite3.sqlite_version_info >= database_files.SAFE_SQLITE:
        yield Line("ok", "SQLite", f"version {sqlite3.sqlite_version}")
        return
    yield Line(
        "warn",
        "SQLite",
        f"version {sqlite3.sqlite_version} can lose committed pages when two programs write to one database"
        " (fixed in 3.51.3)",
        "open the databases in data_dir with mode=ro only; Switchroom itself has one writer",
    )


def _folder(settings: Settings) -> Iterator[Line]:
    folder = settings.storage.data_dir
    if folder.exists() and not folder.is_dir():
        yield Line("fail", "data_dir", f"{folder} is no folder", "set storage.data_dir to another one")
        return
    there = _nearest(folder)
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"\0" * 4096)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        advice = f"make {there} writable for this user, or set storage.data_dir"
        yield Line("fail", "data_dir", f"{folder} can't be written ({error.strerror})", advice)
    else:
        yield (
            _private(folder)
            if folder == there
            else Line("ok", "data_dir", f"{folder} is made by the first `switchroom serve`")
        )
    free = shutil.disk_usage(there).free
    text = f"{free / 1e9:,.1f} GB free at {there}"
    if free < LEAST_FREE:
        yield Line("fail", "disk", text, "downloads stop below 2 GB; make room or set recordings.max_gb")
    elif free < LITTLE_FREE:
        yield Line("warn", "disk", text, "downloads stop below 2 GB; make room soon")
    else:
        yield Line("ok", "disk", text)
    if folder == there:
        yield from _account(settings)
        yield from _holder(folder)


def _nearest(folder: Path) -> Path:
    """`folder`, or the nearest one above it that exists."""
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return folder


def _private(folder: Path) -> Line:
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        advice = f"run: chmod 700 {folder}"
        return Line("warn", "data_dir", f"{folder} can be entered by other users", advice)
    return Line("ok", "data_dir", f"{folder} can be written")


def _account(settings: Settings) -> Iterator[Line]:
    if not (settings.storage.data_dir / ACCOUNT_FILE).exists():
        return
    try:
        claim_data_dir(settings)
    except SwitchroomError as error:
        yield Line("fail", "account", str(error))


def _holder(folder: Path) -> Iterator[Line]:
    try:
        who = writer(folder)
    except SwitchroomError as error:
        yield Line("fail", "process", str(error))
        return
    if who is None:
        yield Line("warn", "process", "none runs on this data_dir", "start `switchroom serve`")
    else:
        yield Line("ok", "process", f"{who} works in data_dir")


def _databases(settings: Settings) -> Iterator[Line]:
    paths = [settings.storage.data_dir / name for name in DATABASES]
    missing = [path.name for path in paths if not path.exists()]
    if len(missing) == len(paths):
        yield Line("ok", "databases", "none yet, the first `switchroom serve` makes them")
        return
    for path in paths:
        if path.name in missing:
            yield Line("fail", path.name, "is missing beside the others", "restore a backup")
            continue
        try:
            with database_files.look_at(path) as connection:
                connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except StorageError as error:
            yield Line("fail", path.name, str(error))
        else:
            # What was committed last may still stand in the file beside it.
            files = (path, path.with_name(f"{path.name}-wal"))
            size = sum(file.stat().st_size for file in files if file.exists()) / 1e6
            yield Line("ok", path.name, f"{size:,.1f} MB; `switchroom verify` looks inside")


def _platform(settings: Settings) -> Iterator[Line]:
    platform = Platform(settings.platform)
    try:
        before = clock.now()
        answer = platform.get("/ping", who=PEOPLE, tries=1, seconds=SECONDS)
        yield Line("ok", "platform", f"{settings.platform.base_url} answers")
        if answer.date is not None:
            yield _clock(answer.date, before)
        me = platform.item("/me", who=PEOPLE, tries=1).values
        yield _credentials(me.get("is_root"))
    except CredentialsRefused as error:
        yield Line("fail", "credentials", str(error))
    except PlatformRefused as error:
        advice = "check platform.base_url, its version segment included"
        yield Line("fail", "platform", f"{error} (status {error.status})", advice)
    except PlatformError as error:
        yield Line("fail", "platform", f"{settings.platform.base_url}: {error}")
    finally:
        platform.close()


def _credentials(is_root: object) -> Line:
    if is_root in (True, 1, "1", "true"):
        return Line("ok", "credentials", "an administrator's")
    return Line(
        "warn",
        "credentials",
        "good, but not an administrator's: the platform shows them only their own calls",
        "use an API key of an administrator",
    )


def _clock(theirs: datetime, before: datetime) -> Line:
    # Their clock was read between our two readings, and tells whole seconds only.
    after = clock.now()
    seconds = max(0.0, (before - theirs).total_seconds() - 1, (theirs - after).total_seconds())
    if seconds <= SKEW_SECONDS:
        return Line("ok", "clock", "agrees with the platform's")
    way = "behind" if theirs > after else "ahead of"
    return Line(
        "fail" if seconds > SKEW_TOO_MUCH else "warn",
        "clock",
        f"{seconds:,.0f} s {way} the platform's",
        "set this machine's clock by NTP (timedatectl set-ntp true)",
    )


def public_address(settings: Settings) -> Iterator[Line]:
    """Whether our own receiver answers under the address that the platform is to use."""
    url = settings.server.public_url
    if url is None:
        advice = "the platform delivers webhooks to HTTPS addresses only; set server.public_url"
        yield Line("warn", "public address", "none is set", advice)
        return
    parts = urlsplit(url)
    if parts.scheme != "https":
        level: Level = "warn" if is_loopback(parts.hostname or "") else "fail"
        advice = "the platform takes only https://; put a proxy with a certificate before Switchroom"
        yield Line(level, "public address", f"{url} is not HTTPS", advice)
    secret = _secret(settings)
    if secret is None:
        yield Line("warn", "public address", "not asked: no webhook secret yet", "start `switchroom serve`")
        return
    transport = Transport(url, 1)
    try:
        with transport.exchange("GET", f"/webhooks/{secret}", _headers(settings), None, SECONDS) as body:
            content = b"".join(body.chunks(JSON_LIMIT))
        yield _answered(settings, url, body.status, content)
    except PlatformError as error:
        yield Line("fail", "public address", f"{url}: {_why(error)}", "check DNS, firewall and proxy")
    finally:
        transport.close()


def _secret(settings: Settings) -> str | None:
    """The receiver's secret, where there is one already: making one is for `serve`."""
    kept = settings.storage.data_dir / SECRET_FILE
    return webhook_secrets(settings)[0] if settings.webhooks.secret or kept.exists() else None


def _headers(settings: Settings) -> dict[str, str]:
    hooks = settings.webhooks
    if hooks.username is None:
        return {"Accept": "application/json"}
    pair = base64.b64encode(f"{hooks.username}:{hooks.password or ''}".encode()).decode()
    return {"Accept": "application/json", "Authorization": f"Basic {pair}"}


def _answered(settings: Settings, url: str, status: int, content: bytes) -> Line:
    about = "public address"
    if status == 200 and _is_ours(content):
        return Line("ok", about, f"our receiver answers at {url}")
    if status == 404 and settings.webhooks.allow_from:
        advice = "webhooks.allow_from keeps this machine out, as it should; send a test from the platform"
        return Line("warn", about, f"{url} answers 404", advice)
    if status in (502, 503, 504):
        advice = "is `switchroom serve` running, and does the proxy lead to its port?"
    elif status == 401:
        advice = "webhooks.username and password are not the ones that `serve` was started with"
    elif 300 <= status < 400:
        advice = "the platform may not follow a redirect; set server.public_url to the address it leads to"
    else:
        advice = "something else answers there: lead the proxy to this Switchroom, with this data_dir"
    return Line("fail", about, f"{url} answers {status}, not as our receiver would", advice)


def _is_ours(content: bytes) -> bool:
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        return False
    return isinstance(body, dict) and isinstance(body.get("status"), str)


def _why(error: BaseException) -> str:
    """The reason below a failed exchange, whose message speaks of the platform."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({cause.verify_message})"
        if isinstance(cause, ssl.SSLError):
            return f"no TLS there ({cause.reason or cause})"
        if isinstance(cause, socket.gaierror):
            return "its name can't be resolved"
        if isinstance(cause, ConnectionRefusedError):
            return "nothing listens there"
        if isinstance(cause, TimeoutError):
            return f"no answer within {SECONDS:.0f} s"
        cause = cause.__cause__ or cause.__context__
    return "the connection broke"
