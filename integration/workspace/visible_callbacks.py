"""Call-back items that a viewer can see and change.

Pages, buttons, counts and drawers select items here, so that they agree.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING

from integration.mirror.page_queries import history
from integration.workspace import callbacks
from integration.workspace.callback_items import CallbackItem

if TYPE_CHECKING:
    from integration.access.visibility import Visibility


def select_visible(
    mirror_connection: sqlite3.Connection, viewer: Visibility, items: Iterable[CallbackItem]
) -> list[CallbackItem]:
    """Return the items that `viewer` sees, in the same order.

    The last missed call decides. An item whose call is not in the mirror has no known owner, so a viewer with
    a user scope does not see it.
    """
    if viewer.user_scope is None:
        return list(items)
    items = list(items)
    calls = history.find_all(mirror_connection, [item.last_call_id for item in items])
    return [
        item
        for item in items
        if item.last_call_id in calls and viewer.can_see_callback(calls[item.last_call_id]["user_id"])
    ]


def find_visible(
    app_connection: sqlite3.Connection,
    mirror_connection: sqlite3.Connection,
    viewer: Visibility,
    item_id: int,
) -> CallbackItem | None:
    """Return an item by id.

    None if it does not exist or the viewer does not see it.
    """
    item = callbacks.find_item(app_connection, item_id)
    return next(iter(select_visible(mirror_connection, viewer, [item] if item else [])), None)


def find_visible_open(
    app_connection: sqlite3.Connection,
    mirror_connection: sqlite3.Connection,
    viewer: Visibility,
    party: str | None,
) -> CallbackItem | None:
    """Return the open item of a caller, if the viewer sees one.

    `party`: the number in E.164 or as received.
    """
    item = callbacks.find_open_item(app_connection, party)
    return next(iter(select_visible(mirror_connection, viewer, [item] if item else [])), None)


def count_visible_open(
    app_connection: sqlite3.Connection, mirror_connection: sqlite3.Connection, viewer: Visibility
) -> int:
    """Return the number of open items that the viewer sees."""
    if viewer.user_scope is None:
        return callbacks.count_open(app_connection)
    return len(select_visible(mirror_connection, viewer, callbacks.list_items(app_connection)))
