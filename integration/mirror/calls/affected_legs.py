"""Legs affected by a change: load facts, compute and join legs."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson

from integration.core.ids import MAX_ID, MIN_ID, id_list
from integration.core.timestamps import format_timestamp
from integration.mirror.calls import reading
from integration.mirror.calls.conferences import list_overlapping_legs, mark_staffed_conferences
from integration.mirror.calls.joins import (
    MAX_CHAIN_LEGS,
    MAX_JOIN_SECONDS,
    PAUSE_NEIGHBOURS,
    SIMULTANEOUS_SECONDS,
    JoinedCall,
    Link,
    join_legs,
)
from integration.mirror.calls.leg_view import (
    LegView,
    ReferenceData,
    get_longest_window,
    make_link,
    make_stored_link,
)
from integration.mirror.calls.legs import Leg, build_leg
from integration.mirror.calls.schema import CHANGED_LEGS
from integration.mirror.derived import due

LEG_COLUMNS = (
    "leg_id", "call_id", "root_id", "parent_id", "join_key", "started", "ended", "window", "side", "state",
    "started_at", "connected", "connected_at", "ended_at", "inferred", "final", "context", "group_kind",
    "group_id", "src", "src_name", "dst", "dst_id", "dst_name", "user_id", "user_name", "extension",
    "t_cause", "duration", "billsec", "charge", "disposition", "voicemails", "sources", "room",
)  # fmt: skip
_LINK_COLUMNS = (
    "leg_id, call_id, root_id, parent_id, join_key, started, ended, window, final, group_kind, group_id,"
    " user_id, dst, dst_id, dst_name"
)
_SAME_CALL = f"SELECT {_LINK_COLUMNS} FROM _legs WHERE call_id IN (SELECT value FROM json_each(?1))"
_NAMED = (
    f"SELECT {_LINK_COLUMNS} FROM _legs WHERE leg_id IN (SELECT value FROM json_each(?1))"
    f" UNION ALL SELECT {_LINK_COLUMNS} FROM _legs WHERE root_id IN (SELECT value FROM json_each(?1))"
    f" UNION ALL SELECT {_LINK_COLUMNS} FROM _legs WHERE parent_id IN (SELECT value FROM json_each(?1))"
)
_NEAR_LEGS = (
    f"SELECT {_LINK_COLUMNS} FROM json_each(?1) AS k JOIN _legs ON join_key = k.value ->> 0"
    " AND (root_id IS NULL AND parent_id IS NULL) = (k.value ->> 4)"
)
_NEAR = (
    f"{_NEAR_LEGS} WHERE started BETWEEN (k.value ->> 1) - ?3 AND (k.value ->> 1) + ?3"
    f" UNION ALL {_NEAR_LEGS} WHERE started BETWEEN (k.value ->> 2) - ?3 AND (k.value ->> 3)"
    f" UNION ALL {_NEAR_LEGS} WHERE window IS NOT NULL"
    " AND ended BETWEEN (k.value ->> 1) - ?2 AND (k.value ->> 1) + ?3 AND ended + window >= (k.value ->> 1)"
)
"""Legs with root or parent close to a leg without both, and the reverse (docs/calls.md#joining-legs, rule 3).

Parameters: JSON list of (key, start, end if unanswered, latest start of the next leg, 1 if the leg has a root
or a parent), the longest waiting time, and SIMULTANEOUS_SECONDS. Times are Unix seconds.
"""
_CHAIN_LEGS = (
    f"SELECT {_LINK_COLUMNS} FROM _legs WHERE join_key = ? AND (root_id IS NULL AND parent_id IS NULL) = 1"
)
_HAS_CHAIN = (
    "SELECT k.value ->> 0 FROM json_each(?1) AS k WHERE EXISTS (SELECT 1 FROM _legs"
    " WHERE join_key = k.value ->> 1 AND (root_id IS NULL AND parent_id IS NULL) = 1"
    " AND started BETWEEN (k.value ->> 2) - ?3 AND (k.value ->> 2) + ?3"
    " AND leg_id NOT IN (SELECT value FROM json_each(?2)))"
)
"""Legs whose chain continues in `_legs`. Few of an initial sync do, and each of these costs two statements.

Parameters: JSON list of (id, key, start), list of changed legs, and MAX_JOIN_SECONDS.
"""
_CHAIN_BACKWARDS = f"{_CHAIN_LEGS} AND started <= ? AND started > ? ORDER BY started DESC, leg_id DESC"
_CHAIN_FORWARDS = f"{_CHAIN_LEGS} AND started > ? AND started <= ? ORDER BY started, leg_id"

MAX_SIDE_LEGS = MAX_CHAIN_LEGS + PAUSE_NEIGHBOURS
"""Legs of a chain that are read on each side of a leg. Such a side is divided, whatever follows it."""

_MAX_STEPS = 4
"""Steps from a changed leg to the legs that may decide to which call another leg belongs.

A changed call attracts a cluster of legs without root and parent, which leaves another call, which then
attracts a third cluster, unless that is nearer to a third call.
"""


class AffectedLegs:
    """The changed legs, and all legs whose calls they may change.

    `load` reads changed legs and their relatives and returns their calls.

    Relatives are read from their rows in `_legs`, and computed from their facts only if their call changes:
    at a busy group most of them are close in time and belong to other calls. With `is_check` all are
    computed from their facts, because the rows may be wrong.
    """

    def __init__(
        self, connection: sqlite3.Connection, reference_data: ReferenceData, is_check: bool = False
    ) -> None:
        self.connection = connection
        self.reference_data = reference_data
        self.is_check = is_check
        self.views: dict[int, LegView] = {}
        self.links: dict[int, Link] = {}
        self.stored_rows: dict[int, tuple[Any, ...]] = {}
        self.ids_without_facts: set[int] = set()
        self._changed_ids: set[int] = set()
        self._core_ids: set[int] = set()
        self._stored_call_ids: dict[int, int] = {}

    def load(self, ids: Sequence[int]) -> list[JoinedCall]:
        """Load the legs `ids` and related legs.

        Returns the calls of `ids`, and all calls whose legs differ from the stored rows.
        """
        pending = set(ids)
        calls: list[JoinedCall] = []
        while pending:
            self._load_changed_legs(pending)
            self._load_relatives(pending)
            calls = self._select_calls(join_legs(self.links.values()))
            leg_ids = {leg_id for call in calls for leg_id in call.leg_ids}
            self._load_legs(leg_ids - self.views.keys())
            # A relative whose last record has just changed its leg: its stored row is out of date.
            pending = (leg_ids & self.ids_without_facts) or self._find_former_legs(leg_ids)
        views = [self.views[id_] for call in calls for id_ in call.leg_ids]
        mark_staffed_conferences(self.connection, views, self.ids_without_facts)
        return calls

    def _load_changed_legs(self, ids: set[int]) -> None:
        """Compute `ids` from their facts.

        Adds to `ids` the legs in the same conference at the same time, due legs that they name,
        and legs that name a root or parent without facts: a message may name it too.
        """
        self._load_legs(ids)
        conference_views = [v for id_ in ids if (v := self.views.get(id_)) and v.conference is not None]
        ids |= {row[0] for row in self.connection.execute(_NAMED, (id_list(ids & self.ids_without_facts),))}
        fresh = set(ids)
        ids |= list_overlapping_legs(self.connection, ids & self.stored_rows.keys(), conference_views)
        while fresh:
            links = [self.links[id_] for id_ in fresh if id_ in self.views]
            names = {name for link in links for name in (link.root_id, link.parent_id) if name} - ids
            ids |= due.find_due(self.connection, CHANGED_LEGS, names)
            fresh = ids - self.views.keys() - self.ids_without_facts
            self._load_legs(fresh)
        self._changed_ids |= ids

    def _load_legs(self, ids: Iterable[int]) -> None:
        """Read rows and facts of legs, and compute the legs."""
        leg_ids = sorted(ids)
        if not leg_ids:
            return
        for row in self.connection.execute(
            "SELECT * FROM _legs WHERE leg_id IN (SELECT value FROM json_each(?))", (id_list(leg_ids),)
        ):
            self.stored_rows[row[0]] = tuple(row)
            self._stored_call_ids[row[0]] = row[1]
        legs: list[Leg] = []
        for id_, facts in reading.load_facts(self.connection, leg_ids).items():
            if facts.is_empty:
                self.ids_without_facts.add(id_)
                self.links.pop(id_, None)
                continue
            legs.append(build_leg(facts))
        reading.add_messages_of_absent_legs(self.connection, legs)
        for leg in legs:
            view = self.views[leg.id] = LegView(leg, self.reference_data)
            self.links[leg.id] = make_link(view, self.reference_data)

    def _load_relatives(self, changed_ids: Iterable[int]) -> None:
        """Read the links of legs that may change calls.

        The last ones only decide to which calls the others belong.
        """
        changed_list = id_list(changed_ids)
        # The former links lead to legs that a changed leg has left.
        former_links = self._read_links(_NAMED, changed_list, former=True)
        call_ids = id_list(
            {self._stored_call_ids[link.id] for link in former_links if link.id in self._changed_ids}
        )
        links = [self.links[id_] for id_ in changed_ids if id_ in self.links]
        links += [*former_links, *self._read_links(_SAME_CALL, call_ids)]
        read_ids = set(changed_ids)
        for _ in range(_MAX_STEPS):
            links = self._add_named(links, read_ids)
            links += self._add_named(self._read_chains(links), read_ids)
            self._core_ids |= {link.id for link in links}
            links = [link for link in self._read_near(links) if link.id not in self._core_ids]
            if not links:
                break
        self._add_named(links, read_ids)
        if self.is_check:
            self._load_legs(self.links.keys() - self.views.keys())

    def _add_named(self, links: list[Link], read_ids: set[int]) -> list[Link]:
        """Add the links that are connected by root or parent.

        `read_ids`: roots and parents whose links were read before. Adds those that it reads.
        """
        named_links = list(links)
        ids = {link.id for link in links}
        fresh = named_links
        while fresh:
            names = {name for link in fresh for name in (link.id, link.root_id, link.parent_id) if name}
            names -= read_ids
            read_ids |= names
            fresh = [link for link in self._read_links(_NAMED, id_list(names)) if link.id not in ids]
            ids |= {link.id for link in fresh}
            named_links += fresh
        return named_links

    def _read_chains(self, links: Iterable[Link]) -> list[Link]:
        """Read the chains of legs without root and parent (`joins.divide_chains`).

        Of a long chain, reads enough legs on each side to find where it is divided. Returns the nearer half
        of these: parts that contain others are not complete.
        """
        links_by_key: defaultdict[str, list[Link]] = defaultdict(list)
        for link in links:
            if link.key is not None and not link.is_anchored:
                links_by_key[link.key].append(link)
        found: list[Link] = []
        continued_ids = self._find_continued(links_by_key.values())
        for key, group in links_by_key.items():
            group.sort(key=lambda link: link.started)
            latest_start, starts = MIN_ID, [MIN_ID, *(link.started for link in group), MAX_ID]
            for link, previous_start, next_start in zip(group, starts, starts[2:], strict=False):
                if link.id not in continued_ids:
                    latest_start = max(latest_start, link.latest_start)
                    continue
                earlier = self._read_chain_backwards(key, link.started, previous_start)
                latest_start = max(latest_start, *(each.latest_start for each in (link, *earlier)))
                later = self._read_chain_forwards(key, link.started, latest_start, next_start)
                latest_start = max(latest_start, *(each.latest_start for each in (link, *later)))
                for side in (earlier, later):
                    is_complete = len(side) < MAX_SIDE_LEGS
                    found += side if is_complete else side[: len(side) // 2]
        return found

    def _find_continued(self, groups: Iterable[list[Link]]) -> set[int]:
        """Return the links that are close to an unchanged leg of the same chain."""
        keyed_links = [(link.id, link.key, link.started) for group in groups for link in group]
        if not keyed_links:
            return set()
        parameters = (orjson.dumps(keyed_links).decode(), id_list(self._changed_ids), MAX_JOIN_SECONDS)
        return {row[0] for row in self.connection.execute(_HAS_CHAIN, parameters)}

    def _read_chain_backwards(self, key: str, start: int, previous_start: int) -> list[Link]:
        """Return the chain after `previous_start` until `start`, latest first."""
        chain: list[Link] = []
        candidates: list[Link] = []
        first_start = start
        for earlier in self._iterate_links(_CHAIN_BACKWARDS, key, start, previous_start):
            if earlier.started < first_start - MAX_JOIN_SECONDS or len(chain) >= MAX_SIDE_LEGS:
                break
            candidates.append(earlier)
            if earlier.latest_start >= first_start:
                chain += candidates
                candidates = []
                first_start = earlier.started
        return chain

    def _read_chain_forwards(self, key: str, start: int, latest_start: int, next_start: int) -> list[Link]:
        """Return the chain after `start` until `next_start`, earliest first."""
        chain: list[Link] = []
        for later in self._iterate_links(_CHAIN_FORWARDS, key, start, next_start):
            if later.started > latest_start or len(chain) >= MAX_SIDE_LEGS:
                break
            chain.append(later)
            latest_start = max(latest_start, later.latest_start)
        return chain

    def _read_near(self, links: Iterable[Link]) -> list[Link]:
        """Read legs that rule 3 may join by their calls.

        These have a root or parent and are close to legs without both, or the reverse.
        """
        keyed_links = [
            (
                link.key,
                link.started,
                link.ended if link.window is not None else None,
                link.latest_start,
                int(link.is_anchored),
            )
            for link in links
            if link.key is not None
        ]
        if not keyed_links:
            return []
        longest_window = get_longest_window(self.reference_data)
        keyed_text = orjson.dumps(keyed_links).decode()
        return self._read_links(_NEAR, keyed_text, longest_window, SIMULTANEOUS_SECONDS)

    def _read_links(self, sql: str, *parameters: str | int, former: bool = False) -> list[Link]:
        """Return the links of rows.

        The link of a changed leg is the computed one, or with `former` that of its row.
        """
        links: dict[int, Link] = {}
        for row in self.connection.execute(sql, parameters):
            id_ = row[0]
            if former or (id_ not in self.views and id_ not in self.ids_without_facts):
                links[id_] = self._add_link(row)
            elif id_ in self.views:
                links[id_] = self.links[id_]
        return list(links.values())

    def _iterate_links(self, sql: str, *parameters: object) -> Iterator[Link]:
        """Yield the links of rows of legs that have not changed."""
        for row in self.connection.execute(sql, parameters):
            if row[0] not in self._changed_ids:
                yield self._add_link(row)

    def _add_link(self, row: Sequence[Any]) -> Link:
        """Return the link of a row.

        Stores it if the leg has not been computed.
        """
        id_ = row[0]
        self._stored_call_ids[id_] = row[1]
        link = make_stored_link(row, self.reference_data.directory)
        if id_ not in self.views and id_ not in self.ids_without_facts:
            self.links[id_] = link
        return link

    def _select_calls(self, calls: Iterable[JoinedCall]) -> list[JoinedCall]:
        """Return calls to write.

        These have changed legs, or are complete and their legs differ from the rows.
        """
        sizes: defaultdict[int, int] = defaultdict(int)
        for call_id in self._stored_call_ids.values():
            sizes[call_id] += 1
        return [
            call
            for call in calls
            if not self._changed_ids.isdisjoint(call.leg_ids)
            or (
                self._core_ids.issuperset(call.leg_ids)
                and (
                    sizes[call.id] != len(call.leg_ids)
                    or any(self._stored_call_ids.get(id_) != call.id for id_ in call.leg_ids)
                )
            )
        ]

    def _find_former_legs(self, leg_ids: set[int]) -> set[int]:
        """Return legs that left the stored calls of `leg_ids`.

        There are none, unless a change divides a call of many legs.
        """
        call_ids = {self._stored_call_ids[id_] for id_ in leg_ids if id_ in self._stored_call_ids}
        rows = self.connection.execute(_SAME_CALL, (id_list(call_ids),))
        return {row[0] for row in rows} - leg_ids - self._changed_ids

    def list_party_numbers(self) -> set[str]:
        """Return the E.164 numbers of the outside parties of all loaded legs."""
        e164 = self.reference_data.phone_numbers.to_e164
        return {number for view in self.views.values() if (number := e164(view.party)) is not None}

    def list_views(self, call: JoinedCall) -> list[LegView]:
        return [self.views[id_] for id_ in call.leg_ids]

    def make_rows(self, call: JoinedCall) -> list[tuple[Any, ...]]:
        """Return the rows of the call's legs, as `_legs` should have them."""
        return [_make_leg_row(self.views[id_], self.links[id_], call.id) for id_ in call.leg_ids]


def _make_leg_row(view: LegView, leg_link: Link, call_id: int) -> tuple[Any, ...]:
    """Return the row of `_legs`."""
    leg = view.leg
    kind, group_id = leg.group or (None, None)
    return (
        leg.id, call_id, leg.root_id, leg.parent_id,
        leg_link.key, leg_link.started, leg_link.ended, leg_link.window,
        view.side, leg.state, format_timestamp(leg.started), int(leg.is_connected),
        format_timestamp(leg.connected_at), format_timestamp(leg.ended_at), int(leg.is_end_inferred),
        None if leg.final is None else int(leg.final), leg.context, kind, leg_link.group_id or group_id,
        leg.src, leg.src_name, leg.dst, leg.dst_id, leg.dst_name,
        view.person.id if view.person else None, view.staff_name or None, view.extension, leg.t_cause,
        leg.duration, leg.billsec, leg.charge, leg.disposition, len(leg.voicemails),
        ",".join(leg.sources), view.conference,
    )  # fmt: skip
