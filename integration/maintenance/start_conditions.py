"""Conditions of a start: one list for `serve` and `doctor`.

`serve` enforces them, `doctor` reports them. The imports are few, because the supervisor loads this module.
"""

from __future__ import annotations

import os
import shutil
import ssl
import stat
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from integration.core import clock
from integration.core.errors import ConfigurationError, SwitchroomError
from integration.maintenance.check_result import CheckResult
from integration.settings.model import Settings
from integration.settings.values import MIN_FREE_BYTES, MIN_FREE_TEXT, is_url

EARLIEST_TIME = datetime(2026, 1, 1, tzinfo=UTC)
"""Earliest plausible time: a clock before the first release was never set."""
LOW_FREE_BYTES = 5 * 10**9
"""Free bytes below which the check warns."""
PROBE_BYTES = 1024 * 1024
"""Bytes of the file that is written to check data_dir; enough to notice a full disk."""


def check_all(settings: Settings) -> Iterator[CheckResult]:
    """Check all conditions."""
    for check, _ in CONDITIONS:
        yield from check(settings)


def enforce(settings: Settings, write_line: Callable[[str], None]) -> None:
    """Write a warning for each problem with which `serve` can run.

    Raises ConfigurationError or SwitchroomError with all other problems.
    """
    refusals: dict[int, list[str]] = {1: [], 2: []}
    for check, exit_status in CONDITIONS:
        for result in check(settings):
            if result.level == "fail" and exit_status is not None:
                refusals[exit_status].append(result.description)
            elif result.level != "ok":
                write_line(f"warning: {result.description}")
    if refusals[2]:
        raise ConfigurationError(refusals[2] + refusals[1])
    if refusals[1]:
        raise SwitchroomError("\n".join(refusals[1]))


def _check_clock(_settings: Settings) -> Iterator[CheckResult]:
    if clock.now() < EARLIEST_TIME:
        yield CheckResult(
            "fail",
            "clock",
            f"the clock of this host shows {clock.utc_text()} UTC, so it was never set",
            "synchronize it by NTP (timedatectl set-ntp true)",
        )


def _check_ca_file(settings: Settings) -> Iterator[CheckResult]:
    if settings.platform.ca_file is None:
        return
    # Imported here because few installations have this setting.
    from integration.outbound.tls import load_authorities

    try:
        load_authorities(settings.platform.ca_file)
    except ConfigurationError as error:
        about, _, text = error.mistakes[0].partition(": ")
        yield CheckResult("fail", about, text)


def _check_certificate_pair(settings: Settings) -> Iterator[CheckResult]:
    """Check that server.tls_key is the key of server.tls_cert."""
    cert, key = settings.server.tls_cert, settings.server.tls_key
    if cert is None or key is None:
        return
    passwords_requested: list[bool] = []

    def refuse_password() -> str:
        passwords_requested.append(True)
        return ""

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, refuse_password)
    except (ssl.SSLError, OSError) as error:
        fault = _describe_bad_pair(cert, key, error, is_encrypted=bool(passwords_requested))
        yield CheckResult("fail", "certificate", *fault)


def _describe_bad_pair(cert: Path, key: Path, error: OSError, *, is_encrypted: bool) -> tuple[str, str]:
    """Return finding and advice about files that OpenSSL cannot load."""
    if is_encrypted:
        return f"server.tls_key: {key} is encrypted", f"decrypt it: openssl pkey -in {key} -out NEW-FILE"
    reason = getattr(error, "reason", None) or ""
    if reason in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH"):
        return (
            f"server.tls_key: {key} is not the key of the first certificate in server.tls_cert ({cert})",
            "set both to files of the same certificate; the server's own certificate must be the first",
        )
    for setting, path, marker in (
        ("server.tls_cert", cert, b"-----BEGIN CERTIFICATE-----"),
        ("server.tls_key", key, b"PRIVATE KEY-----"),
    ):
        if marker not in path.read_bytes():
            name = "certificate" if path == cert else "private key"
            return f"{setting}: {path} contains no {name} in PEM form", f"use the PEM file of the {name}"
    return (
        f"server.tls_cert and server.tls_key cannot be used: {error}",
        "use the PEM files of one certificate",
    )


def _check_extras(settings: Settings) -> Iterator[CheckResult]:
    if settings.alerts.urls and find_spec("apprise") is None:
        yield CheckResult(
            "fail",
            "alerts",
            "alerts.urls is set, but the package apprise is not installed, so these alerts are not sent",
            "pip install apprise; or remove alerts.urls",
        )
    if is_url(settings.exports.folder or "") and find_spec("pyarrow") is None:
        yield CheckResult(
            "fail",
            "exports",
            "exports.folder is a URL, but the package pyarrow is not installed, so schedules deliver nothing",
            "pip install pyarrow; or set exports.folder to a path",
        )


def _check_data_dir(settings: Settings) -> Iterator[CheckResult]:
    """Check that data_dir, or its nearest existing parent, can be written."""
    folder = settings.storage.data_dir.absolute()
    if folder.exists() and not folder.is_dir():
        yield CheckResult(
            "fail", "data_dir", f"{folder} is not a folder", "set storage.data_dir to another folder"
        )
        return
    existing_folder = _find_existing_folder(folder)
    try:
        with tempfile.TemporaryFile(dir=existing_folder) as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        yield CheckResult(
            "fail",
            "data_dir",
            f"{folder} cannot be written: {error.strerror}",
            f"free disk space, make {existing_folder} writable for this user, or set storage.data_dir",
        )
        return
    if folder != existing_folder:
        yield CheckResult("ok", "data_dir", f"{folder} will be created by the first `switchroom serve`")
    elif stat.S_IMODE(folder.stat().st_mode) & 0o077:
        yield CheckResult(
            "warn", "data_dir", f"{folder} is accessible to other users", f"run: chmod 700 {folder}"
        )
    else:
        yield CheckResult("ok", "data_dir", f"{folder} is writable")


def _check_disk(settings: Settings) -> Iterator[CheckResult]:
    folder = _find_existing_folder(settings.storage.data_dir.absolute())
    free_bytes = shutil.disk_usage(folder).free
    text = f"{free_bytes / 1e9:,.1f} GB free at {folder}"
    if free_bytes < MIN_FREE_BYTES:
        yield CheckResult(
            "fail",
            "disk",
            f"{text}; downloads stop below {MIN_FREE_TEXT}",
            "free disk space, or set recordings.max_gb to limit the archive",
        )
    elif free_bytes < LOW_FREE_BYTES:
        yield CheckResult("warn", "disk", f"{text}; downloads stop below {MIN_FREE_TEXT}", "free disk space")
    else:
        yield CheckResult("ok", "disk", text)


def _find_existing_folder(folder: Path) -> Path:
    """Return `folder`, or its nearest existing parent."""
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return folder


CONDITIONS: tuple[tuple[Callable[[Settings], Iterator[CheckResult]], int | None], ...] = (
    (_check_clock, None),
    (_check_ca_file, 2),
    (_check_certificate_pair, 2),
    (_check_extras, None),
    (_check_data_dir, 1),
    (_check_disk, None),
)
"""Checks in the order in which an early failure explains later ones, each with the exit status of a start.

None lets `serve` start with a warning.
"""
