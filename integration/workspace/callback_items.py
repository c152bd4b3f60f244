"""Compute call-back items from calls and the actions of users.

The order of arrival does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any

from integration.core.ids import id_list
from integration.core.phone_numbers import is_withheld
from integration.sqlite.transaction import Transaction

MISSED_KINDS = ("missed", "voicemail")
REACHED = "reached"
WITHHELD_PREFIX = "withheld:"
AUTO = "auto"


@dataclass(frozen=True, slots=True)
class CallbackItem:
    """A call-back item, a row of `callbacks`. Times are UTC text.

    `party` is the number in E.164 or as received, or 'withheld:<call id>'. `reason` is 'missed' or
    'voicemail', that of the last attempt. `closed_by` is 'auto' or a dashboard user.
    """

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
class CallbackCall:
    """A call of a caller.

    `kind` is 'missed', 'voicemail' or 'reached'; `at` is its start (UTC text).
    """

    call_id: int
    party: str
    at: str
    kind: str
    our_number: str | None
    party_name: str


@dataclass(frozen=True, slots=True)
class CallbackAction:
    """An action of a user on an item.

    `calls` are the calls that the item had at the time `at`.
    """

    id: int
    at: str
    who: str
    action: str
    text: str | None
    calls: frozenset[int]


@dataclass(slots=True)
class CallbackEpisode:
    """A call-back item while it is computed."""

    missed_calls: list[CallbackCall]
    closed_at: str | None = None
    closed_by: str | None = None
    closed_call_id: int | None = None
    owner: str | None = None
    note: str | None = None

    @property
    def is_open(self) -> bool:
        return self.closed_at is None

    def close(self, closed_at: str, closed_by: str, call_id: int | None = None) -> None:
        self.closed_at, self.closed_by, self.closed_call_id = closed_at, closed_by, call_id

    def to_item(self, item_id: int) -> CallbackItem:
        last_call = self.missed_calls[-1]
        name = next((call.party_name for call in reversed(self.missed_calls) if call.party_name), "")
        return CallbackItem(
            item_id,
            last_call.party,
            name,
            self.missed_calls[0].at,
            last_call.at,
            len(self.missed_calls),
            last_call.call_id,
            last_call.our_number,
            last_call.kind,
            "open" if self.is_open else "closed",
            self.closed_at,
            self.closed_by,
            self.closed_call_id,
            self.owner,
            self.note,
        )


def build_episodes(calls: Iterable[CallbackCall], actions: Iterable[CallbackAction]) -> list[CallbackEpisode]:
    """Compute the items of one caller, oldest first.

    The order of the arguments does not matter.
    """
    started_at = {call.call_id: call.at for call in calls}
    steps: list[tuple[str, int, int, CallbackCall | CallbackAction]] = [
        (call.at, 1 if call.kind == REACHED else 0, call.call_id, call) for call in calls
    ]
    for action in actions:
        # An action follows the calls of its item, even if the platform's clock is ahead.
        effective_at = max(
            [action.at, *(started_at[call_id] for call_id in action.calls if call_id in started_at)]
        )
        steps.append((effective_at, 2, action.id, action))
    episodes: list[CallbackEpisode] = []
    for _, _, _, step in sorted(steps, key=lambda entry: entry[:3]):
        if isinstance(step, CallbackAction):
            _apply_action(step, episodes)
        elif step.kind == REACHED:
            if episodes and episodes[-1].is_open and not is_withheld(step.party):
                episodes[-1].close(step.at, AUTO, step.call_id)
        elif episodes and episodes[-1].is_open:
            episodes[-1].missed_calls.append(step)
        else:
            episodes.append(CallbackEpisode([step]))
    return episodes


def _apply_action(action: CallbackAction, episodes: list[CallbackEpisode]) -> None:
    episode = next(
        (
            candidate
            for candidate in reversed(episodes)
            if any(call.call_id in action.calls for call in candidate.missed_calls)
        ),
        None,
    )
    if episode is None:
        return
    if action.action == "close":
        if episode.is_open:
            episode.close(action.at, action.who)
        episode.note = action.text or episode.note
    elif action.action == "reopen":
        if episode is episodes[-1]:
            episode.closed_at = episode.closed_by = episode.closed_call_id = None
    elif action.action == "assign":
        episode.owner = action.text
    elif action.action == "note":
        episode.note = action.text


def recompute_items(tx: Transaction, party: str) -> None:
    """Recompute the items of a caller.

    Unchanged rows are not written; calls keep their item ids.
    """
    rows = tx.execute(
        "SELECT call_id, party, at, kind, our_number, party_name, item_id FROM callback_calls"
        " WHERE party = ?",
        (party,),
    ).fetchall()
    items_of = {row[0]: row[6] for row in rows}
    new_episodes = build_episodes([CallbackCall(*row[:6]) for row in rows], _load_actions(tx, items_of))
    old_items = {
        row[0]: CallbackItem(*row) for row in tx.execute("SELECT * FROM callbacks WHERE party = ?", (party,))
    }
    unused_ids = set(old_items)
    for episode in new_episodes:
        reusable_ids = sorted({items_of[call.call_id] for call in episode.missed_calls} & unused_ids)
        if reusable_ids:
            unused_ids.discard(reusable_ids[0])
            item_id = reusable_ids[0]
        else:
            item_id = _insert_item(tx, episode)
        row = episode.to_item(item_id)
        if item_id in old_items and old_items[item_id] != row:
            assignments = ", ".join(f"{name} = ?" for name in CallbackItem.__dataclass_fields__)
            tx.execute(f"UPDATE callbacks SET {assignments} WHERE id = ?", (*astuple(row), item_id))
        tx.executemany(
            "UPDATE callback_calls SET item_id = ? WHERE call_id = ?",
            [(item_id, call.call_id) for call in episode.missed_calls if items_of[call.call_id] != item_id],
        )
    tx.executemany("DELETE FROM callbacks WHERE id = ?", [(item_id,) for item_id in unused_ids])


def _insert_item(tx: Transaction, episode: CallbackEpisode) -> int:
    columns = [name for name in CallbackItem.__dataclass_fields__ if name != "id"]
    cursor = tx.execute(
        f"INSERT INTO callbacks ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
        astuple(episode.to_item(0))[1:],
    )
    return int(cursor.lastrowid or 0)


def _load_actions(tx: Transaction, call_ids: Iterable[int]) -> list[CallbackAction]:
    actions: dict[int, tuple[Any, set[int]]] = {}
    for row in tx.execute(
        "SELECT d.id, d.at, d.who, d.deed, d.text, c.call_id FROM callback_deed_calls AS c"
        " JOIN callback_deeds AS d ON d.id = c.deed_id WHERE c.call_id IN (SELECT value FROM json_each(?))",
        (id_list(call_ids),),
    ):
        actions.setdefault(row[0], (tuple(row[:5]), set()))[1].add(row[5])
    return [
        CallbackAction(action_id, acted_at, who, action, text, frozenset(calls))
        for (action_id, acted_at, who, action, text), calls in actions.values()
    ]
