"""Check that platform credentials belong to the customer of this mirror.

The platform accepts credentials of all its customers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from integration.catalogue import get_resource
from integration.core.api_responses import ApiError
from integration.core.errors import PlatformError
from integration.mirror.query.query import Query
from integration.mirror.records import single_record
from integration.platform_api.budget import INTERACTIVE
from integration.platform_api.client import Platform
from integration.settings.model import Settings
from integration.sqlite.database import Database

_TRUE_VALUES = (True, 1, "1", "true")


class TenantCheck:
    """Comparison of users with the customer of `data_dir`.

    One per application, because it caches the customer id.
    """

    def __init__(self, settings: Settings, mirror: Database, platform: Platform) -> None:
        self._settings = settings
        self._mirror = mirror
        self._platform = platform
        self._cached_id: str | None = None

    def is_administrator(self, me: Mapping[str, Any]) -> bool | None:
        """Return whether `me` is an administrator of this customer.

        `me`: the record, {} for credentials without access to `/me`. None if the customer of an administrator
        cannot be determined yet. Raises ApiError 403 for a user of another customer.
        """
        platform = self._settings.platform
        if platform.user_id is not None and str(me.get("id")) == str(platform.user_id):
            return True
        if platform.email is not None and str(me.get("email")).casefold() == platform.email.casefold():
            return True
        is_own = self._is_own_user(me) if me else None
        if is_own is False:
            raise ApiError(403, "These credentials belong to another customer of the platform.")
        return is_own if me.get("is_root") in _TRUE_VALUES else False

    def _is_own_user(self, me: Mapping[str, Any]) -> bool | None:
        """Return whether the user belongs to this customer, None if undetermined.

        Compares `customer_id`, else searches the mirrored users.
        """
        user_customer_id, own_customer_id = me.get("customer_id"), self._own_customer_id()
        if user_customer_id is not None and own_customer_id is not None:
            return str(user_customer_id) == own_customer_id
        with self._mirror.read() as connection:
            user_id = me.get("id")
            stored_user = isinstance(user_id, int | str) and single_record.find_record(
                connection, get_resource("users"), user_id
            )
        return True if stored_user else None

    def _own_customer_id(self) -> str | None:
        if self._cached_id is None:
            with self._mirror.read() as connection:
                texts = Query(get_resource("me"), limit=1).fetch_texts(connection)
            record = orjson.loads(texts[0]) if texts else self._fetch_own_me()
            customer_id = record.get("customer_id")
            self._cached_id = None if customer_id is None else str(customer_id)
        return self._cached_id

    def _fetch_own_me(self) -> Mapping[str, Any]:
        """Request `/me` of the configured account.

        Used until the first sync of `/me`. Returns {} after an error.
        """
        try:
            return self._platform.item("/me", priority=INTERACTIVE, tries=1).values
        except PlatformError:
            return {}
