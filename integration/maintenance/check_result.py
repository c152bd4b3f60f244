"""Result of a check of `doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one check: level, subject, finding and advice.

    Its text is one line of `doctor`.
    """

    level: Level
    about: str
    text: str
    advice: str = ""

    @property
    def description(self) -> str:
        """Subject, finding and advice, without the level."""
        return f"{self.about}: {self.text}" + (f"; {self.advice}" if self.advice else "")

    def __str__(self) -> str:
        return f"{self.level:<5} {self.description}"
