"""A caller's items, made from their calls and from what people did by hand, in whatever order both came."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any

from integration.sqlite.transaction import Transaction

MISSED = ("missed", "voicemail")
REACHED = "reached"
WITHHELD = "withheld:"
AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Item:
    """A row of `callbacks`. `party` is E.164, else as received, else 'withheld:<call id>'; times are UTC
    text; `reason` 'missed' or 'voicemail', of the last attempt; `closed_by` 'auto' or a person."""

    id: int
    party: str
    party_name: str
    opened_at: str
    last_at: str
    attempts: int
    last_call_id: int
    our_number: str | None
    reason: str
    state: str
    closed_at: str | None
    closed_by: str | None
    closed_call_id: int | None
    owner: str | None
    note: str | None


@dataclass(frozen=True, slots=True)
class Call:
    """What counts of a call: `kind` 'missed', 'voicemail' or 'reached'; `at` when it began, UTC text."""

    call_id: int
    party: str
    at: str
    kind: str
    our_number: str | None
    party_name: str


@dataclass(frozen=True, slots=True)
class Deed:
    """Something done by hand at `at` to the item that `calls` made up then."""

    id: int
    at: str
    who: str
    deed: str
    text: str | None
    calls: frozenset[int]


@dataclass(slots=True)
class Episode:
    """An item in the making."""

    misses: list[Call]
    closed_at: str | None = None
    closed_by: str | None = None
    closed_call_id: int | None = None
    owner: str | None = None
    note: str | None = None

    @property
    def is_open(self) -> bool:
        return self.closed_at is None

    def close(self, at: str, by: str, call_id: int | None = None) -> None:
        self.closed_at, self.closed_by, self.closed_call_id = at, by, call_id

    def row(self, id_: int) -> Item:
        last = self.misses[-1]
        name = next((call.party_name for call in reversed(self.misses) if call.party_name), "")
        return Item(
            id_,
            last.party,
            name,
            self.misses[0].at,
            last.at,
            len(self.misses),
            last.call_id,
            last.our_number,
            last.kind,
            "open" if self.is_open else "closed",
            self.closed_at,
            self.closed_by,
            self.closed_call_id,
            self.owner,
            self.note,
        )


def episodes(calls: Iterable[Call], deeds: Iterable[Deed]) -> list[Episode]:
    """One caller's items, oldest first, from their calls and what was done by hand, in any order."""
    began = {call.call_id: call.at for call in calls}
    steps: list[tuple[str, int, int, Call | Deed]] = [
        (call.at, 1 if call.kind == REACHED else 0, call.call_id, call) for call in calls
    ]
    for deed in deeds:
        # A person can only act on what has happened, whatever the platform's clock says of it.
        at = max([deed.at, *(began[id_] for id_ in deed.calls if id_ in began)])
        steps.append((at, 2, deed.id, deed))
    found: list[Episode] = []
    for _, _, _, step in sorted(steps, key=lambda one: one[:3]):
        if isinstance(step, Deed):
            _apply(step, found)
        elif step.kind == REACHED:
            if found and found[-1].is_open and not step.party.startswith(WITHHELD):
                found[-1].close(step.at, AUTO, step.call_id)
        elif found and found[-1].is_open:
            found[-1].misses.append(step)
        else:
            found.append(Episode([step]))
    return found


def _apply(deed: Deed, found: list[Episode]) -> None:
    episode = next(
        (one for one in reversed(found) if any(call.call_id in deed.calls for call in one.misses)), None
    )
    if episode is None:
        return
    if deed.deed == "close":
        if episode.is_open:
            episode.close(deed.at, deed.who)
        episode.note = deed.text or episode.note
    elif deed.deed == "reopen":
        if episode is found[-1]:
            episode.closed_at = episode.closed_by = episode.closed_call_id = None
    elif deed.deed == "assign":
        episode.owner = deed.text
    elif deed.deed == "note":
        episode.note = deed.text


def recompute(tx: Transaction, party: str) -> None:
    """Make the items of a caller anew; rows that stay the same are not touched, ids stay with their calls."""
    rows = tx.execute(
        "SELECT call_id, party, at, kind, our_number, party_name, item_id FROM callback_calls"
        " WHERE party = ?",
        (party,),
    ).fetchall()
    items_of = {row[0]: row[6] for row in rows}
    made = episodes([Call(*row[:6]) for row in rows], _deeds(tx, items_of))
    before = {row[0]: Item(*row) for row in tx.execute("SELECT * FROM callbacks WHERE party = ?", (party,))}
    free = set(before)
    for episode in made:
        kept = sorted({items_of[call.call_id] for call in episode.misses} & free)
        if kept:
            free.discard(kept[0])
            number = kept[0]
        else:
            number = _new_id(tx, episode)
        row = episode.row(number)
        if before.get(number) != row:
            marks = ", ".join("?" * len(Item.__dataclass_fields__))
            tx.execute(f"INSERT OR REPLACE INTO callbacks VALUES ({marks})", astuple(row))
        tx.executemany(
            "UPDATE callback_calls SET item_id = ? WHERE call_id = ?",
            [(number, call.call_id) for call in episode.misses if items_of[call.call_id] != number],
        )
    tx.executemany("DELETE FROM callbacks WHERE id = ?", [(number,) for number in free])


def _new_id(tx: Transaction, episode: Episode) -> int:
    columns = [name for name in Item.__dataclass_fields__ if name != "id"]
    cursor = tx.execute(
        f"INSERT INTO callbacks ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
        astuple(episode.row(0))[1:],
    )
    return int(cursor.lastrowid or 0)


def _deeds(tx: Transaction, call_ids: Iterable[int]) -> list[Deed]:
    deeds: dict[int, tuple[Any, set[int]]] = {}
    for row in tx.execute(
        "SELECT d.id, d.at, d.who, d.deed, d.text, c.call_id FROM callback_deed_calls AS c"
        " JOIN callback_deeds AS d ON d.id = c.deed_id WHERE c.call_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(call_ids)),),
    ):
        deeds.setdefault(row[0], (tuple(row[:5]), set()))[1].add(row[5])
    return [
        Deed(id_, at, who, deed, text, frozenset(calls))
        for (id_, at, who, deed, text), calls in deeds.values()
    ]
