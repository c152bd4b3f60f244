"""Join legs to calls (docs/calls.md#joining-legs).

Legs are joined by root, otherwise by parent, otherwise provisionally by caller, group and time. Every other
leg is a call alone. The result depends only on the set of legs. A provisional join never joins two calls that
each have a root or a parent. Callers who withhold their number share a key: two legs that ring one phone at
the same time then belong to two callers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from typing import NamedTuple

SIMULTANEOUS_SECONDS = 2
"""Seconds between the starts of legs that ring a group for one caller."""

MUSIC = "music"
"""`Link.phone` of a leg that leads to the music of its group."""


class Link(NamedTuple):
    """Fields of a leg that decide to which call the leg belongs.

    `key` contains the outside party and its group ('+447700900101|ringgroup|80001'); None without a group.
    `group_id` distinguishes queues with the same key if both ids are known. `window` is the number of seconds
    after the unanswered end of the leg in which its group may ring the next phone; None if the leg was
    answered, is open, or ended with `final: true`. `started` and `ended` are Unix seconds. `phone` identifies
    the phone that the leg rings, or is MUSIC; None if unknown.
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
    def is_withheld(self) -> bool:
        """True if the caller withholds the number."""
        return self.key is not None and self.key.startswith("|")

    @property
    def may_ring_phone_twice(self) -> bool:
        """True for a queue, which rings a phone again later."""
        return self.key is not None and self.key.partition("|")[2].startswith("queue")


class JoinedCall(NamedTuple):
    """Legs of one call.

    `leg_ids` is ascending. `is_provisional`: at least one leg was joined by time and group only. `root_ids`:
    roots that the legs name.
    """

    id: int
    leg_ids: tuple[int, ...]
    is_provisional: bool
    root_ids: frozenset[int]


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
        root_ids = frozenset(link.root_id for link in group if link.root_id)
        calls.append(
            JoinedCall(
                _choose_call_id(group, links_by_id),
                tuple(link.id for link in group),
                set_id in provisional_sets,
                root_ids,
            )
        )
    return sorted(calls)


def _choose_call_id(group: list[Link], links_by_id: dict[int, Link]) -> int:
    """Return the id of the root, topmost parent or lowest leg."""
    root_ids = {link.known_root_id for link in group if link.known_root_id}
    child_ids = {link.id for link in group if link.parent_id}
    top_ids = {_find_top_id(id_, links_by_id) for id_ in root_ids or child_ids}
    return min(top_ids) if top_ids else group[0].id


def _find_top_id(id_: int, links_by_id: dict[int, Link]) -> int:
    visited = {id_}
    while (link := links_by_id.get(id_)) is not None:
        parent_id = link.known_root_id if link.known_root_id not in (None, id_) else link.parent_id
        if parent_id is None or parent_id in visited:
            return min(visited) if parent_id in visited else id_
        visited.add(parent_id)
        id_ = parent_id
    return id_


class _PhoneRule:
    """Joins sets of legs, but keeps withheld callers separate."""

    def __init__(self, links: Iterable[Link], sets: _DisjointSets) -> None:
        self._sets = sets
        self._withheld_links: defaultdict[int, list[Link]] = defaultdict(list)
        for link in links:
            if link.is_withheld and link.phone is not None:
                self._withheld_links[sets.find(link.id)].append(link)

    def join(self, first_id: int, second_id: int) -> bool:
        """Join the sets of two legs.

        Returns False if they are one set or belong to two callers.
        """
        first_set, second_set = self._sets.find(first_id), self._sets.find(second_id)
        if first_set == second_set:
            return False
        first_links = self._withheld_links.get(first_set, [])
        second_links = self._withheld_links.get(second_set, [])
        if any(_are_two_callers(first, second) for first in first_links for second in second_links):
            return False
        self._sets.join(first_set, second_set)
        if first_links or second_links:
            self._withheld_links[self._sets.find(first_set)] = first_links + second_links
        return True


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
    edges = [
        (later.started - earlier.started, earlier.id, later.id)
        for earlier, later in _find_edges(links_by_id.values(), loose_ids)
    ]
    if not edges:
        return set()
    phone_rule = _PhoneRule(links_by_id.values(), sets)
    joined_ids: list[int] = []
    for _, first_id, second_id in sorted(edges):
        if first_id in loose_ids and second_id in loose_ids and phone_rule.join(first_id, second_id):
            joined_ids.append(first_id)
    # A cluster of legs without root and parent joins the nearest call in time that has one.
    anchor_edges = sorted(
        (distance, sets.find(anchored_id), loose_id, sets.find(loose_id))
        for distance, first_id, second_id in edges
        for loose_id, anchored_id in ((first_id, second_id), (second_id, first_id))
        if loose_id in loose_ids and anchored_id not in loose_ids
    )
    anchored_clusters: set[int] = set()
    for _, anchored_set, loose_id, cluster in anchor_edges:
        if cluster not in anchored_clusters and phone_rule.join(anchored_set, loose_id):
            anchored_clusters.add(cluster)
            joined_ids.append(loose_id)
    return {sets.find(id_) for id_ in joined_ids}


def _find_edges(links: Iterable[Link], loose_ids: Set[int]) -> Iterator[tuple[Link, Link]]:
    """Return pairs of legs that rule 3 joins.

    At least one leg of each pair is in `loose_ids`.
    """
    by_key: defaultdict[str, list[Link]] = defaultdict(list)
    for link in links:
        if link.key is not None:
            by_key[link.key].append(link)
    for group in by_key.values():
        loose_links = sorted((link for link in group if link.id in loose_ids), key=_get_start_key)
        if not loose_links:
            continue
        group.sort(key=_get_start_key)
        for earlier in group:
            latest_start = max(
                earlier.started + SIMULTANEOUS_SECONDS, (earlier.ended or 0) + (earlier.window or 0)
            )
            candidates = group if earlier.id in loose_ids else loose_links
            first_index = bisect_right(candidates, _get_start_key(earlier), key=_get_start_key)
            for index in range(first_index, len(candidates)):
                if candidates[index].started > latest_start:
                    break
                if _is_near(earlier, candidates[index]):
                    yield earlier, candidates[index]


def _get_start_key(link: Link) -> tuple[int, int]:
    return link.started, link.id


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
    return earlier.ended <= later.started <= earlier.ended + earlier.window
