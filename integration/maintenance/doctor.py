"""`doctor`: check the requirements of an installation and suggest fixes. Changes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from integration.core.errors import StorageDamaged, StorageError, SwitchroomError
from integration.core.process_lock import find_writer
from integration.inbox import losses
from integration.maintenance import (
    backup,
    forwarded_requests,
    platform_checks,
    public_address,
    start_conditions,
)
from integration.maintenance.check_result import CheckResult
from integration.maintenance.manifest import DATABASES, MANIFEST_FILE
from integration.settings.data_dir_secrets import ACCOUNT_FILE, claim_data_dir
from integration.settings.model import Settings, list_warnings
from integration.sqlite import damage, database_files
from integration.sqlite.readers import open_readonly
from integration.sqlite.schema import open_schema
from integration.workspace import opening_hours

COPY_ADVICE = (
    "stop Switchroom, delete house.db-wal, copy house.db from the newest backup into data_dir, and start it"
)
SALVAGE_ADVICE = (
    "there is no backup: stop Switchroom and save what is readable with `sqlite3 house.db .recover`; to start"
    f" without its data, move house.db away and delete {database_files.CREATED_FILE}"
)
"""What to do about a damaged house.db if no backup was ever made."""
LOSS_ADVICE = {
    "house.db": f"{COPY_ADVICE}; to start without its data, delete {database_files.CREATED_FILE}",
    "inbox.db": "start `switchroom serve`, which creates a new one and reports which webhooks are lost",
    "mirror.db": "start `switchroom serve`, which builds a new one",
}
"""What to do about a database that is missing or empty, by name."""
DAMAGE_ADVICE = {
    "house.db": COPY_ADVICE,
    "inbox.db": "start `switchroom serve`, which saves the readable webhooks into a new one",
    "mirror.db": "start `switchroom serve`, which builds a new one",
}
"""What to do about a database that cannot be opened, by name."""


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
    yield from _check_hours(settings)
    yield from platform_checks.check_platform(settings)
    yield from public_address.check_public_url(settings)
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
    has_backup = _has_backup(settings)
    damage_advice = DAMAGE_ADVICE | ({} if has_backup else {"house.db": SALVAGE_ADVICE})
    yield from _check_damage(settings.storage.data_dir)
    yield from _check_losses(settings.storage.data_dir / "inbox.db")
    for path in paths:
        if path.name in lost:
            fault = lost[path.name].replace("was ", "is ").replace("had ", "has ")
            yield CheckResult("fail", path.name, fault, _advise_on_loss(path.name, has_backup=has_backup))
            continue
        if path.name in missing:
            yield _describe_missing(path.name, has_backup=has_backup)
            continue
        try:
            with open_readonly(path) as connection:
                open_schema(connection).table_names()
        except StorageDamaged as error:
            yield CheckResult("fail", path.name, f"damaged ({error.__cause__})", damage_advice[path.name])
        except StorageError as error:
            yield CheckResult("fail", path.name, str(error))
        else:
            # Recent commits may still be in the -wal file.
            files = (path, path.with_name(f"{path.name}-wal"))
            size = sum(file.stat().st_size for file in files if file.exists()) / 1e6
            yield CheckResult("ok", path.name, f"{size:,.1f} MB; `switchroom verify` checks the content")


def _check_hours(settings: Settings) -> Iterator[CheckResult]:
    """Report a setting that was changed after it filled the page of opening hours."""
    try:
        with open_readonly(settings.storage.data_dir / "house.db") as connection:
            seed = opening_hours.find_seed(connection)
    except StorageError:
        return  # Reported by the check of the file, or a start of this version is yet to come.
    is_set = "usual_hours" in settings.calls.model_fields_set
    if is_set and seed is not None and seed != settings.calls.usual_hours:
        yield CheckResult(
            "warn",
            "opening hours",
            "calls.usual_hours has no effect: it differs from the hours of the first start",
            "change the hours on Settings › Opening hours, and remove calls.usual_hours",
        )


def _has_backup(settings: Settings) -> bool:
    return any(backup.get_destination(settings).glob(f"*/{MANIFEST_FILE}"))


def _advise_on_loss(name: str, *, has_backup: bool) -> str:
    if name == "house.db" and not has_backup:
        return (
            "there is no backup: put the file back if it was moved; to start without its data, delete"
            f" {database_files.CREATED_FILE}"
        )
    return LOSS_ADVICE[name] + ("; or restore a backup" if name == "inbox.db" and has_backup else "")


def _describe_missing(name: str, *, has_backup: bool) -> CheckResult:
    """Describe a missing database that no start has recorded."""
    if has_backup:
        return CheckResult(
            "fail", name, "missing, while other databases and a backup exist", "restore a backup"
        )
    return CheckResult(
        "warn",
        name,
        "not there, and no start has recorded it",
        "put it back if it was moved; otherwise the next `switchroom serve` creates it",
    )


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
