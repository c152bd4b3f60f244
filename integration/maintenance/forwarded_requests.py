"""Warning about requests of a local proxy that is not in `server.trusted_proxies`.

All visitors behind such a proxy count as one address. Ten wrong passwords of one visitor lock out all users
whose browser is not known.
"""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)

EXTENSION = "switchroom.forwarded_requests"
"""Key of the ForwardedRequests in `Flask.extensions`."""


class ForwardedRequests:
    """Requests with forwarding headers from an untrusted loopback peer, since the start of the process."""

    def __init__(self) -> None:
        self.problem: tuple[str, str] | None = None
        """Problem and advice, None without such a request."""

    def record(self, peer: str, header: str) -> None:
        """Record a request, and log the first one."""
        if self.problem is not None:
            return
        self.problem = (
            f"requests with {header} arrive from {peer}, which is not in server.trusted_proxies",
            f'set server.trusted_proxies = ["{peer}"] if this is your proxy: otherwise all visitors count as'
            " one address, and ten wrong passwords lock all of them out",
        )
        log.warning("%s; %s", *self.problem)
