"""Records of faxes and invoices.

The numeric `status` (1 done, 2 failed) and `type` (1 received, 2 sent) of a fax follow the only sample; their
meanings are invented. Transactions are not in the specification (docs/platform.md#7-resources).
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

from integration.core import clock
from integration.simulator.records import numbers
from integration.simulator.records.account_state import AccountState

Record = dict[str, Any]


def add_collections(state: AccountState) -> None:
    state.add_collection("faxes", unfilterable=frozenset({"from", "to"}))
    state.add_collection("transactions", records=_make_transactions(state))


def add_fax(state: AccountState, rng: random.Random, created_at: float) -> Record:
    """Add a fax at Unix time `created_at`; three in four are inbound."""
    own_number = next(line.e164 for line in state.account.ddis if line.fax)
    outside_number = numbers.make_london_number(rng.randrange(900, 1000))
    inbound = rng.random() < 0.75
    sender, receiver = (outside_number, own_number) if inbound else (own_number, outside_number)
    pages = rng.choices((1, 2, 3, 6), weights=(6, 3, 2, 1))[0]
    time_text = clock.utc_text(created_at).translate(str.maketrans("", "", "-: "))
    return state.collections["faxes"].add(
        {
            "id": state.new_id("faxes"),
            "created_at": clock.utc_text(created_at),
            "from": sender,
            "to": receiver,
            "filename": f"fax-to-{receiver}-from-{sender}-at-{time_text}.pdf",
            "pages": pages,
            "status": 2 if rng.random() < 0.05 else 1,
            "type": 1 if inbound else 2,
            "charge": 0.0 if inbound else round(0.05 * pages, 2),
        }
    )


def _make_transactions(state: AccountState) -> list[Record]:
    """Create a transaction for each of twelve months, and a pending one.

    Their times are the first of each month, and two hours before the start.
    """
    day = clock.parse_utc(clock.utc_text(state.start))
    assert day is not None
    month_starts: list[datetime] = []
    while len(month_starts) < 12:
        day = day.replace(day=1, hour=4, minute=0, second=0)
        month_starts.append(day)
        day -= timedelta(days=1)
    rng = random.Random(f"transactions {state.seed}")
    created_times = [
        *(clock.utc_text(first) for first in reversed(month_starts)),
        clock.utc_text(state.start - 7200),
    ]
    return [
        {
            "id": state.new_id("transactions"),
            "created_at": created_at,
            "amount": round(40 + rng.random() * 60, 2),
            "currency_iso": "GBP",
            "type": "P",
            "result": "OK" if n < 12 else "PENDING",
        }
        for n, created_at in enumerate(sorted(created_times))
    ]
