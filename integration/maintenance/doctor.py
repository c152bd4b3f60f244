"""`doctor`: check the requirements of an installation and suggest fixes. Changes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from integration.core.errors import StorageDamaged, StorageError, SwitchroomError
from integration.core.process_lock import find_writer
from integration.inbox import losses
from integration.maintenance import (
    platform_checks,
    public_address,
    start_conditions,
)
from integration.maintenance.check_result import CheckResult
from integration.maintenance.manifest import DATABASES
from integration.settings.data_dir_secrets import ACCOUNT_FILE, claim_data_dir
from integration.settings.model import Settings, list_warnings
from integration.sqlite import damage, database_files
from integration.sqlite.readers import open_readonly
from integration.sqlite.schema import open_schema

COPY_ADVICE = (
    "stop Switchroom, delete house.db-wal, copy house.db from the newest backup into data_dir, and start it;"
    " without a backup, save what is readable with `sqlite3 house.db .recover`; to start without its data,"
    f" move house.db away and delete {database_files.CREATED_FILE}"
)
ADVICE = {
    "house.db": COPY_ADVICE,
    "inbox.db": "start `switchroom serve`, which saves the readable webhooks into a new one and reports which"
    " are lost",
    "mirror.db": "start `switchroom serve`, which builds a new one",
}
"""What to do about a database that is missing, empty or damaged, by name."""


def check_installation(settings: Settings, port_results: Iterable[CheckResult] = ()) -> Iterator[CheckResult]:
    """Run all checks.

    The order is such that an early failure can explain later ones. `port_results`: results
    about the port, which only a command checks: a page is served from that port.
    """
    yield from _check_configuration(settings)
    yield from _check_sqlite()
    yield from start_conditions.check_all(settings)
    yield from port_results
    if settings.storage.data_dir.is_dir():
        yield from _check_account(settings)
        yield from _check_process(settings.storage.data_dir)
    yield from _check_databases(settings)
    yield from platform_checks.check_platform(settings)
    yield from public_address.check_public_url(settings)


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
        f"version {sqlite3.sqlite_version} can lose committed data if two programs write to the same database"
        " at once (fixed in 3.51.3). Switchroom is safe: only one of its processes writes",
        "open the databases in data_dir with other tools read-only (sqlite3 -readonly)",
    )


def _check_account(settings: Settings) -> Iterator[CheckResult]:
    if not (settings.storage.data_dir / ACCOUNT_FILE).exists():
        return
    try:
        claim_data_dir(settings)
    except SwitchroomError as error:
        yield CheckResult("fail", "account", str(error))


def _check_process(folder: Path) -> Iterator[CheckResult]:
    try:
        writer_name = find_writer(folder, "doctor")
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
            yield CheckResult("fail", path.name, fault, ADVICE[path.name])
            continue
        if path.name in missing:
            yield CheckResult(
                "warn",
                path.name,
                "not there, and no start has recorded it",
                "put it back if it was moved; otherwise the next `switchroom serve` creates it",
            )
            continue
        try:
            with open_readonly(path) as connection:
                open_schema(connection).table_names()
        except StorageDamaged as error:
            yield CheckResult("fail", path.name, f"damaged ({error.__cause__})", ADVICE[path.name])
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
