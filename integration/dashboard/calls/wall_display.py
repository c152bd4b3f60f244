"""Choices of a wallboard in its address.

Figures, queue or line, theme and night hours. Without parameters: the usual figures of all calls.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from werkzeug.datastructures import MultiDict

from integration.alerts.rules import is_within_hours
from integration.core.errors import DomainError
from integration.mirror.page_queries.call_labels import STATE_LABELS

TILES = {
    "waiting": "Waiting",
    "wait": "Longest wait",
    "talking": "Talking",
    "callbacks": "To call back",
    "level": "Service level",
    "calls": "Calls today",
    "missed": f"{STATE_LABELS['missed'].text} today",
}
"""Labels in the form, by value of `tile` and `hero`."""
USUAL_TILES = ("waiting", "wait", "talking", "callbacks", "level", "calls")
THEMES = ("dark", "light")
_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


@dataclass(frozen=True, slots=True)
class WallDisplay:
    """Choices of a wallboard.

    `hero` is the large figure, `tiles` are the others. `queue_id` or `line` limits the figures to one queue
    and one number of the account. `dim_from` and `dim_to` are 'HH:MM' in the display zone, '' for never.
    """

    hero: str
    tiles: tuple[str, ...]
    theme: str
    queue_id: int | None = None
    line: str = ""
    dim_from: str = ""
    dim_to: str = ""

    @property
    def is_filtered(self) -> bool:
        return self.queue_id is not None or bool(self.line)

    def is_dimmed(self, now: datetime) -> bool:
        """Return whether the screen is dim at `now` (display zone)."""
        return bool(self.dim_from) and is_within_hours(now, self.dim_from, self.dim_to)


def parse_display(parameters: MultiDict[str, str], queue_ids: set[int], lines: set[str]) -> WallDisplay:
    """Return the choices of an address. Raises DomainError for an invalid one."""
    hero = _choose(parameters.get("hero", "waiting"), TILES, "figure")
    tiles = tuple(_choose(name, TILES, "figure") for name in parameters.getlist("tile")) or USUAL_TILES
    queue, line = parameters.get("queue", ""), parameters.get("line", "")
    if queue and queue not in {str(queue_id) for queue_id in queue_ids}:
        raise DomainError(
            f"There is no queue {queue[:20]!r}. Remove “queue=” from the address, then choose one."
        )
    if line and line not in lines:
        raise DomainError(
            f"The account has no number {line[:20]!r}. Enter one of its numbers as in +442079460001."
        )
    dim_from, dim_to = parameters.get("dim_from", ""), parameters.get("dim_to", "")
    night = (dim_from, dim_to)
    if any(night) and not all(_TIME.fullmatch(time) for time in night):
        raise DomainError("Enter both times of the night as in 20:00, or neither.")
    return WallDisplay(
        hero=hero,
        tiles=tuple(dict.fromkeys(name for name in tiles if name != hero)),
        theme=_choose(parameters.get("theme", "dark"), THEMES, "theme"),
        queue_id=int(queue) if queue else None,
        line=line,
        dim_from=dim_from,
        dim_to=dim_to,
    )


def _choose(value: str, offered: dict[str, str] | tuple[str, ...], what: str) -> str:
    if value not in offered:
        raise DomainError(f"There is no {what} {value[:20]!r}. Choose one of {', '.join(offered)}.")
    return value
