"""`doctor`: is everything there that an installation needs, and if not, what to do. Changes nothing."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from integration.core import clock
from integration.core.errors import (
    CredentialsRefused,
    PlatformError,
    PlatformRefused,
    StorageError,
    SwitchroomError,
)
from integration.core.lock_holder import writer
from integration.maintenance import public_address
from integration.maintenance.check_result import Line
from integration.maintenance.manifest import DATABASES
from integration.platform_api.budget import PEOPLE
from integration.platform_api.client import Platform
from integration.settings.data_dir_secrets import ACCOUNT_FILE, claim_data_dir
from integration.settings.model import Settings, warnings
from integration.sqlite import database_files

SECONDS = 10.0
"""For one question to the platform or to ourselves from outside."""

LEAST_FREE = 2 * 10**9
"""Bytes that downloads always leave free (interface.md §2); below, they stop."""

LITTLE_FREE = 5 * 10**9
SKEW_SECONDS = 10
SKEW_TOO_MUCH = 300


def examine(settings: Settings) -> Iterator[Line]:
    """A line for each thing looked at, in an order in which the first fault explains those after it."""
    yield from _configuration(settings)
    yield from _sqlite()
    yield from _folder(settings)
    yield from _databases(settings)
    yield from _platform(settings)
    yield from public_address.examine(settings)


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
