"""What a key made for one user may see: that user's own records (interface.md §6 Identity)."""

from __future__ import annotations

import sqlite3

from integration.catalogue import resource
from integration.catalogue.shapes import Resource
from integration.mirror import records
from integration.mirror.filters import AnyOf, Condition

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


def _extensions(connection: sqlite3.Connection, user_id: int) -> list[str]:
    """Values of `extension_id` that mean the user's own mailbox."""
    user = records.objects(connection, resource("users"), [user_id]).get(str(user_id), {})
    found = [user.get("ext"), user.get("extension_id")]
    return [str(value) for value in found if isinstance(value, int | str) and str(value).isdigit()]
