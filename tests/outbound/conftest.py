"""Fixtures of these tests, and a replacement of the machine's name lookup."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.support.applications.shared_app import shared_app  # noqa: F401

SetAddresses = Callable[..., list[str]]


@pytest.fixture
def set_addresses(monkeypatch: pytest.MonkeyPatch) -> SetAddresses:
    """Function that sets the addresses of a host.

    It takes one list for each lookup; the last is used for all later ones. It returns the names that were
    looked up.
    """
    lookup = socket.getaddrinfo

    def set_addresses(host: str, *responses: Sequence[str]) -> list[str]:
        pending, lookups = [list(response) for response in responses], []

        def getaddrinfo(name: Any, port: Any, *args: Any, **options: Any) -> Any:
            if name != host:
                return lookup(name, port, *args, **options)
            lookups.append(name)
            addresses = pending.pop(0) if len(pending) > 1 else pending[0]
            return [entry for address in addresses for entry in lookup(address, port, *args, **options)]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        return lookups

    return set_addresses
