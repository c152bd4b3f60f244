"""What a key made for one user may see: that user's own records (interface.md §6 Identity)."""

from __future__ import annotations

import sqlite3

from integration.catalogue import get_resource
from integration.catalogue.shapes import Resource
from integration.core.api_responses import ApiError
from integration.mirror.query.filters import AnyOf, Condition
from integration.mirror.records import single_record
from integration.mirror.sync_state.collection_state import get_state

_USER_ID_COLLECTIONS = frozenset({"cdrs", "monitors", "sms", "msdrs"})


def is_reachable(collection: str) -> bool:
    """Whether such a key sees anything of this collection (its path) at all."""
    return collection in _USER_ID_COLLECTIONS | {"mediasessions", "voicemessages", "contacts", "users"}


def filter_for(connection: sqlite3.Connection, target: Resource, user_id: int) -> Condition | AnyOf:
    """True for the records of `target` that are the user's own. Raises ValueError for what is not
    reachable."""
    if target.collection in _USER_ID_COLLECTIONS:
        return Condition("user_id", "eq", user_id)
    if target.collection == "mediasessions":
        return Condition("user", "eq", user_id)
    if target.collection == "users":
        return Condition("id", "eq", user_id)
    if target.collection == "contacts":
        return AnyOf(
            (
                Condition("user_id", "eq", user_id),
                Condition("user_id", "eq", None),
                Condition("global", "eq", True),
            )
        )
    if target.collection == "voicemessages":
        return Condition("extension_id", "in", _list_mailbox_extensions(connection, user_id))
    raise ValueError(target.collection)


def check_mirrored(connection: sqlite3.Connection, target: Resource) -> None:
    """Raises ApiError 503 while an empty answer would only mean that nothing was read yet: nobody else can be
    asked, since the platform would not narrow its answer."""
    required_resources = [target, get_resource("users")] if target.collection == "voicemessages" else [target]
    for required_resource in required_resources:
        is_complete = get_state(connection, required_resource.collection).is_complete
        if not is_complete and single_record.is_empty(connection, required_resource):
            raise ApiError(
                503, f"/{required_resource.collection} has not been read yet.", headers={"Retry-After": "30"}
            )


def _list_mailbox_extensions(connection: sqlite3.Connection, user_id: int) -> list[str]:
    """Values of `extension_id` that mean the user's own mailbox."""
    user = single_record.fetch_by_key(connection, get_resource("users"), [user_id]).get(str(user_id), {})
    candidates = [user.get("ext"), user.get("extension_id")]
    return [str(value) for value in candidates if isinstance(value, int | str) and str(value).isdigit()]
