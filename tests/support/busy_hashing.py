"""Logins that occupy all slots for password hashing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from integration.access import passwords


class HeldHasher:
    """Password hasher whose `verify` waits for `release`, up to 30 s."""

    def __init__(self) -> None:
        self.began, self.release = threading.Semaphore(0), threading.Event()

    def verify(self, _stored_hash: str, _password: str) -> bool:
        self.began.release()
        return self.release.wait(30)


@contextmanager
def busy_hashing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Occupy every slot for password hashing until the end of the block."""
    held = HeldHasher()
    with ThreadPoolExecutor(passwords.MAX_PARALLEL_HASHES) as logins:
        with monkeypatch.context() as patch:
            patch.setattr(passwords, "HASHER", held)
            for _ in range(passwords.MAX_PARALLEL_HASHES):
                logins.submit(passwords.verify, "a hash", "a password")
                assert held.began.acquire(timeout=30)
        try:
            yield
        finally:
            held.release.set()
