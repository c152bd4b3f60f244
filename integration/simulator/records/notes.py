"""Notes and labels of CDRs.

The specification shows no fields of notes; they are invented.
"""

from __future__ import annotations

import random
from typing import Any

from integration.core import clock
from integration.simulator.records.account_state import AccountState
from integration.simulator.records.seeds import SEEDS

Record = dict[str, Any]


def add_note(
    state: AccountState, cdr: Record, user_id: int | None, note_text: str, created_at: float
) -> Record:
    """Add a note to `cdr` and count the note in its `nb_notes`."""
    cdr["nb_notes"] += 1
    stamp = clock.utc_text(created_at)
    return state.create("cdrs/notes", cdr_id=cdr["id"], user_id=user_id, text=note_text, created_at=stamp)


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
            noted_at = call_started.timestamp() + cdr["duration"] + 40
            add_note(state, cdr, cdr["user_id"], rng.choice(SEEDS["words"]["notes"]), noted_at)
