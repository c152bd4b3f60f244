"""Whose data is this? An account is named by its login, but a customer may change that."""

from __future__ import annotations

import logging

from integration.core.errors import PlatformError, StorageError
from integration.settings.model import Settings

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 10.0


def is_same_customer(settings: Settings) -> bool:
    """Whether the configured credentials are of the customer that mirror.db holds, as the platform says now
    (`/me`, `customer_id`). False where it can't be told: no such record here, or no answer."""
    stored_customer_id = _read_customer_id(settings)
    if stored_customer_id is None:
        return False
    from integration.platform_api.client import Platform

    platform = Platform(settings.platform.model_copy(update={"timeout": TIMEOUT_SECONDS}))
    try:
        return str(platform.item("/me", tries=1).values.get("customer_id")) == stored_customer_id
    except PlatformError as error:
        log.warning("whose account this is can't be asked: %s", error)
        return False
    finally:
        platform.close()


def _read_customer_id(settings: Settings) -> str | None:
    # The supervisor asks, if ever: it goes without databases and what talks to the platform.
    import sqlite3

    from integration.sqlite.readers import open_readonly

    try:
        with open_readonly(settings.storage.data_dir / "mirror.db") as connection:
            row = connection.execute("SELECT customer_id FROM me LIMIT 1").fetchone()
    except (StorageError, sqlite3.Error):
        return None
    return None if row is None or row[0] is None else str(row[0])
