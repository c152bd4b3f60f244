"""`doctor`: check the requirements of an installation and suggest fixes. Changes nothing."""

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
    StorageDamaged,
    StorageError,
    SwitchroomError,
)
from integration.core.process_lock import find_writer
from integration.inbox import losses
from integration.maintenance import forwarded_requests, public_address
from integration.maintenance.check_result import CheckResult
from integration.maintenance.manifest import DATABASES
from integration.platform_api.budget import INTERACTIVE
from integration.platform_api.client import Platform
from integration.settings.data_dir_secrets import ACCOUNT_FILE, claim_data_dir
from integration.settings.model import Settings, list_warnings
from integration.sqlite import damage, database_files
from integration.sqlite.readers import open_readonly
from integration.sqlite.schema import open_schema

TIMEOUT_SECONDS = 10.0
"""Seconds for one request to the platform or to the public URL."""

MIN_FREE_BYTES = 2 * 10**9
"""Free bytes below which downloads stop; the check fails."""

LOW_FREE_BYTES = 5 * 10**9
"""Free bytes below which the check warns."""
COPY_ADVICE = (
    "stop Switchroom, delete house.db-wal, copy house.db from the newest backup into data_dir, and start it"
)
LOSS_ADVICE = {
    "house.db": f"{COPY_ADVICE}; to start without its data, delete {database_files.CREATED_FILE}",
    "inbox.db": "start `switchroom serve`, which creates a new one and reports which webhooks are lost;"
    " or restore a backup",
    "mirror.db": "start `switchroom serve`, which builds a new one",
}
"""What to do about a database that is missing or empty, by name."""
DAMAGE_ADVICE = {
    "house.db": COPY_ADVICE,
    "inbox.db": "start `switchroom serve`, which saves the readable webhooks into a new one",
    "mirror.db": "start `switchroom serve`, which builds a new one",
}
"""What to do about a database that cannot be opened, by name."""

MAX_CLOCK_SKEW_SECONDS = 10
"""Clock difference in seconds above which the check warns."""
FATAL_CLOCK_SKEW_SECONDS = 300
"""Clock difference in seconds above which the check fails."""


def check_installation(settings: Settings) -> Iterator[CheckResult]:
    """Run all checks.

    The order is such that an early failure can explain later ones.
    """
    yield from _check_configuration(settings)
    yield from _check_sqlite()
    yield from _check_data_dir(settings)
    yield from _check_databases(settings)
    yield from _check_platform(settings)
    yield from public_address.check_public_url(settings)
    yield from public_address.check_public_metrics(settings)
    problem = forwarded_requests.find_problem(settings)
    if problem is not None:
        yield CheckResult("warn", "proxy", *problem)


def _check_configuration(settings: Settings) -> Iterator[CheckResult]:
    messages = list_warnings(settings)
    for warning in messages:
        yield CheckResult("warn", "configuration", warning)
    if not messages:
        yield CheckResult("ok", "configuration", "all settings are valid")


def _check_sqlite() -> Iterator[CheckResult]:
    if sqlite3.sqlite_version_info >= database_files.MIN_SAFE_SQLITE_VERSION:
        yield CheckResult("ok", "SQLite", f"version {sqlite3.sqlite_version}")
        return
    yield CheckResult(
        "warn",
        "SQLite",
        f"version {sqlite3.sqlite_version} can lose committed pages when two programs write to one database"
        " (fixed in 3.51.3)",
        "open the databases in data_dir with mode=ro only; Switchroom itself has one writer",
    )


def _check_data_dir(settings: Settings) -> Iterator[CheckResult]:
    folder = settings.storage.data_dir
    if folder.exists() and not folder.is_dir():
        yield CheckResult(
            "fail", "data_dir", f"{folder} is not a folder", "set storage.data_dir to another folder"
        )
        return
    existing_folder = _find_existing_folder(folder)
    try:
        with tempfile.TemporaryFile(dir=existing_folder) as file:
            file.write(b"\0" * 4096)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        advice = f"make {existing_folder} writable for this user, or set storage.data_dir"
        yield CheckResult("fail", "data_dir", f"{folder} is not writable ({error.strerror})", advice)
    else:
        yield (
            _check_permissions(folder)
            if folder == existing_folder
            else CheckResult("ok", "data_dir", f"{folder} will be created by the first `switchroom serve`")
        )
    free_bytes = shutil.disk_usage(existing_folder).free
    text = f"{free_bytes / 1e9:,.1f} GB free at {existing_folder}"
    if free_bytes < MIN_FREE_BYTES:
        yield CheckResult(
            "fail", "disk", text, "downloads stop below 2 GB; free disk space or set recordings.max_gb"
        )
    elif free_bytes < LOW_FREE_BYTES:
        yield CheckResult("warn", "disk", text, "downloads stop below 2 GB; free disk space")
    else:
        yield CheckResult("ok", "disk", text)
    if folder == existing_folder:
        yield from _check_account(settings)
        yield from _check_process(folder)


def _find_existing_folder(folder: Path) -> Path:
    """Return `folder`, or its nearest existing parent."""
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return folder


def _check_permissions(folder: Path) -> CheckResult:
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        advice = f"run: chmod 700 {folder}"
        return CheckResult("warn", "data_dir", f"{folder} is accessible to other users", advice)
    return CheckResult("ok", "data_dir", f"{folder} is writable")


def _check_account(settings: Settings) -> Iterator[CheckResult]:
    if not (settings.storage.data_dir / ACCOUNT_FILE).exists():
        return
    try:
        claim_data_dir(settings)
    except SwitchroomError as error:
        yield CheckResult("fail", "account", str(error))


def _check_process(folder: Path) -> Iterator[CheckResult]:
    try:
        writer_name = find_writer(folder)
    except SwitchroomError as error:
        yield CheckResult("fail", "process", str(error))
        return
    if writer_name is None:
        yield CheckResult("warn", "process", "no process uses this data_dir", "start `switchroom serve`")
    else:
        yield CheckResult("ok", "process", f"{writer_name} uses this data_dir")


def _check_databases(settings: Settings) -> Iterator[CheckResult]:
    paths = [settings.storage.data_dir / name for name in DATABASES]
    missing = [path.name for path in paths if not path.exists()]
    lost = database_files.find_lost_databases(settings.storage.data_dir, DATABASES)
    if len(missing) == len(paths) and not lost:
        yield CheckResult("ok", "databases", "none yet; the first `switchroom serve` creates them")
        return
    yield from _check_damage(settings.storage.data_dir)
    yield from _check_losses(settings.storage.data_dir / "inbox.db")
    for path in paths:
        if path.name in lost:
            fault = lost[path.name].replace("was ", "is ").replace("had ", "has ")
            yield CheckResult("fail", path.name, fault, LOSS_ADVICE[path.name])
            continue
        if path.name in missing:
            yield CheckResult("fail", path.name, "missing, while other databases exist", "restore a backup")
            continue
        try:
            with open_readonly(path) as connection:
                open_schema(connection).table_names()
        except StorageDamaged as error:
            yield CheckResult("fail", path.name, f"damaged ({error.__cause__})", DAMAGE_ADVICE[path.name])
        except StorageError as error:
            yield CheckResult("fail", path.name, str(error))
        else:
            # Recent commits may still be in the -wal file.
            files = (path, path.with_name(f"{path.name}-wal"))
            size = sum(file.stat().st_size for file in files if file.exists()) / 1e6
            yield CheckResult("ok", path.name, f"{size:,.1f} MB; `switchroom verify` checks the content")


def _check_losses(path: Path) -> Iterator[CheckResult]:
    """Report the webhooks that were lost within the last days."""
    try:
        with open_readonly(path) as connection:
            recent_losses = losses.list_recent(connection)
    except StorageError:
        return  # Reported by the check of the file.
    for loss in recent_losses:
        happening, advice = str(loss).removeprefix("inbox.db: ").split("; ", 1)
        yield CheckResult("warn", path.name, happening, advice.replace("`", ""))


def _check_damage(data_dir: Path) -> Iterator[CheckResult]:
    for name, reason in damage.find_marks(data_dir).items():
        yield CheckResult(
            "fail", name, f"damaged ({reason})", "restart `switchroom serve`, which replaces the file"
        )
    for path in damage.list_put_aside(data_dir):
        name = path.name.partition(".damaged-")[0]
        yield CheckResult(
            "warn",
            name,
            f"was damaged and replaced; the damaged file is kept as {path.name}",
            "check the disk and the memory of this host, and remove the file when it is no longer needed",
        )


def _check_platform(settings: Settings) -> Iterator[CheckResult]:
    platform = Platform(settings.platform)
    try:
        before = clock.now()
        response = platform.get("/ping", priority=INTERACTIVE, tries=1, seconds=TIMEOUT_SECONDS)
        yield CheckResult("ok", "platform", f"{settings.platform.base_url} responds")
        if response.date is not None:
            yield _check_clock(response.date, before)
        me = platform.item("/me", priority=INTERACTIVE, tries=1).values
        yield _check_credentials(me.get("is_root"))
    except CredentialsRefused as error:
        yield CheckResult("fail", "credentials", str(error))
    except PlatformRefused as error:
        advice = "check platform.base_url, including its version segment"
        yield CheckResult("fail", "platform", f"{error} (status {error.status})", advice)
    except PlatformError as error:
        yield CheckResult("fail", "platform", f"{settings.platform.base_url}: {error}")
    finally:
        platform.close()


def _check_credentials(is_root: object) -> CheckResult:
    if is_root in (True, 1, "1", "true"):
        return CheckResult("ok", "credentials", "valid, with administrator rights")
    return CheckResult(
        "warn",
        "credentials",
        "valid, but without administrator rights: the platform returns only this user's calls",
        "use an API key of an administrator",
    )


def _check_clock(platform_time: datetime, before: datetime) -> CheckResult:
    # The platform's time was read between `before` and now, and has a resolution of 1 s.
    after = clock.now()
    skew_seconds = max(
        0.0, (before - platform_time).total_seconds() - 1, (platform_time - after).total_seconds()
    )
    if skew_seconds <= MAX_CLOCK_SKEW_SECONDS:
        return CheckResult("ok", "clock", "agrees with the platform's clock")
    direction = "behind" if platform_time > after else "ahead of"
    return CheckResult(
        "fail" if skew_seconds > FATAL_CLOCK_SKEW_SECONDS else "warn",
        "clock",
        f"{skew_seconds:,.0f} s {direction} the platform's clock",
        "synchronize the clock of this host by NTP (timedatectl set-ntp true)",
    )
