"""Events of calls: what a row of the change log states to programs.

A changed call has a row of `_changes` with the topic `call`, or `past_call` if no page shows it. Its data has
`id`, `state`, `outcome` and `direction`, if the change is an event also `event`, `changed` and perhaps
`late`, and `left`, the platform user who had the call until then. Calls that no page shows and whose changes
are no events share a row with the topic `history`: of an initial sync only the numbers are needed. A call
that is none any more has a row `call_gone` with its id as key, and as data `into`, the call that has its legs
now, or null, and `left`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from integration.core import clock
from integration.core.number_variants import ERASED
from integration.mirror.calls.outcomes import CallRow

LATE_SECONDS = 300
"""Seconds after which an end is late: it was learned after an outage."""

_HIDDEN_COLUMNS = {"provisional", "state_since", "hold_incomplete", "group_id", "context", "cdrs", "sources"}
"""Computed columns that the view `v_calls` does not have."""

_NAMES = {"unconfirmed": "state"}

_SHOWN = [
    (position, _NAMES.get(name, name))
    for position, name in enumerate(CallRow._fields[:-1])
    if name not in _HIDDEN_COLUMNS
]

_STAGE_EVENTS = ("", "call.ringing", "call.answered", "call.ended")


def find_changed_columns(old: Sequence[Any], row: CallRow) -> list[str]:
    """Return the columns of `v_calls` in which a call differs from its stored row."""
    changed = dict.fromkeys(name for position, name in _SHOWN if old[position] != row[position])
    return list(changed)


def is_erasure(old: CallRow | None, row: CallRow) -> bool:
    """Return whether the change erases the number of the call, which is an event of calls of the past too."""
    return row.party == ERASED and old is not None and old.party != ERASED


def describe(old: CallRow | None, row: CallRow, now: float) -> dict[str, Any]:
    """Return the members `event`, `changed` and `late` of a change; empty if it is no event.

    `old` is the call before the change, None for a new one. `now`: Unix seconds. Each later stage of the call
    has its event. A call that was reopened has it a second time.
    """
    changed = [] if old is None else find_changed_columns(old, row)
    if old is not None and set(changed) <= {"recordings", "voicemails"}:
        # Retention deletes recordings and messages.
        changed = [name for name in changed if getattr(row, name) > getattr(old, name)]
    if is_erasure(old, row):
        changed.append("erased")
    stage = _get_stage(row)
    if stage <= (0 if old is None else _get_stage(old)):
        return {"event": "call.updated", "changed": changed} if changed else {}
    event: dict[str, Any] = {"event": _STAGE_EVENTS[stage], "changed": changed}
    is_new_end = row.state == "ended" and (old is None or old.state != "ended")
    if is_new_end and (row.ended_at or "~") < clock.utc_text(now - LATE_SECONDS):
        event["late"] = True
    return event


def _get_stage(row: CallRow) -> int:
    """Return the position of the event in _STAGE_EVENTS that the call has reached.

    An ended call whose outcome is not decided yet stays at its earlier stage.
    """
    if row.state == "ended" and row.outcome is not None:
        return 3
    return 2 if row.answered_at is not None else 1
