"""Join legs to calls (docs/calls.md#joining-legs).

Legs are joined by root, otherwise by parent, otherwise provisionally by caller, group and time. Every other
leg is a call alone. The result depends only on the set of legs. A provisional join never joins two calls that
each have a root or a parent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

SIMULTANEOUS_SECONDS = 2
"""Seconds between the starts of legs that ring a group for one caller."""


class Link(NamedTuple):
    """Fields of a leg that decide to which call the leg belongs.

    `key` contains the outside party and its group ('+447700900101|ringgroup|80001'); None without a group.
    `group_id` distinguishes queues with the same key if both ids are known. `window` is the number of seconds
    after the unanswered end of the leg in which its group may ring the next phone; None if the leg was
    answered, is open, or ended with `final: true`. `started` and `ended` are Unix seconds.
    """

    id: int
    root_id: int | None
    parent_id: int | None
    key: str | None
    group_id: int | None
    started: int
    ended: int | None
    window: int | None

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


def _join_provisionally(links_by_id: dict[int, Link], sets: _DisjointSets) -> set[int]:
    """Join `sets` by time and group (rule 3).

    Returns the sets with such a join.
    """
    edges = list(_find_edges(links_by_id.values()))
    if not edges:
        return set()
    anchored_sets = {sets.find(link.id) for link in links_by_id.values() if link.is_anchored}
    joined_ids: list[int] = []
    for earlier, later in edges:
        first_set, second_set = sets.find(earlier.id), sets.find(later.id)
        if first_set != second_set and first_set not in anchored_sets and second_set not in anchored_sets:
            sets.join(first_set, second_set)
            joined_ids.append(earlier.id)
    # A cluster of legs without root and parent joins the nearest call in time that has one.
    nearest: dict[int, tuple[int, int, int]] = {}
    for earlier, later in edges:
        for loose, anchored in ((earlier, later), (later, earlier)):
            if sets.find(anchored.id) in anchored_sets and sets.find(loose.id) not in anchored_sets:
                distance = (abs(loose.started - anchored.started), sets.find(anchored.id), loose.id)
                cluster = sets.find(loose.id)
                nearest[cluster] = min(nearest.get(cluster, distance), distance)
    for _, anchor_set, loose_id in sorted(nearest.values()):
        sets.join(anchor_set, loose_id)
        joined_ids.append(loose_id)
    return {sets.find(id_) for id_ in joined_ids}


def _find_edges(links: Iterable[Link]) -> Iterator[tuple[Link, Link]]:
    by_key: defaultdict[str, list[Link]] = defaultdict(list)
    for link in links:
        if link.key is not None:
            by_key[link.key].append(link)
    for group in by_key.values():
        group.sort(key=lambda link: (link.started, link.id))
        for index, earlier in enumerate(group):
            latest_start = max(
                earlier.started + SIMULTANEOUS_SECONDS, (earlier.ended or 0) + (earlier.window or 0)
            )
            for later in group[index + 1 :]:
                if later.started > latest_start:
                    break
                if _is_near(earlier, later):
                    yield earlier, later


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
