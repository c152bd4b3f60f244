"""Legs affected by a change: load facts, compute legs, write changed rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from integration.core.ids import id_list
from integration.core.timestamps import format_timestamp
from integration.mirror.calls import reading
from integration.mirror.calls.conferences import list_overlapping_legs, mark_staffed_conferences
from integration.mirror.calls.fast_path import build_single_record_leg, is_single_record
from integration.mirror.calls.joins import JoinedCall, Link
from integration.mirror.calls.leg_view import LegView, ReferenceData, get_longest_window, make_link
from integration.mirror.calls.legs import ENDED, build_leg
from integration.mirror.calls.schema import build_insert_sql, build_update_sql
from integration.sqlite.transaction import Transaction

LEG_COLUMNS = (
    "leg_id", "call_id", "root_id", "parent_id", "join_key", "started", "ended", "window", "side", "state",
    "state_since", "started_at", "connected", "connected_at", "ended_at", "inferred", "missing", "ended_by",
    "final", "context", "group_kind", "group_id", "src", "src_id", "src_name", "dst", "dst_id", "dst_name",
    "user_id", "user_name", "extension", "t_cause", "duration", "billsec", "charge", "disposition", "cdrs",
    "recordings", "voicemails", "sources", "origins", "room",
)  # fmt: skip
_STATE_INDEX = LEG_COLUMNS.index("state")
_INSERT_LEG, _UPDATE_LEG = build_insert_sql("_legs", LEG_COLUMNS), build_update_sql("_legs", LEG_COLUMNS)
_JOIN_BY_KEY = (
    "SELECT leg_id FROM json_each(?1) AS k JOIN _legs ON join_key = k.value ->> 0"
    " AND (k.value ->> 4 OR (root_id IS NULL AND parent_id IS NULL))"
)
_RELATED_BY_TIME = (
    f"{_JOIN_BY_KEY} WHERE started BETWEEN (k.value ->> 1) - 2 AND (k.value ->> 1) + 2"
    f" UNION ALL {_JOIN_BY_KEY} WHERE started BETWEEN (k.value ->> 2) AND (k.value ->> 2) + (k.value ->> 3)"
    f" UNION ALL {_JOIN_BY_KEY} WHERE window IS NOT NULL"
    " AND ended BETWEEN (k.value ->> 1) - ?2 AND (k.value ->> 1) AND ended + window >= (k.value ->> 1)"
)
"""Legs that rule 3 of docs/calls.md#joining-legs may join to a leg.

Parameters: JSON list of (key, start, end if unanswered, window, whether the leg has no root and parent), and
the longest window. Times are Unix seconds.
"""


class AffectedLegs:
    """All legs that may share a call with the changed legs.

    `load` reads changed legs and their relatives; `write_legs` writes `_legs`. `just_ended` has the ids of
    legs that `write_legs` found ended and whose row was missing or open.
    """

    def __init__(self, tx: Transaction, reference_data: ReferenceData) -> None:
        self.tx = tx
        self.reference_data = reference_data
        self.views: dict[int, LegView] = {}
        self.links: dict[int, Link] = {}
        self.previous_rows: dict[int, tuple[Any, ...]] = {}
        self.ids_without_facts: set[int] = set()
        self.just_ended: list[int] = []

    def load(self, ids: Sequence[int]) -> None:
        """Load the legs `ids` and all related legs."""
        pending = list(ids)
        while pending:
            for row in self.tx.execute(
                "SELECT * FROM _legs WHERE leg_id IN (SELECT value FROM json_each(?))",
                (id_list(pending),),
            ):
                self.previous_rows[row[0]] = tuple(row)
            fresh: list[Link] = []
            for id_, facts in reading.load_facts(self.tx.connection, pending).items():
                if facts.is_empty:
                    self.ids_without_facts.add(id_)
                    continue
                leg = build_single_record_leg(facts) if is_single_record(facts) else build_leg(facts)
                view = self.views[id_] = LegView(leg, self.reference_data)
                self.links[id_] = make_link(view, self.reference_data)
                fresh.append(self.links[id_])
            related_ids = self._find_related(pending, fresh)
            conference_views = [
                self.views[leg_link.id]
                for leg_link in fresh
                if self.views[leg_link.id].conference is not None
            ]
            if conference_views:
                related_ids |= list_overlapping_legs(self.tx, conference_views)
            pending = sorted(related_ids - self.views.keys() - self.ids_without_facts)
        mark_staffed_conferences(self.tx, self.views.values())

    def _find_related(self, ids: Sequence[int], fresh: Sequence[Link]) -> set[int]:
        named_ids = set(ids) | {i for leg_link in fresh for i in (leg_link.root_id, leg_link.parent_id) if i}
        call_ids = {self.previous_rows[id_][1] for id_ in ids if id_ in self.previous_rows}
        related_ids = self._select_ids(
            "SELECT leg_id FROM _legs WHERE leg_id IN (SELECT value FROM json_each(?1))"
            " UNION ALL SELECT leg_id FROM _legs WHERE root_id IN (SELECT value FROM json_each(?1))"
            " UNION ALL SELECT leg_id FROM _legs WHERE parent_id IN (SELECT value FROM json_each(?1))"
            " UNION ALL SELECT leg_id FROM _legs_due WHERE leg_id IN (SELECT value FROM json_each(?1))",
            id_list(named_ids),
        )
        related_ids |= self._select_ids(
            "SELECT leg_id FROM _legs WHERE call_id IN (SELECT value FROM json_each(?1))",
            id_list(call_ids),
        )
        keyed_links = [
            (
                leg_link.key,
                leg_link.started,
                leg_link.ended if leg_link.window is not None else None,
                leg_link.window,
                not leg_link.is_anchored,
            )
            for leg_link in fresh
            if leg_link.key is not None
        ]
        if keyed_links:
            # For stored legs only. `join_legs` compares the loaded legs, which may have no row yet. Two legs
            # with a root or parent do not join by time: without this condition, one webhook of a withheld
            # caller would load all calls of a busy group.
            related_ids |= self._select_ids(
                _RELATED_BY_TIME,
                orjson.dumps(keyed_links).decode(),
                get_longest_window(self.reference_data),
            )
        return related_ids

    def _select_ids(self, sql: str, *parameters: str | int) -> set[int]:
        return {row[0] for row in self.tx.execute(sql, parameters)}

    def list_party_numbers(self) -> set[str]:
        """Return the E.164 numbers of the outside parties of all loaded legs."""
        e164 = self.reference_data.phone_numbers.to_e164
        return {number for view in self.views.values() if (number := e164(view.party)) is not None}

    def list_views(self, call: JoinedCall) -> list[LegView]:
        return [self.views[id_] for id_ in call.leg_ids]

    def make_changed_rows(self, call: JoinedCall) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of legs that differ from the stored rows."""
        for id_ in call.leg_ids:
            row = _make_leg_row(self.views[id_], self.links[id_], call.id)
            if row != self.previous_rows.get(id_):
                yield row

    def write_legs(self, joined_calls: Sequence[JoinedCall]) -> None:
        """Write legs that differ from their rows and delete rows without facts."""
        new, changed = [], []
        for call in joined_calls:
            for row in self.make_changed_rows(call):
                id_, previous_row = row[0], self.previous_rows.get(row[0])
                if previous_row is None:
                    new.append(row)
                else:
                    changed.append((*row[1:], id_))
                if self.views[id_].leg.has_ended and (
                    previous_row is None or previous_row[_STATE_INDEX] != ENDED
                ):
                    self.just_ended.append(id_)
        self.tx.executemany(_INSERT_LEG, new)
        self.tx.executemany(_UPDATE_LEG, changed)
        self.tx.executemany(
            "DELETE FROM _legs WHERE leg_id = ?",
            [(i,) for i in self.ids_without_facts & self.previous_rows.keys()],
        )


def _make_leg_row(view: LegView, leg_link: Link, call_id: int) -> tuple[Any, ...]:
    leg = view.leg
    kind, group_id = leg.group or (None, None)
    return (
        leg.id, call_id, leg.root_id, leg.parent_id,
        leg_link.key, leg_link.started, leg_link.ended, leg_link.window,
        view.side, leg.state, format_timestamp(leg.state_since), format_timestamp(leg.started),
        int(leg.is_connected), format_timestamp(leg.connected_at), format_timestamp(leg.ended_at),
        int(leg.is_end_inferred), int(leg.is_missing), leg.ended_by,
        None if leg.final is None else int(leg.final), leg.context, kind, leg_link.group_id or group_id,
        leg.src, leg.src_id, leg.src_name, leg.dst, leg.dst_id, leg.dst_name,
        view.person.id if view.person else None, view.staff_name or None, view.extension, leg.t_cause,
        leg.duration, leg.billsec, leg.charge, leg.disposition,
        leg.cdrs, len(leg.recordings), len(leg.voicemails),
        ",".join(leg.sources), orjson.dumps(leg.origins, option=orjson.OPT_SORT_KEYS).decode(),
        view.conference,
    )  # fmt: skip
