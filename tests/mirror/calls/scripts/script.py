"""Script of calls: facts in the order of their arrival, and the calls that result from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.mirror.calls.scripts.facts import Fact


@dataclass(frozen=True)
class Call:
    """Expected call. Times in seconds; `columns` are further columns of `_calls`.

    `party` is the number in E.164, otherwise as received.
    """

    id: int
    outcome: str | None
    legs: tuple[int, ...]
    wait: int | None
    talk: int | None
    hold: int | None = 0
    user: str | None = None
    party: str = "+447700900101"
    direction: str = "in"
    state: str = "ended"
    columns: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Script:
    """Facts and hand-written results (docs/calls.md).

    `during` maps seconds after T0 to columns of the calls at that time, by call id. `calls` are the
    result an hour after T0.
    """

    title: str
    facts: Sequence[Fact]
    calls: Sequence[Call]
    during: Mapping[float, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
