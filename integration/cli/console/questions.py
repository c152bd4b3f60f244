"""Prompts for settings on a terminal.

Each answer is checked when it is given.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from integration.core.errors import ConfigurationError

if TYPE_CHECKING:
    from integration.maintenance.check_result import CheckResult
    from integration.settings.model import Settings

    Check = Callable[[Settings], Iterable[CheckResult]]


def is_terminal() -> bool:
    """Return whether a user can answer prompts."""
    return sys.stdin is not None and sys.stdin.isatty()


class Answers:
    """Answers by section and key, without empty ones."""

    def __init__(self, given: dict[str, dict[str, Any]]) -> None:
        self.values: dict[str, dict[str, Any]] = {
            section: {key: value for key, value in keys.items() if value or value == 0}
            for section, keys in given.items()
        }

    def has(self, name: str) -> bool:
        section, _, key = name.partition(".")
        return key in self.values[section]

    def require_valid(self) -> None:
        """Raise ConfigurationError for invalid answers that were given as options."""
        from integration.settings import first_config

        mistakes = [
            mistake
            for section, keys in self.values.items()
            for key, value in keys.items()
            if (mistake := first_config.find_mistake(section, key, value)) is not None
        ]
        if mistakes:
            raise ConfigurationError(mistakes)

    def prompt(
        self,
        name: str,
        question: str,
        *,
        default: str | None = None,
        hidden: bool = False,
        optional: bool = False,
        is_list: bool = False,
        check: Check | None = None,
    ) -> None:
        """Prompt for a missing answer until it is valid.

        An empty answer to an `optional` question leaves the key out. `check` gets settings with all answers
        so far and yields problems.
        """
        if self.has(name):
            return
        section, _, key = name.partition(".")
        while True:
            # On standard error: standard output is for the result.
            text = click.prompt(
                question,
                hide_input=hidden,
                err=True,
                default="" if optional else default,
                show_default=bool(default),
            ).strip()
            if not text and optional:
                return
            value: Any = [text] if is_list else text
            problem = self._find_problem(section, key, value, check)
            if problem is None:
                self.values[section][key] = int(text) if key == "port" else value
                return
            click.echo(f"{problem}. Enter another value.", err=True)

    def _find_problem(self, section: str, key: str, value: Any, check: Check | None) -> str | None:
        from integration.settings import first_config

        mistake = first_config.find_mistake(section, key, value)
        if mistake is not None or check is None:
            return mistake
        proposed = self.values | {section: self.values[section] | {key: value}}
        for result in check(first_config.build_incomplete(proposed)):
            if result.level == "fail":
                return result.description.rstrip(".")
        return None
