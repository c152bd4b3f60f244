"""Dashboard users and the caller that tests share."""

from __future__ import annotations

from dataclasses import dataclass, replace

from integration.access import people
from integration.sqlite.database import Database


@dataclass(frozen=True)
class Member:
    """A dashboard user. `platform_user_id` is the id of their platform user."""

    email: str
    role: str
    platform_user_id: int | None = None

    def as_user(self, platform_user_id: int) -> Member:
        """Return a dashboard user with another platform user, and its own address."""
        return replace(self, platform_user_id=platform_user_id, email=f"{platform_user_id}.{self.email}")


ALICE = Member("alice@example.com", "admin")
BOB = Member("bob@example.com", "supervisor")
CAROL = Member("carol@example.com", "agent", platform_user_id=100)
DAVE = Member("dave@example.com", "viewer")
ERIN = Member("erin@example.com", "agent")

CALLER = "447700900101"


def add(app_db: Database, member: Member) -> people.Person:
    """Return the dashboard user of `member`; create it if it is missing.

    Its stored password hash matches no password.
    """
    return people.find(app_db, member.email) or people.create(
        app_db,
        member.email,
        member.role,
        password_hash="x",
        platform_user_id=member.platform_user_id,
    )
