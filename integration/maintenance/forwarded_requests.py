"""Warning about requests of a local proxy that is not in `server.trusted_proxies`.

All visitors behind such a proxy count as one address. Ten wrong passwords of one visitor lock out all users
whose browser is not known. The last such request is stored in `data_dir`, where `doctor` finds it.
"""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path

from integration.core import atomic_files, clock
from integration.settings.model import Settings
from integration.settings.values import is_in_networks

log = logging.getLogger(__name__)

EXTENSION = "switchroom.forwarded_requests"
"""Key of the ForwardedRequests in `Flask.extensions`."""
FILE = "untrusted-proxy.json"
WRITE_SECONDS = 3600.0
"""Seconds between two writes of the file."""
SHOWN_SECONDS = 7 * 86400.0
"""Seconds after the last such request for which the warning is shown."""


class ForwardedRequests:
    """Records requests with forwarding headers from an untrusted loopback peer."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._written_at: float | None = None

    def record(self, peer: str, header: str) -> None:
        """Log the first request; store the time once an hour."""
        now = clock.unix()
        with self._lock:
            if self._written_at is not None and 0 <= now - self._written_at < WRITE_SECONDS:
                return
            is_first, self._written_at = self._written_at is None, now
        try:
            atomic_files.write_text(
                self._settings.storage.data_dir / FILE,
                json.dumps({"peer": peer, "header": header, "at": clock.utc_text()}) + "\n",
            )
        except OSError as error:
            log.warning("cannot write %s: %s", FILE, error.strerror)
        if is_first:
            log.warning("%s; %s", *_describe(peer, header))


def find_problem(settings: Settings) -> tuple[str, str] | None:
    """Return problem and advice about requests of the last week, else None."""
    try:
        stored = json.loads(_read(settings.storage.data_dir / FILE))
        peer, header, at = str(stored["peer"]), str(stored["header"]), str(stored["at"])
    except (OSError, ValueError, KeyError, TypeError):
        # Missing or unreadable: there is nothing to warn about.
        return None
    if is_in_networks(settings.server.trusted_proxies, peer):
        return None
    if at < clock.utc_text(clock.unix() - SHOWN_SECONDS):
        return None
    problem, advice = _describe(peer, header)
    return f"{problem}, last at {at} UTC", advice


def _read(path: Path) -> str:
    return path.read_text("utf-8")


def _describe(peer: str, header: str) -> tuple[str, str]:
    return (
        f"requests with {header} arrive from {peer}, which is not in server.trusted_proxies",
        f'set server.trusted_proxies = ["{peer}"] if this is your proxy: otherwise all visitors count as one'
        " address, and ten wrong passwords lock all of them out",
    )
