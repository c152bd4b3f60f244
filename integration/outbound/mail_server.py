"""Mail server for all e-mails: that of the settings `smtp.*`, or one that an administrator entered.

All of it comes from one of the two. It is read when an e-mail is sent, so a change needs no restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import ValidationError

from integration.core.errors import DomainError
from integration.outbound.public_addresses import AddressRefused, PublicHosts
from integration.settings.model import Settings, Smtp
from integration.settings.values import is_loopback
from integration.sqlite.database import Database

TABLES = """
-- at most one row. The password is stored in clear text, because the mail server requires it.
CREATE TABLE IF NOT EXISTS mail_server (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    host TEXT NOT NULL,
    port INTEGER NOT NULL,
    is_encrypted INTEGER NOT NULL CHECK (is_encrypted IN (0, 1)),
    user TEXT,
    password TEXT,
    sender TEXT NOT NULL
) STRICT;
"""

DEFAULT_PORT = 587
TLS_PORT = 465
"""Port on which a connection is encrypted from its start."""
Encryption = Literal["TLS", "STARTTLS", ""]


@dataclass(frozen=True, slots=True)
class MailServer:
    """A mail server. `user` and `password` are None if it needs no login.

    `sender` is the address of the sender. `allow_hosts` limits `host` to public addresses and these hosts;
    None does not limit it.
    """

    host: str
    port: int
    encryption: Encryption
    user: str | None
    password: str | None = field(repr=False)
    sender: str
    allow_hosts: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return f"{self.host}, port {self.port}, {self.encryption or 'no encryption'}"


def load(settings: Settings, app_db: Database) -> MailServer | None:
    """Return the mail server of the settings, else the entered one.

    Returns None if e-mail is not set up.
    """
    smtp = settings.smtp
    if smtp.host is None:
        return load_entered(settings, app_db)
    port = smtp.port or DEFAULT_PORT
    encryption: Encryption = "" if smtp.starttls is False else "STARTTLS"
    if port == TLS_PORT and smtp.starttls is not True:
        encryption = "TLS"
    return MailServer(smtp.host, port, encryption, smtp.user, smtp.password, smtp.from_ or "")


def load_entered(settings: Settings, app_db: Database) -> MailServer | None:
    """Return the mail server that an administrator entered, or None."""
    with app_db.read() as connection:
        row = connection.execute(
            "SELECT host, port, is_encrypted, user, password, sender FROM mail_server"
        ).fetchone()
    if row is None:
        return None
    host, port, is_encrypted, user, password, sender = row
    return MailServer(
        host,
        port,
        _choose_encryption(port, is_encrypted=bool(is_encrypted)),
        user,
        password,
        sender,
        settings.outgoing.allow_hosts,
    )


def parse(settings: Settings, app_db: Database, entered: Mapping[str, str]) -> MailServer:
    """Return the mail server with the values of a form.

    Keys: host, port, encryption ('none' or other), user, password, sender. An empty password is the stored
    one, if host and port are the same. Raises DomainError.
    """
    values = {key: entered.get(key, "").strip() for key in ("host", "port", "user", "sender")}
    password, port_text = entered.get("password", ""), values["port"] or str(DEFAULT_PORT)
    if not values["host"]:
        raise DomainError("Enter the mail server, such as smtp.example.com.")
    if not values["sender"]:
        raise DomainError("Enter the e-mail address of the sender.")
    if not port_text.isdecimal() or len(port_text) > 5 or not 1 <= int(port_text) <= 65535:
        raise DomainError(f"The port {port_text!r} is not a number from 1 to 65535. Most servers use 587.")
    try:
        smtp = Smtp.model_validate(
            {
                "host": values["host"],
                "from": values["sender"],
                "user": values["user"] or None,
                "password": password or None,
            }
        )
    except ValidationError as invalid:
        detail = invalid.errors(include_url=False, include_input=False)[0]
        label = {"host": "The mail server", "from": "The sender", "user": "The user name"}.get(
            str(detail["loc"][0]), "The password"
        )
        raise DomainError(f"{label} {detail['ctx']['error']}.") from None
    host, port, stored = smtp.host or "", int(port_text), load_entered(settings, app_db)
    if smtp.user and not password and stored is not None and stored.password:
        if (stored.host, stored.port) != (host, port):
            # A password for one server must not be sent to another.
            raise DomainError("The mail server has changed. Enter the password again.")
        password = stored.password
    if bool(smtp.user) != bool(password):
        raise DomainError("Enter both user name and password, or leave both empty.")
    is_encrypted = entered.get("encryption") != "none"
    if smtp.user and not is_encrypted and not is_loopback(host):
        raise DomainError("The password would be sent unencrypted. Choose an encrypted connection.")
    try:
        PublicHosts(settings.outgoing.allow_hosts).resolve(host, port)
    except AddressRefused as refusal:
        raise DomainError(str(refusal)) from None
    except OSError:
        pass  # The name may be unresolvable for a moment only. A test e-mail shows it.
    return MailServer(
        host,
        port,
        _choose_encryption(port, is_encrypted=is_encrypted),
        smtp.user,
        password or None,
        smtp.from_ or "",
        settings.outgoing.allow_hosts,
    )


def save(app_db: Database, server: MailServer) -> None:
    """Store `server` in place of the one that was entered before."""
    app_db.write(
        lambda tx: tx.execute(
            "INSERT OR REPLACE INTO mail_server VALUES (1, ?, ?, ?, ?, ?, ?)",
            (
                server.host,
                server.port,
                int(server.encryption != ""),
                server.user,
                server.password,
                server.sender,
            ),
        )
    )


def remove(app_db: Database) -> None:
    """Delete the entered mail server and its password."""
    app_db.write(lambda tx: tx.execute("DELETE FROM mail_server"))


def _choose_encryption(port: int, *, is_encrypted: bool) -> Encryption:
    if not is_encrypted:
        return ""
    return "TLS" if port == TLS_PORT else "STARTTLS"
