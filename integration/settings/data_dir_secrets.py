"""Webhook secrets, account binding and keys of `data_dir`.

Each is a small file of mode 0600, written atomically.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from integration.core import atomic_files, clock, tokens
from integration.core.errors import ConfigurationError, SwitchroomError
from integration.settings.base_url import find_base_url

if TYPE_CHECKING:
    from integration.settings.model import Settings

SECRET_FILE = "webhook-secret"
ACCOUNT_FILE = "account.json"
ERASURE_FILE = "erasure-key"

_rotation_lock = threading.Lock()
"""Held while SECRET_FILE is read and replaced: a double click sends two requests at once."""


def find_webhook_url(settings: Settings) -> str:
    """Return the URL for webhooks, which contains the secret. Raises SwitchroomError."""
    return f"{find_base_url(settings).rstrip('/')}/webhooks/{load_webhook_secrets(settings)[0]}"


def load_webhook_secrets(settings: Settings) -> list[str]:
    """Return the webhook secrets that the receiver accepts, the current secret first.

    They are the value of `webhooks.secret`, or else the contents of SECRET_FILE in `data_dir`. If neither
    exists, a secret of 32 random bytes (43 URL-safe characters) is generated and stored in SECRET_FILE.
    Raises SwitchroomError if the file cannot be read or written, or is empty.
    """
    if settings.webhooks.secret is not None:
        return list(settings.webhooks.secret)
    path = settings.storage.data_dir / SECRET_FILE
    stored = _read(path)
    if stored is None:
        _create(path, tokens.new() + "\n")
        stored = _read(path)
    if not stored or not stored.strip():
        raise SwitchroomError(f"{path}: is empty; delete it to generate a new secret, or set webhooks.secret")
    return stored.split()


CHECK_SECONDS = 1.0
"""Seconds between checks of SECRET_FILE.

A check per webhook would be slower: a system call releases the GIL, and the thread then competes with all
other requests to get it back.
"""


class WebhookSecrets:
    """Webhook secrets that the receiver accepts now.

    A replaced SECRET_FILE takes effect within CHECK_SECONDS.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._path = settings.storage.data_dir / SECRET_FILE
        self._secrets = load_webhook_secrets(settings)
        self._file_version = self._read_file_version()
        self._checked_at = clock.monotonic()

    def __iter__(self) -> Iterator[str]:
        now = clock.monotonic()
        if now - self._checked_at >= CHECK_SECONDS:
            self._checked_at = now
            file_version = self._read_file_version()
            if self._settings.webhooks.secret is None and file_version not in (None, self._file_version):
                self._secrets, self._file_version = load_webhook_secrets(self._settings), file_version
        return iter(self._secrets)

    def _read_file_version(self) -> tuple[int, int] | None:
        try:
            file_status = self._path.stat()
        except OSError:
            # The file is missing or temporarily unreadable: the caller keeps the secrets read earlier.
            return None
        return file_status.st_ino, file_status.st_mtime_ns


def load_erasure_key(data_dir: Path, *, create: bool) -> bytes | None:
    """Return the key of the hashes of erased telephone numbers.

    Without a stored key, generate and store one if `create` is set, else return None. Raises SwitchroomError
    if the file is damaged or cannot be read or written.
    """
    path = data_dir / ERASURE_FILE
    if create and _read(path) is None:
        _create(path, secrets.token_hex(32) + "\n")
    stored = _read(path)
    if stored is None:
        return None
    try:
        return bytes.fromhex(stored.strip())
    except ValueError:
        raise SwitchroomError(f"{path}: is damaged; restore the file from a backup") from None


def rotate_secret(settings: Settings) -> None:
    """Generate a new webhook secret. The previous secret stays valid until `drop_old_secret`.

    Raises SwitchroomError if a previous secret is still valid, because the platform may use it. Raises it too
    if `webhooks.secret` is configured or the file cannot be written.
    """
    with _rotation_lock:
        current = _load_generated_secrets(settings)
        if len(current) > 1:
            raise SwitchroomError(
                "The webhook secret was not rotated: the old one is still valid. Enter the new URL on the"
                " phone system, then delete the old secret first."
            )
        _replace(settings.storage.data_dir / SECRET_FILE, f"{tokens.new()}\n{current[0]}\n")


def drop_old_secret(settings: Settings) -> None:
    """Drop all secrets except the newest.

    Raises SwitchroomError if `webhooks.secret` is configured or the file cannot be written.
    """
    with _rotation_lock:
        _replace(settings.storage.data_dir / SECRET_FILE, f"{_load_generated_secrets(settings)[0]}\n")


def _load_generated_secrets(settings: Settings) -> list[str]:
    if settings.webhooks.secret is not None:
        raise SwitchroomError("webhooks.secret is set in the configuration; change it there, then restart")
    return load_webhook_secrets(settings)


def claim_data_dir(settings: Settings, is_same_customer: Callable[[], bool] = lambda: False) -> None:
    """Bind `data_dir` to the configured platform account, or refuse a different account.

    The account is the base URL (without its version segment) with the user id or login e-mail. If only the
    user id or e-mail differs and `is_same_customer` returns True, the new login of the same customer is
    stored instead. Without a configured account, only the base URL is compared and nothing is stored. Raises
    ConfigurationError (exit status 2) for a different account, SwitchroomError for a damaged or unreadable
    file.
    """
    platform = settings.platform
    account = {"base_url": _strip_version(platform.base_url), "account": platform.user_id or platform.email}
    has_account = account["account"] is not None
    path = settings.storage.data_dir / ACCOUNT_FILE
    text = _read(path)
    if text is None and not has_account:
        return
    if text is None:
        _create(path, json.dumps(account) + "\n")
        text = _read(path) or ""
    try:
        stored = json.loads(text)
        stored_account = {key: stored[key] for key in account}
    except (ValueError, KeyError, TypeError):
        raise SwitchroomError(f"{path}: is damaged; its content must be {json.dumps(account)}") from None
    if stored_account == account or (not has_account and stored_account["base_url"] == account["base_url"]):
        return
    if stored_account["base_url"] == account["base_url"] and is_same_customer():
        _replace(path, json.dumps(account) + "\n")
    else:
        raise ConfigurationError(
            [
                f"storage.data_dir: {settings.storage.data_dir} holds account {stored_account['account']} of"
                f" {stored_account['base_url']}, not"
                f" {account['account'] if has_account else 'an account'} of {account['base_url']};"
                " give each account a separate data_dir (another login of the same customer is accepted"
                f" if the platform confirms the customer; otherwise change {path})"
            ]
        )


def _strip_version(base_url: str) -> str:
    """Return `base_url` without its version segment.

    /v1.1 and /v1.2 are the same account.
    """
    head, _, tail = base_url.rpartition("/")
    return head if tail[:1] == "v" and tail[1:].replace(".", "").isdigit() else base_url


def _read(path: Path) -> str | None:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise SwitchroomError(f"{path}: cannot be read: {error}") from error


def _replace(path: Path, text: str, *, may_replace: bool = True) -> None:
    """Replace the content of `path` atomically; create a missing folder first. Raises SwitchroomError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Another process may have created the file first.
        with contextlib.suppress(FileExistsError):
            atomic_files.write_text(path, text, may_replace=may_replace)
    except OSError as error:
        raise SwitchroomError(f"{path}: cannot be written: {error.strerror}") from error


def _create(path: Path, text: str) -> None:
    """Create `path` atomically, or keep a file that another process created first."""
    _replace(path, text, may_replace=False)
