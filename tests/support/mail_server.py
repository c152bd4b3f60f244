"""Mail server on a free port."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any, cast

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult


class MailServer(Controller):
    """Mail server that stores messages in `letters`.

    User 'switchroom', password 'canary-password'. Recipients that contain `refuse` are rejected.
    """

    def __init__(self, *, tls: ssl.SSLContext | None = None, refuse: str = "") -> None:
        self.letters: list[EmailMessage] = []
        self.refuse = refuse
        super().__init__(
            self,
            hostname="127.0.0.1",
            port=0,
            tls_context=tls,
            require_starttls=tls is not None,
            auth_require_tls=False,
            authenticator=self._authenticate,
        )

    def _trigger_server(self) -> None:
        assert self.server is not None
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()

    @staticmethod
    def _authenticate(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        good = (data.login, data.password) == (b"switchroom", b"canary-password")
        # Not handled: aiosmtpd itself responds with 535.
        return AuthResult(success=good, handled=False)

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if self.refuse and self.refuse in address:
            return "550 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        letter = message_from_bytes(envelope.content, policy=policy.default)
        self.letters.append(cast(EmailMessage, letter))
        return "250 OK"


@contextmanager
def running_mail_server(**options: Any) -> Iterator[MailServer]:
    server = MailServer(**options)
    server.start()
    try:
        yield server
    finally:
        server.stop()
