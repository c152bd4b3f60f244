"""Notes and labels of CDRs.

The specification shows no fields of notes; they are invented.
"""

from __future__ import annotations

import random
from typing import Any

from integration.core import clock
from integration.simulator.records.account_state import AccountState

Record = dict[str, Any]

_TEXTS = (
    "Promised to call back on Thursday.",
    "Wants the invoice by e-mail / not by post.",
    "Spare part ordered, see the workshop's list.",
)


def add_collections(state: AccountState) -> None:
    state.add_collection("cdrs/notes")


def add_note(
    state: AccountState, cdr: Record, user_id: int | None, note_text: str, created_at: float
) -> Record:
    """Add a note to `cdr` and count the note in its `nb_notes`."""
    cdr["nb_notes"] += 1
    return state.collections["cdrs/notes"].add(
        {
            "id": state.new_id("cdrs/notes"),
            "cdr_id": cdr["id"],
            "user_id": user_id,
            "text": note_text,
            "created_at": clock.utc_text(created_at),
        }
    )


def seed_notes(state: AccountState) -> None:
    """Add random notes and labels to the last 1,000 CDRs."""
    rng = random.Random(f"notes {state.seed}")
    labels = [label["name"] for label in state.collections["calllabels"].records.values()][:3]
    connected_cdrs = [
        cdr
        for cdr in list(state.collections["cdrs"].records.values())[-1000:]
        if cdr["billsec"] and cdr["user_id"]
    ]
    for cdr in connected_cdrs:
        draw = rng.random()
        if draw < 0.05:
            cdr["labels"] = rng.sample(labels, rng.choice((1, 1, 2)))
        if 0.03 < draw < 0.06:
            call_started = clock.parse_utc(cdr["calldate"])
            assert call_started is not None
            add_note(
                state,
                cdr,
                cdr["user_id"],
                rng.choice(_TEXTS),
                call_started.timestamp() + cdr["duration"] + 40,
            )
