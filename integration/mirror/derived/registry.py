"""All derived tables."""

from __future__ import annotations

from integration.mirror.derived.callback_calls import CALLBACKS
from integration.mirror.derived.calls import CALLS, LEGS
from integration.mirror.derived.contact_numbers import CONTACT_NUMBERS
from integration.mirror.derived.declaration import Derived
from integration.mirror.derived.report_sums import REPORT_SUMS
from integration.mirror.derived.search_index import SEARCH

DERIVED: tuple[Derived, ...] = (CONTACT_NUMBERS, LEGS, CALLS, SEARCH, REPORT_SUMS, CALLBACKS)
"""In the order of their computation: a later one may read an earlier one."""
