"""What an examination says: a line for each thing looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What was found about one thing, and what to do where it is not well."""

    level: Level
    about: str
    text: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.level:<5} {self.about}: {self.text}" + (f"; {self.advice}" if self.advice else "")
