"""Command `switchroom doctor`."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from pathlib import Path

import click

from integration.cli import config_option, json_option, load_settings, print_json
from integration.cli.console import is_quiet
from integration.core.errors import ConfigurationError
from integration.maintenance.check_result import CheckResult

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command(
    "doctor",
    help="Check configuration, conditions of a start, platform, credentials, clock and public URL, and"
    " suggest fixes. Prints one line per check, which begins with ok, warn or fail; with --quiet only warn"
    " and fail. Changes nothing. The exit status is 1 if a check fails and 2 if the configuration is wrong.",
)
@click.option(
    "--accept",
    default="",
    metavar="SUBJECT[,SUBJECT]",
    help="With --quiet, print no warnings about these subjects, such as sqlite,clock.",
)
@json_option
@config_option
def command(accept: str, as_json: bool, config: Path | None) -> None:
    accepted = {subject.strip().casefold() for subject in accept.split(",")}
    status = run_checks(config, as_json=as_json, accepted=accepted)
    if status:
        sys.exit(status)


def run_checks(config: Path | None, *, as_json: bool = False, accepted: Collection[str] = frozenset()) -> int:
    """Print the results of all checks. Returns the exit status.

    `accepted`: subjects in lower case without warnings for `--quiet`.
    """
    try:
        settings = load_settings(config)
    except ConfigurationError as error:
        _print_results(
            [CheckResult("fail", "configuration", mistake) for mistake in error.mistakes], as_json, accepted
        )
        return 2
    # Imported here because they are not needed if the settings are invalid.
    from integration.maintenance import doctor
    from integration.server import port

    return _print_results(doctor.check_installation(settings, port.check_port(settings)), as_json, accepted)


def _print_results(results: Iterable[CheckResult], as_json: bool, accepted: Collection[str]) -> int:
    """Print the results, with `as_json` as one object.

    A line is printed as soon as its check ends. Returns 1 if a check failed, else 0.
    """
    printed = []
    has_failed = False
    for result in results:
        has_failed |= result.level == "fail"
        if as_json:
            printed.append(
                {
                    "level": result.level,
                    "subject": result.about,
                    "finding": result.text,
                    "advice": result.advice,
                }
            )
        elif not is_quiet() or result.level == "fail" or _is_new_warning(result, accepted):
            _print_line(result.level, str(result))
    if as_json:
        print_json({"checks": printed})
    return int(has_failed)


def _is_new_warning(result: CheckResult, accepted: Collection[str]) -> bool:
    return result.level == "warn" and result.about.casefold() not in accepted


def _print_line(level: str, line: str) -> None:
    """Print a line with its level in colour on a terminal."""
    click.echo(click.style(line[:5], fg=_COLOURS[level], bold=level != "ok") + line[5:])
