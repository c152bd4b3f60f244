"""Whose account this is: another customer's credentials are good on the platform, and no good here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from integration.catalogue import resource
from integration.context import House
from integration.core.api_responses import Stop
from integration.core.errors import PlatformError
from integration.mirror.query.query import Query
from integration.mirror.records import single_record as records
from integration.platform_api.budget import PEOPLE

_ROOT = (True, 1, "1", "true")


class Customer:
    """The customer that data_dir holds. One per application; keeps its id once that is known."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._known: str | None = None

    def administrator(self, me: Mapping[str, Any]) -> bool | None:
        """Whether `me`, what /me answered to somebody ({} where it may not be read), is an administrator of
        this customer; None where that can't be told yet. Raises Stop 403 for another customer's user."""
        platform = self._house.settings.platform
        if platform.user_id is not None and str(me.get("id")) == str(platform.user_id):
            return True
        if platform.email is not None and str(me.get("email")).casefold() == platform.email.casefold():
            return True
        ours = self._owns(me) if me else None
        if ours is False:
            raise Stop(403, "These credentials belong to another customer of the platform.")
        return ours if me.get("is_root") in _ROOT else False

    def _owns(self, me: Mapping[str, Any]) -> bool | None:
        """Whether the user is this customer's. By `customer_id`, else by the mirrored users; None where
        neither tells."""
        theirs, ours = me.get("customer_id"), self._id()
        if theirs is not None and ours is not None:
            return str(theirs) == ours
        with self._house.mirror.read() as connection:
            user = me.get("id")
            known = isinstance(user, int | str) and records.stored(connection, resource("users"), user)
        return True if known else None

    def _id(self) -> str | None:
        if self._known is None:
            with self._house.mirror.read() as connection:
                texts = Query(resource("me"), limit=1).texts(connection)
            record = orjson.loads(texts[0]) if texts else self._asked()
            told = record.get("customer_id")
            self._known = None if told is None else str(told)
        return self._known

    def _asked(self) -> Mapping[str, Any]:
        """Our own /me, before the first look at it; {} where the platform does not tell now."""
        try:
            return self._house.platform.item("/me", who=PEOPLE, tries=1).values
        except PlatformError:
            return {}
