"""All derived tables."""

from __future__ import annotations

from integration.mirror.derived.call_details import CALL_DETAILS
from integration.mirror.derived.calls import CALLS, LEGS
from integration.mirror.derived.contact_numbers import CONTACT_NUMBERS
from integration.mirror.derived.declaration import Derived
from integration.mirror.derived.followed_by_app_db import CALLBACKS, RECEIVED_MESSAGES
from integration.mirror.derived.report_sums import REPORT_SUMS
from integration.mirror.derived.search_index import SEARCH

DERIVED: tuple[Derived, ...] = (
    *(CONTACT_NUMBERS, LEGS, CALLS, *CALL_DETAILS, SEARCH, REPORT_SUMS, CALLBACKS),
    RECEIVED_MESSAGES,
)
"""In the order of their computation: a later one may read an earlier one."""
