"""What `data_dir` keeps for itself: the webhook secret that was made here, and whose account it belongs to.

Both are small files of mode 0600, written whole or not at all.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import overload

from integration.core import atomic_files, clock, tokens
from integration.core.errors import ConfigurationError, SwitchroomError
from integration.settings.model import Settings

SECRET_FILE = "webhook-secret"
ACCOUNT_FILE = "account.json"
ERASURE_FILE = "erasure-key"


def load_webhook_secrets(settings: Settings) -> list[str]:
    """The secrets the receiver accepts, the current one first: configured, else those kept in `data_dir`.

    The first call without a configured one makes it: 32 random bytes as 43 URL-safe characters.
    Raises SwitchroomError where the file can't be read or written.
    """
    if settings.webhooks.secret is not None:
        return list(settings.webhooks.secret)
    path = settings.storage.data_dir / SECRET_FILE
    stored = _read(path)
    if stored is None:
        _create(path, tokens.new() + "\n")
        stored = _read(path)
    if not stored or not stored.strip():
        raise SwitchroomError(f"{path}: is empty; remove it to have a new one made, or set webhooks.secret")
    return stored.split()


CHECK_SECONDS = 1.0
"""How often the file is looked at: not for each webhook, since a system call gives up the interpreter and has
to win it back from every other request."""


class WebhookSecrets(Sequence[str]):
    """The secrets the receiver accepts now: the file is read again within CHECK_SECONDS of its
    replacement."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._path = settings.storage.data_dir / SECRET_FILE
        self._secrets = load_webhook_secrets(settings)
        self._file_version = self._read_file_version()
        self._checked_at = clock.monotonic()

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self._load_current()[index]

    def __len__(self) -> int:
        return len(self._load_current())

    def __iter__(self) -> Iterator[str]:
        return iter(self._load_current())

    def _load_current(self) -> list[str]:
        now = clock.monotonic()
        if now - self._checked_at < CHECK_SECONDS:
            return self._secrets
        self._checked_at = now
        file_version = self._read_file_version()
        if self._settings.webhooks.secret is None and file_version not in (None, self._file_version):
            self._secrets, self._file_version = load_webhook_secrets(self._settings), file_version
        return self._secrets

    def _read_file_version(self) -> tuple[int, int] | None:
        try:
            file_status = self._path.stat()
        except OSError:
            # Not there, or not to be had just now: what was read holds on.
            return None
        return file_status.st_ino, file_status.st_mtime_ns


def load_erasure_key(data_dir: Path, *, create: bool) -> bytes | None:
    """The key by whose hashes erased numbers are known. Where there is none, it is made if `create` says so,
    else None. Raises SwitchroomError where the file can't be read or written."""
    path = data_dir / ERASURE_FILE
    if create and _read(path) is None:
        _create(path, secrets.token_hex(32) + "\n")
    stored = _read(path)
    if stored is None:
        return None
    try:
        return bytes.fromhex(stored.strip())
    except ValueError:
        raise SwitchroomError(f"{path}: is damaged; put back the one of a backup") from None


def rotate_secret(settings: Settings) -> None:
    """Make a new secret; the one before stays good beside it until `drop_old_secret`.

    Raises SwitchroomError where secrets are configured, or the file can't be written.
    """
    current = _load_generated_secrets(settings)
    _replace(settings.storage.data_dir / SECRET_FILE, f"{tokens.new()}\n{current[0]}\n")


def drop_old_secret(settings: Settings) -> None:
    """Only the newest secret is good from now on. Raises SwitchroomError like `rotate_secret`."""
    _replace(settings.storage.data_dir / SECRET_FILE, f"{_load_generated_secrets(settings)[0]}\n")


def _load_generated_secrets(settings: Settings) -> list[str]:
    if settings.webhooks.secret is not None:
        raise SwitchroomError("webhooks.secret is set in the configuration; change it there, then restart")
    return load_webhook_secrets(settings)


def claim_data_dir(settings: Settings, is_same_customer: Callable[[], bool] = lambda: False) -> None:
    """Remember in `data_dir` whose account it holds; another account on it is refused.

    The account is the base URL (its version segment apart) with the user id or login e-mail. Where only the
    latter is another, `is_same_customer` may know that it is another login of the same customer, and is
    remembered. Raises ConfigurationError (exit status 2) for another account, SwitchroomError for an
    unreadable file.
    """
    platform = settings.platform
    account = {"base_url": _strip_version(platform.base_url), "account": platform.user_id or platform.email}
    path = settings.storage.data_dir / ACCOUNT_FILE
    text = _read(path)
    if text is None:
        _create(path, json.dumps(account) + "\n")
        text = _read(path) or ""
    try:
        stored = json.loads(text)
        stored_account = {key: stored[key] for key in account}
    except (ValueError, KeyError, TypeError):
        raise SwitchroomError(f"{path}: is damaged; it should say {json.dumps(account)}") from None
    if stored_account == account:
        return
    if stored_account["base_url"] == account["base_url"] and is_same_customer():
        _replace(path, json.dumps(account) + "\n")
    else:
        raise ConfigurationError(
            [
                f"storage.data_dir: {settings.storage.data_dir} holds account {stored_account['account']} of"
                f" {stored_account['base_url']}, not {account['account']} of {account['base_url']};"
                " give each account a data_dir of its own (another login of the same customer is taken over"
                f" while the platform answers; else change {path})"
            ]
        )


def _strip_version(base_url: str) -> str:
    """The base URL without its version segment: /v1.1 and /v1.2 are the same account."""
    head, _, tail = base_url.rpartition("/")
    return head if tail[:1] == "v" and tail[1:].replace(".", "").isdigit() else base_url


def _read(path: Path) -> str | None:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise SwitchroomError(f"{path}: can't be read: {error}") from error


def _replace(path: Path, text: str) -> None:
    """Put `text` in the place of what `path` holds, whole or not at all."""
    _write_file(path, text, os.replace)


def _create(path: Path, text: str) -> None:
    """Create `path` whole, or leave the one that another process created first."""
    _write_file(path, text, _link_unless_exists)


def _write_file(path: Path, text: str, move_into_place: Callable[[Path, Path], None]) -> None:
    """As `durable.write_text`, in a folder that may be missing. Raises SwitchroomError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_files.write_text(path, text, move_into_place)
    except OSError as error:
        raise SwitchroomError(f"{path}: can't be written: {error.strerror}") from error


def _link_unless_exists(part_path: Path, path: Path) -> None:
    with contextlib.suppress(FileExistsError):
        os.link(part_path, path)
    part_path.unlink()
