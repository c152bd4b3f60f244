"""Which legs are one call (calls.md): the same root, else a chain of parents, else provisionally the same
caller at the same group at about the same time, else a leg is a call of its own.

A function of the set of legs. Surely joined legs stay together; a provisional join never brings together
two that are known to have different roots.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

TOGETHER = 2
"""Phones of one group that start to ring within this many seconds are rung for one caller."""


class Link(NamedTuple):
    """What of a leg decides where it belongs.

    `key` names the outside party and its group ('+447700900101|ringgroup|80001'), None outside groups;
    `group_id` tells queues of one key apart where both are known. `window` is how long after the unanswered
    end of this leg its group may ring the next phone; None where the leg was answered, goes on, or ended
    the whole call.
    """

    id: int
    root: int | None
    parent: int | None
    key: str | None
    group_id: int | None
    started: int
    ended: int | None
    window: int | None

    @property
    def sure_root(self) -> int | None:
        """Its root, unless that is the leg itself and a parent is known: a transferred leg may be the root
        of its own ringing and still belong to the call it came from."""
        return None if self.root == self.id and self.parent else self.root

    @property
    def sure(self) -> bool:
        return bool(self.root or self.parent)


class Joined(NamedTuple):
    """One call: its id, its legs (ascending), whether a join of it is only provisional, and the ids that
    its legs name as root."""

    id: int
    legs: tuple[int, ...]
    provisional: bool
    roots: frozenset[int]


class _Sets:
    """Union-find over ids; an id that is no leg (a root never seen) is a member like others."""

    def __init__(self) -> None:
        self._above: dict[int, int] = {}

    def find(self, id_: int) -> int:
        above = self._above
        while (up := above.setdefault(id_, id_)) != id_:
            above[id_] = above[up]
            id_ = above[id_]
        return id_

    def join(self, one: int, other: int) -> None:
        one, other = self.find(one), self.find(other)
        if one != other:
            self._above[max(one, other)] = min(one, other)


def join(links: Iterable[Link]) -> list[Joined]:
    """The calls that `links` make up, by id."""
    legs = {link.id: link for link in links}
    sets = _Sets()
    for link in legs.values():
        sets.find(link.id)
        above = link.sure_root or link.parent
        if above:
            sets.join(link.id, above)
    provisional = _join_provisionally(legs, sets)
    members: defaultdict[int, list[Link]] = defaultdict(list)
    for id_ in sorted(legs):
        members[sets.find(id_)].append(legs[id_])
    calls = []
    for top, group in members.items():
        roots = frozenset(link.root for link in group if link.root)
        calls.append(
            Joined(_call_id(group, legs), tuple(link.id for link in group), top in provisional, roots)
        )
    return sorted(calls)


def _call_id(group: list[Link], legs: dict[int, Link]) -> int:
    """The root's id where known, else the top of the parents' chain, else the lowest leg."""
    roots = {link.sure_root for link in group if link.sure_root}
    parents = {link.id for link in group if link.parent}
    tops = {_climb(id_, legs) for id_ in roots or parents}
    return min(tops) if tops else group[0].id


def _climb(id_: int, legs: dict[int, Link]) -> int:
    seen = {id_}
    while (link := legs.get(id_)) is not None:
        above = link.sure_root if link.sure_root not in (None, id_) else link.parent
        if above is None or above in seen:
            return min(seen) if above in seen else id_
        seen.add(above)
        id_ = above
    return id_


def _join_provisionally(legs: dict[int, Link], sets: _Sets) -> set[int]:
    """Join what rule 3 joins; returns the set names (after joining) that hold such a join."""
    edges = list(_edges(legs.values()))
    if not edges:
        return set()
    sure = {sets.find(link.id) for link in legs.values() if link.sure}
    joined: list[int] = []
    for one, other in edges:
        first, second = sets.find(one.id), sets.find(other.id)
        if first != second and first not in sure and second not in sure:
            sets.join(first, second)
            joined.append(one.id)
    # A cluster of legs without a root belongs to one call that has one: the nearest in time.
    nearest: dict[int, tuple[int, int, int]] = {}
    for one, other in edges:
        for loose, anchored in ((one, other), (other, one)):
            if sets.find(anchored.id) in sure and sets.find(loose.id) not in sure:
                distance = (abs(loose.started - anchored.started), sets.find(anchored.id), loose.id)
                cluster = sets.find(loose.id)
                nearest[cluster] = min(nearest.get(cluster, distance), distance)
    for _, anchor, loose_id in sorted(nearest.values()):
        sets.join(anchor, loose_id)
        joined.append(loose_id)
    return {sets.find(id_) for id_ in joined}


def _edges(links: Iterable[Link]) -> Iterator[tuple[Link, Link]]:
    by_key: defaultdict[str, list[Link]] = defaultdict(list)
    for link in links:
        if link.key is not None:
            by_key[link.key].append(link)
    for group in by_key.values():
        group.sort(key=lambda link: (link.started, link.id))
        for at, one in enumerate(group):
            latest = max(one.started + TOGETHER, (one.ended or 0) + (one.window or 0))
            for other in group[at + 1 :]:
                if other.started > latest:
                    break
                if _near(one, other):
                    yield one, other


def _near(one: Link, other: Link) -> bool:
    """`one` started no later than `other`, at the same key."""
    if one.group_id is not None and other.group_id is not None and one.group_id != other.group_id:
        return False
    if other.started - one.started <= TOGETHER:
        return True
    if one.ended is None or one.window is None:
        return False
    return one.ended <= other.started <= one.ended + one.window
