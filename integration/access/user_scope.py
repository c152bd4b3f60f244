"""What a key made for one user may see: that user's own records (interface.md §6 Identity)."""

from __future__ import annotations

import sqlite3

from integration.catalogue import resource
from integration.catalogue.shapes import Resource
from integration.core.api_responses import Stop
from integration.mirror.query.filters import AnyOf, Condition
from integration.mirror.records import single_record as records

_BY_USER_ID = frozenset({"cdrs", "monitors", "sms", "msdrs"})


def reachable(collection: str) -> bool:
    """Whether such a key sees anything of this collection (its path) at all."""
    return collection in _BY_USER_ID | {"mediasessions", "voicemessages", "contacts", "users"}


def own(connection: sqlite3.Connection, of: Resource, user_id: int) -> Condition | AnyOf:
    """True for the records of `of` that are the user's own. Raises ValueError for what is not reachable."""
    if of.collection in _BY_USER_ID:
        return Condition("user_id", "eq", user_id)
    if of.collection == "mediasessions":
        return Condition("user", "eq", user_id)
    if of.collection == "users":
        return Condition("id", "eq", user_id)
    if of.collection == "contacts":
        return AnyOf(
            (
                Condition("user_id", "eq", user_id),
                Condition("user_id", "eq", None),
                Condition("global", "eq", True),
            )
        )
    if of.collection == "voicemessages":
        return Condition("extension_id", "in", _extensions(connection, user_id))
    raise ValueError(of.collection)


def check_known(connection: sqlite3.Connection, of: Resource) -> None:
    """Raises Stop 503 while an empty answer would only mean that nothing was read yet: nobody else can be
    asked, since the platform would not narrow its answer."""
    needed = [of, resource("users")] if of.collection == "voicemessages" else [of]
    for row in needed:
        if not records.standing(connection, row).complete and records.is_empty(connection, row):
            raise Stop(503, f"/{row.collection} has not been read yet.", headers={"Retry-After": "30"})


def _extensions(connection: sqlite3.Connection, user_id: int) -> list[str]:
    """Values of `extension_id` that mean the user's own mailbox."""
    user = records.objects(connection, resource("users"), [user_id]).get(str(user_id), {})
    found = [user.get("ext"), user.get("extension_id")]
    return [str(value) for value in found if isinstance(value, int | str) and str(value).isdigit()]
