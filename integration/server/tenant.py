"""Check whether changed credentials belong to the customer of a `data_dir`.

`data_dir` records the account by its login, which a customer may change.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from integration.core.errors import PlatformError, StorageError

if TYPE_CHECKING:
    from integration.settings.model import Settings

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 10.0
"""Seconds for the request of `/me`."""


def is_same_customer(settings: Settings) -> bool:
    """Return whether the configured credentials are of the customer in mirror.db.

    Compares `customer_id` of `/me`, requested now, with the mirrored one. False if there is no mirrored
    record, or no response.
    """
    stored_customer_id = _read_customer_id(settings)
    if stored_customer_id is None:
        return False
    from integration.platform_api.client import Platform

    platform = Platform(settings.platform.model_copy(update={"timeout": TIMEOUT_SECONDS}))
    try:
        return str(platform.item("/me", tries=1).values.get("customer_id")) == stored_customer_id
    except PlatformError as error:
        log.warning("cannot request the customer of the configured account: %s", error)
        return False
    finally:
        platform.close()


def _read_customer_id(settings: Settings) -> str | None:
    # Imported here, because the supervisor loads no modules of databases and of the platform unless it must.
    import sqlite3

    from integration.sqlite.readers import open_readonly

    try:
        with open_readonly(settings.storage.data_dir / "mirror.db") as connection:
            row = connection.execute("SELECT customer_id FROM me LIMIT 1").fetchone()
    except (StorageError, sqlite3.Error):
        return None
    return None if row is None or row[0] is None else str(row[0])
