"""Records of faxes and invoices. Transactions are not in the specification (docs/platform.md#7-resources)."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

from integration.core import clock
from integration.simulator.records import numbers
from integration.simulator.records.account_state import AccountState

Record = dict[str, Any]


def add_fax(state: AccountState, rng: random.Random, created_at: float) -> Record:
    """Add a fax at Unix time `created_at`; three in four are inbound."""
    own_number = next(line["e164"] for line in state.ddis if line["fax_enabled"])
    outside_number = numbers.make_london_number(rng.randrange(900, 1000))
    inbound = rng.random() < 0.75
    sender, receiver = (outside_number, own_number) if inbound else (own_number, outside_number)
    pages = rng.choices((1, 2, 3, 6), weights=(6, 3, 2, 1))[0]
    time_text = clock.utc_text(created_at).translate(str.maketrans("", "", "-: "))
    return state.create(
        "faxes",
        **{"from": sender, "to": receiver},
        created_at=clock.utc_text(created_at),
        filename=f"fax-to-{receiver}-from-{sender}-at-{time_text}.pdf",
        pages=pages,
        status=2 if rng.random() < 0.05 else 1,
        type=1 if inbound else 2,
        charge=0.0 if inbound else round(0.05 * pages, 2),
    )


def add_transactions(state: AccountState) -> None:
    """Add a transaction for the first of each of twelve months, and a pending one of two hours ago."""
    day = clock.parse_utc(clock.utc_text(state.start))
    assert day is not None
    created_times = [clock.utc_text(state.start - 7200)]
    for _ in range(12):
        day = day.replace(day=1, hour=4, minute=0, second=0)
        created_times.append(clock.utc_text(day))
        day -= timedelta(days=1)
    rng = random.Random(f"transactions {state.seed}")
    for created_at in sorted(created_times):
        state.create("transactions", created_at=created_at, amount=round(40 + rng.random() * 60, 2))
    list(state.collections["transactions"].records.values())[-1]["result"] = "PENDING"
