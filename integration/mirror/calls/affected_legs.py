"""The part of `_legs` that a change concerns: read, computed anew, written where it differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from integration.core.timestamps import stamp
from integration.mirror.calls import reading
from integration.mirror.calls.conferences import introduce, others
from integration.mirror.calls.fast_path import is_plain, leg_of
from integration.mirror.calls.joins import Joined, Link
from integration.mirror.calls.leg_view import Knowledge, View, link
from integration.mirror.calls.legs import ENDED, build
from integration.mirror.calls.schema import insert_sql, update_sql
from integration.sqlite.transaction import Transaction

LEG_COLUMNS = (
    "leg_id", "call_id", "root_id", "parent_id", "join_key", "started", "ended", "window", "side", "state",
    "state_since", "started_at", "connected", "connected_at", "ended_at", "inferred", "missing", "ended_by",
    "final", "context", "group_kind", "group_id", "src", "src_id", "src_name", "dst", "dst_id", "dst_name",
    "user_id", "user_name", "extension", "t_cause", "duration", "billsec", "charge", "disposition", "cdrs",
    "recordings", "voicemails", "sources", "origins", "room",
)  # fmt: skip
_STATE = LEG_COLUMNS.index("state")
_NEW_LEG, _SAME_LEG = insert_sql("_legs", LEG_COLUMNS), update_sql("_legs", LEG_COLUMNS)


class Region:
    """The legs that the changed ones may share a call with, read until no more are found."""

    def __init__(self, tx: Transaction, knowledge: Knowledge) -> None:
        self.tx = tx
        self.knowledge = knowledge
        self.views: dict[int, View] = {}
        self.links: dict[int, Link] = {}
        self.before: dict[int, tuple[Any, ...]] = {}
        self.void: set[int] = set()
        self.just_ended: list[int] = []

    def grow(self, ids: Sequence[int]) -> None:
        pending = list(ids)
        while pending:
            for row in self.tx.execute(
                "SELECT * FROM _legs WHERE leg_id IN (SELECT value FROM json_each(?))",
                (reading.ids_json(pending),),
            ):
                self.before[row[0]] = tuple(row)
            fresh: list[Link] = []
            for id_, facts in reading.facts_of(self.tx.connection, pending).items():
                if facts.nothing:
                    self.void.add(id_)
                    continue
                leg = leg_of(facts) if is_plain(facts) else build(facts)
                view = self.views[id_] = View(leg, self.knowledge)
                self.links[id_] = link(view, self.knowledge)
                fresh.append(self.links[id_])
            found = self._neighbours(pending, fresh)
            rooms = [self.views[one.id] for one in fresh if self.views[one.id].room is not None]
            if rooms:
                found |= others(self.tx, rooms)
            pending = sorted(found - self.views.keys() - self.void)
        introduce(self.tx, self.views.values())

    def _neighbours(self, ids: Sequence[int], fresh: Sequence[Link]) -> set[int]:
        named = set(ids) | {i for one in fresh for i in (one.root, one.parent) if i}
        calls = {self.before[id_][1] for id_ in ids if id_ in self.before}
        found = self._select(
            "SELECT leg_id FROM _legs WHERE leg_id IN (SELECT value FROM json_each(?1))"
            " UNION ALL SELECT leg_id FROM _legs WHERE root_id IN (SELECT value FROM json_each(?1))"
            " UNION ALL SELECT leg_id FROM _legs WHERE parent_id IN (SELECT value FROM json_each(?1))"
            " UNION ALL SELECT leg_id FROM _legs_due WHERE leg_id IN (SELECT value FROM json_each(?1))",
            reading.ids_json(named),
        )
        found |= self._select(
            "SELECT leg_id FROM _legs WHERE call_id IN (SELECT value FROM json_each(?1))",
            reading.ids_json(calls),
        )
        keyed = [
            (one.key, one.started, one.ended if one.window is not None else None, one.window)
            for one in fresh
            if one.key is not None
        ]
        if keyed:
            # Legs of this chunk that are not written yet find each other in `join`; these find the others.
            found |= self._select(
                "SELECT leg_id FROM json_each(?1) AS k JOIN _legs ON join_key = k.value ->> 0"
                " WHERE started BETWEEN (k.value ->> 1) - 2 AND (k.value ->> 1) + 2"
                " UNION ALL SELECT leg_id FROM json_each(?1) AS k JOIN _legs ON join_key = k.value ->> 0"
                " WHERE started BETWEEN (k.value ->> 2) AND (k.value ->> 2) + (k.value ->> 3)"
                " UNION ALL SELECT leg_id FROM json_each(?1) AS k JOIN _legs ON join_key = k.value ->> 0"
                " WHERE window IS NOT NULL AND ended BETWEEN (k.value ->> 1) - 86400 AND (k.value ->> 1)"
                " AND ended + window >= (k.value ->> 1)",
                orjson.dumps(keyed).decode(),
            )
        return found

    def _select(self, sql: str, parameter: str) -> set[int]:
        return {row[0] for row in self.tx.execute(sql, (parameter,))}

    def parties(self) -> set[str]:
        e164 = self.knowledge.numbers.e164
        return {number for view in self.views.values() if (number := e164(view.party)) is not None}

    def write_legs(self, joined: Sequence[Joined]) -> None:
        """Write the legs that differ from their rows, remove those that no fact tells of any more."""
        new, changed = [], []
        for call in joined:
            for id_ in call.legs:
                row = _leg_row(self.views[id_], self.links[id_], call.id)
                old = self.before.get(id_)
                if row != old:
                    if old is None:
                        new.append(row)
                    else:
                        changed.append((*row[1:], id_))
                    if self.views[id_].leg.ended and (old is None or old[_STATE] != ENDED):
                        self.just_ended.append(id_)
        self.tx.executemany(_NEW_LEG, new)
        self.tx.executemany(_SAME_LEG, changed)
        self.tx.executemany(
            "DELETE FROM _legs WHERE leg_id = ?", [(i,) for i in self.void & self.before.keys()]
        )


def _leg_row(view: View, one: Link, call_id: int) -> tuple[Any, ...]:
    leg = view.leg
    kind, group_id = leg.group or (None, None)
    return (
        leg.id, call_id, leg.root, leg.parent,
        one.key, one.started, one.ended, one.window,
        view.side, leg.state, stamp(leg.state_since), stamp(leg.started), int(leg.connected),
        stamp(leg.connected_at), stamp(leg.ended_at), int(leg.inferred), int(leg.missing), leg.ended_by,
        None if leg.final is None else int(leg.final), leg.context, kind, one.group_id or group_id,
        leg.src, leg.src_id, leg.src_name, leg.dst, leg.dst_id, leg.dst_name,
        view.person.id if view.person else None, view.own_name or None, view.extension, leg.t_cause,
        leg.duration, leg.billsec, leg.charge, leg.disposition,
        leg.cdrs, len(leg.recordings), len(leg.voicemails),
        ",".join(leg.sources), orjson.dumps(leg.origins, option=orjson.OPT_SORT_KEYS).decode(), view.room,
    )  # fmt: skip
