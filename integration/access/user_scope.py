"""User scope: limit of a viewer to one platform user's records.

A viewer is a local key or a dashboard user.
"""

from __future__ import annotations

import sqlite3

from integration.catalogue import get_resource
from integration.catalogue.shapes import Resource
from integration.mirror.page_queries.media_lists import list_mailbox_ids
from integration.mirror.query.filters import AnyOf, Condition
from integration.mirror.records import single_record
from integration.mirror.sync_state.collection_state import get_state

_MAILBOX_KEY = "extension_id"


def filter_for(connection: sqlite3.Connection, target: Resource, user_id: int) -> Condition | AnyOf:
    """Return the condition for the user's own records of `target`.

    Raises ValueError without a user key.
    """
    if target.user_key is None:
        raise ValueError(target.collection)
    if target.user_key == _MAILBOX_KEY:
        return Condition(_MAILBOX_KEY, "in", list_mailbox_ids(connection, user_id))
    own_records = Condition(target.user_key, "eq", user_id)
    if target.collection != "contacts":
        return own_records
    return AnyOf((own_records, Condition(target.user_key, "eq", None), Condition("global", "eq", True)))


def check_mirrored(connection: sqlite3.Connection, target: Resource) -> None:
    """Raise ApiError 503 while nothing of `target` is mirrored.

    The platform cannot be requested instead, because it would not limit its response to the user.
    """
    required_resources = [target, get_resource("users")] if target.user_key == _MAILBOX_KEY else [target]
    for required_resource in required_resources:
        is_complete = get_state(connection, required_resource.collection).is_complete
        if not is_complete and single_record.is_empty(connection, required_resource):
            # Imported here, because it imports Flask, which commands do not need.
            from integration.core.api_responses import ApiError

            raise ApiError(
                503, f"/{required_resource.collection} has not been read yet.", headers={"Retry-After": "30"}
            )
