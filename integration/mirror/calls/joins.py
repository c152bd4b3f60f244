"""Join legs to calls (docs/calls.md#joining-legs).

Legs are joined by root, otherwise by parent, otherwise provisionally by caller, group and time. Every other
leg is a call alone. The result depends only on the set of legs. A provisional join never joins two calls that
each have a root or a parent. Callers who withhold their number share a key: two legs that ring one phone at
the same time then belong to two callers.

At a busy group each call may begin within the waiting time of the last, all day. Such a chain is divided at
its pauses (`divide_chain`), so that a call depends on a limited number of legs (`affected_legs.py`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import NamedTuple

SIMULTANEOUS_SECONDS = 2
"""Seconds between the starts of legs that ring a group for one caller.

The next phone of a hunt starts at most this long before the recorded end of the previous one: times have a
resolution of 1 s.
"""

MAX_JOIN_SECONDS = 600
"""Largest number of seconds between the starts of two legs that rule 3 joins."""

MAX_CHAIN_LEGS = 100
"""Largest number of legs without root and parent in a chain that is not divided.

One caller who waits in a queue of five phones reaches it after seven minutes. With 200 a webhook of a busy
group takes twice as long.
"""

PAUSE_NEIGHBOURS = 8
"""Legs before and after a pause that must not have a longer pause. A divided chain has more legs than this
between two pauses.
"""

MUSIC = "music"
"""`Link.phone` of a leg that leads to the music of its group."""


class Link(NamedTuple):
    """Fields of a leg that decide to which call the leg belongs.

    `key` contains the outside party and its group ('+447700900101|ringgroup|80001'); None without a group.
    `group_id` distinguishes queues with the same key if both ids are known. `window` is the number of seconds
    after the unanswered end of the leg in which its group may ring the next phone; None if the leg was
    answered, is open, or ended with `final: true`. `started` and `ended` are Unix seconds. `phone` identifies
    the phone that the leg rings, or is MUSIC; None if unknown. `is_final`: the leg ended with `final: true`.
    """

    id: int
    root_id: int | None
    parent_id: int | None
    key: str | None
    group_id: int | None
    started: int
    ended: int | None
    window: int | None
    phone: str | None = None
    is_final: bool = False

    @property
    def known_root_id(self) -> int | None:
        """Root, or None if the leg names itself and has a parent.

        Such a leg was transferred and belongs to the call of its parent.
        """
        return None if self.root_id == self.id and self.parent_id else self.root_id

    @property
    def is_anchored(self) -> bool:
        """True if the leg has a root or a parent."""
        return bool(self.root_id or self.parent_id)

    @property
    def latest_start(self) -> int:
        """Latest start of a leg that joins this leg, in Unix seconds."""
        latest_start = self.started + SIMULTANEOUS_SECONDS
        if self.ended is None or self.window is None:
            return latest_start
        return max(latest_start, min(self.ended + self.window, self.started + MAX_JOIN_SECONDS))

    @property
    def is_withheld(self) -> bool:
        """True if the caller withholds the number."""
        return self.key is not None and self.key.startswith("|")

    @property
    def may_ring_phone_twice(self) -> bool:
        """True for a queue, which rings a phone again later."""
        return self.key is not None and self.key.partition("|")[2].startswith("queue")


class JoinedCall(NamedTuple):
    """Legs of one call.

    `leg_ids` is ascending. `is_provisional`: at least one leg was joined by time and group only.
    """

    id: int
    leg_ids: tuple[int, ...]
    is_provisional: bool


class _DisjointSets:
    """Union-find over ids of legs, including roots without a row."""

    def __init__(self) -> None:
        self._parents: dict[int, int] = {}

    def find(self, id_: int) -> int:
        parents = self._parents
        while (parent := parents.setdefault(id_, id_)) != id_:
            parents[id_] = parents[parent]
            id_ = parents[id_]
        return id_

    def join(self, first: int, second: int) -> None:
        first, second = self.find(first), self.find(second)
        if first != second:
            self._parents[max(first, second)] = min(first, second)


def join_legs(links: Iterable[Link]) -> list[JoinedCall]:
    """Join `links` to calls, sorted by id."""
    links_by_id = {link.id: link for link in links}
    sets = _DisjointSets()
    for link in links_by_id.values():
        sets.find(link.id)
        parent_id = link.known_root_id or link.parent_id
        if parent_id:
            sets.join(link.id, parent_id)
    provisional_sets = _join_provisionally(links_by_id, sets)
    links_by_set: defaultdict[int, list[Link]] = defaultdict(list)
    for id_ in sorted(links_by_id):
        links_by_set[sets.find(id_)].append(links_by_id[id_])
    calls = []
    for set_id, group in links_by_set.items():
        calls.append(
            JoinedCall(
                _choose_call_id(group, links_by_id),
                tuple(link.id for link in group),
                set_id in provisional_sets,
            )
        )
    return sorted(calls)


def _choose_call_id(group: list[Link], links_by_id: dict[int, Link]) -> int:
    """Return the id of the root, topmost parent or lowest leg."""
    root_ids = {link.known_root_id for link in group if link.known_root_id}
    child_ids = {link.id for link in group if link.parent_id}
    if not root_ids and not child_ids:
        return group[0].id
    top_ids = {_find_top_id(id_, links_by_id) for id_ in root_ids or child_ids}
    return min(top_ids)


def _find_top_id(id_: int, links_by_id: dict[int, Link]) -> int:
    visited = {id_}
    while (link := links_by_id.get(id_)) is not None:
        parent_id = link.known_root_id if link.known_root_id not in (None, id_) else link.parent_id
        if parent_id is None or parent_id in visited:
            return min(visited) if parent_id in visited else id_
        visited.add(parent_id)
        id_ = parent_id
    return id_


class _SeparateCalls:
    """Joins sets of legs, but keeps withheld callers and redials separate."""

    def __init__(self, links_by_id: dict[int, Link], sets: _DisjointSets) -> None:
        self._links_by_id = links_by_id
        self._sets = sets
        self._withheld_links: defaultdict[int, list[Link]] = defaultdict(list)
        self._final_ends: dict[int, int] = {}
        for link in links_by_id.values():
            set_id = sets.find(link.id)
            if link.is_withheld and link.phone is not None:
                self._withheld_links[set_id].append(link)
            if link.is_final and link.ended is not None:
                self._final_ends[set_id] = min(link.ended, self._final_ends.get(set_id, link.ended))

    def may_join(self, first_id: int, second_id: int) -> bool:
        """Return whether the sets of two legs may be joined."""
        first_set, second_set = self._sets.find(first_id), self._sets.find(second_id)
        return (
            first_set != second_set
            and not self._is_redial(first_id, second_id)
            and not any(
                _are_two_callers(first, second)
                for first in self._withheld_links.get(first_set, ())
                for second in self._withheld_links.get(second_set, ())
            )
        )

    def join(self, first_id: int, second_id: int) -> bool:
        """Join the sets of two legs.

        Returns False if they are one set or belong to two calls.
        """
        if not self.may_join(first_id, second_id):
            return False
        first_set, second_set = self._sets.find(first_id), self._sets.find(second_id)
        self._sets.join(first_set, second_set)
        joined_set = self._sets.find(first_set)
        links = self._withheld_links.pop(first_set, []) + self._withheld_links.pop(second_set, [])
        if links:
            self._withheld_links[joined_set] = links
        final_ends = [self._final_ends.pop(id_) for id_ in (first_set, second_set) if id_ in self._final_ends]
        if final_ends:
            self._final_ends[joined_set] = min(final_ends)
        return True

    def _is_redial(self, first_id: int, second_id: int) -> bool:
        """Return whether the later leg is a redial.

        It starts after the call of the earlier one ended with `final: true`.
        """
        earlier, later = sorted(
            (self._links_by_id[first_id], self._links_by_id[second_id]), key=_get_start_key
        )
        final_end = self._final_ends.get(self._sets.find(earlier.id))
        return (
            final_end is not None
            and later.started >= final_end
            and later.started - earlier.started > SIMULTANEOUS_SECONDS
        )


def _are_two_callers(first: Link, second: Link) -> bool:
    """Return whether two legs of withheld callers belong to two calls.

    A group connects each caller with its music once. A queue may ring a phone again later.
    """
    return (first.key, first.phone) == (second.key, second.phone) and (
        first.phone == MUSIC
        or not first.may_ring_phone_twice
        or abs(first.started - second.started) <= SIMULTANEOUS_SECONDS
    )


def _join_provisionally(links_by_id: dict[int, Link], sets: _DisjointSets) -> set[int]:
    """Join `sets` by time and group (rule 3).

    Returns the sets with such a join.
    """
    anchored_sets = {sets.find(link.id) for link in links_by_id.values() if link.is_anchored}
    loose_ids = {id_ for id_ in links_by_id if sets.find(id_) not in anchored_sets}
    loose_edges, anchor_edges = _find_edges(links_by_id.values(), loose_ids)
    if not loose_edges and not anchor_edges:
        return set()
    separate_calls = _SeparateCalls(links_by_id, sets)
    joined_ids = [
        first_id for _, first_id, second_id in sorted(loose_edges) if separate_calls.join(first_id, second_id)
    ]
    # A cluster of legs without root and parent joins the nearest call in time that has one. If another
    # cluster that rings the same phone is nearer to that call, it remains a call alone. Rejected: the call
    # that is next in distance, because the result would then depend on all clusters of the day.
    choices: dict[int, tuple[int, int, int, int]] = {}
    for edge in sorted(
        (distance, sets.find(anchored_id), loose_id, anchored_id)
        for distance, anchored_id, loose_id in anchor_edges
    ):
        _, _, loose_id, anchored_id = edge
        cluster = sets.find(loose_id)
        if cluster not in choices and separate_calls.may_join(anchored_id, loose_id):
            choices[cluster] = edge
    joined_ids += [
        loose_id
        for _, _, loose_id, anchored_id in sorted(choices.values())
        if separate_calls.join(anchored_id, loose_id)
    ]
    return {sets.find(id_) for id_ in joined_ids}


_Edge = tuple[int, int, int]
"""Seconds between the starts of two legs, and their ids."""


def _find_edges(links: Iterable[Link], loose_ids: Set[int]) -> tuple[list[_Edge], list[_Edge]]:
    """Return the pairs of legs that rule 3 may join.

    First the pairs of two legs in `loose_ids`, the earlier leg first. Then those of a leg of a call with root
    or parent and a leg in `loose_ids`, in this order.
    """
    by_key: defaultdict[str, list[Link]] = defaultdict(list)
    for link in links:
        if link.key is not None:
            by_key[link.key].append(link)
    loose_edges: list[_Edge] = []
    anchor_edges: list[_Edge] = []
    for group in by_key.values():
        if len(group) == 1:
            continue
        group.sort(key=_get_start_key)
        loose = [link for link in group if link.id in loose_ids]
        anchored = [link for link in group if link.id not in loose_ids]
        for part in divide_chains([link for link in group if not link.is_anchored]):
            loose_part = [link for link in part if link.id in loose_ids]
            loose_edges += [
                (later.started - earlier.started, earlier.id, later.id)
                for earlier, later in _list_near_pairs(loose_part, loose_part)
            ]
        anchor_edges += [
            (later.started - earlier.started, earlier.id, later.id)
            for earlier, later in _list_near_pairs(anchored, loose)
        ]
        anchor_edges += [
            (later.started - earlier.started, later.id, earlier.id)
            for earlier, later in _list_near_pairs(loose, anchored)
        ]
    return loose_edges, anchor_edges


def divide_chains(links: Sequence[Link]) -> Iterator[Sequence[Link]]:
    """Yield the parts within which rule 3 joins legs.

    `links` have one key and no root and parent, and are sorted by start. A chain consists of legs that start
    before the latest start of an earlier leg. A chain of more than MAX_CHAIN_LEGS is divided before each leg
    with a longer pause than those of its PAUSE_NEIGHBOURS on both sides. A part therefore depends only on
    legs close to it.
    """
    begin, latest_start = 0, None
    for index, link in enumerate(links):
        if latest_start is not None and link.started > latest_start:
            yield from _divide_chain(links[begin:index])
            begin = index
        latest_start = link.latest_start if begin == index else max(latest_start or 0, link.latest_start)
    yield from _divide_chain(links[begin:])


def _divide_chain(chain: Sequence[Link]) -> Iterator[Sequence[Link]]:
    if len(chain) <= MAX_CHAIN_LEGS:
        yield chain
        return
    pauses = [(0, 0), *map(_get_pause_key, chain, chain[1:])]
    begin = 0
    for index in range(1, len(chain)):
        neighbours = pauses[max(0, index - PAUSE_NEIGHBOURS) : index + PAUSE_NEIGHBOURS + 1]
        if pauses[index] == max(neighbours):
            yield chain[begin:index]
            begin = index
    yield chain[begin:]


def _get_pause_key(earlier: Link, later: Link) -> tuple[int, int]:
    """Return the seconds between two starts and a number without order.

    The number decides between equal pauses. By the id of the leg, the first of many equal pauses would be the
    only one. It is the id times 2^32 divided by the golden ratio.
    """
    return later.started - earlier.started, later.id * 2654435769 % 2**32


def _get_start_key(link: Link) -> tuple[int, int]:
    return link.started, link.id


def _list_near_pairs(links: Sequence[Link], later_links: Sequence[Link]) -> Iterator[tuple[Link, Link]]:
    """Yield the pairs of legs that rule 3 joins.

    The earlier leg is first. Both lists have one key and are sorted by start.
    """
    for earlier in links:
        latest_start = earlier.latest_start
        first_index = bisect_right(later_links, _get_start_key(earlier), key=_get_start_key)
        for index in range(first_index, len(later_links)):
            if later_links[index].started > latest_start:
                break
            if _is_near(earlier, later_links[index]):
                yield earlier, later_links[index]


def _is_near(earlier: Link, later: Link) -> bool:
    """Return whether rule 3 joins two links of one key.

    `earlier` must not start after `later`.
    """
    if earlier.group_id is not None and later.group_id is not None and earlier.group_id != later.group_id:
        return False
    if later.started - earlier.started <= SIMULTANEOUS_SECONDS:
        return True
    if earlier.ended is None or earlier.window is None:
        return False
    return earlier.ended - SIMULTANEOUS_SECONDS <= later.started <= earlier.latest_start
