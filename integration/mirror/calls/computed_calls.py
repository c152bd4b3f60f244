"""Calls that were computed and are not written yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

from integration.mirror.calls.joins import JoinedCall
from integration.mirror.calls.outcomes import CallRow


class ComputedCalls(NamedTuple):
    """Calls of some legs, and what was stored about these legs when the calls were computed.

    `rows` has the rows of `joined_calls`, in their order. `leg_rows`: the rows that `_legs` should have, by
    leg. `stored_leg_rows`: those that it had. `contact_names`: the names that were found, by E.164 number.
    Values only, because another process may have computed them (`calls_process.py`).
    """

    joined_calls: Sequence[JoinedCall]
    rows: Sequence[CallRow]
    leg_rows: Mapping[int, tuple[Any, ...]]
    stored_leg_rows: Mapping[int, tuple[Any, ...]]
    ids_without_facts: Set[int]
    contact_names: Mapping[str, str]

    def without(self, leg_ids: Set[int]) -> ComputedCalls:
        """Return the calls that have none of these legs."""
        if not leg_ids:
            return self
        calls = zip(self.joined_calls, self.rows, strict=True)
        kept = [(call, row) for call, row in calls if leg_ids.isdisjoint(call.leg_ids)]
        return ComputedCalls(
            [call for call, _ in kept],
            [row for _, row in kept],
            {id_: row for id_, row in self.leg_rows.items() if id_ not in leg_ids},
            {id_: row for id_, row in self.stored_leg_rows.items() if id_ not in leg_ids},
            self.ids_without_facts - leg_ids,
            self.contact_names,
        )
