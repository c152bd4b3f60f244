"""`version.json` in data_dir: the version of Switchroom that wrote the data.

An older version refuses data of a newer one, and its message names the version to start.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from integration import __version__
from integration.core import atomic_files
from integration.core.errors import NewerDatabase, StorageError

RECORD_FILE = "version.json"
UNRECORDED = "0.1.0"
"""Version of data without a record."""

_RELEASE = "z"
"""Stage of a release: sorts after the stages of its candidates."""
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:(a|b|rc)(\d+))?")


def parse_version(text: str) -> tuple[int, int, int, str, int]:
    """Return the parts of a version for comparison.

    `1.0.0rc1` is before `1.0.0`. Only the forms of releases are accepted, so the package `packaging` is not
    required. Raises ValueError.
    """
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError(f"Invalid version {text!r}.")
    major, minor, patch, stage, number = match.groups()
    return int(major), int(minor), int(patch), stage or _RELEASE, int(number or 0)


def has_other_form(first: str, second: str) -> bool:
    """Return whether two versions may store different data.

    Releases that differ only in the last number store the same, unless a migration step is recorded. A
    candidate such as `1.0.0rc1` was no release: its data may differ from that of every other version.
    """
    (*first_line, _, first_stage, _), (*second_line, _, second_stage, _) = map(parse_version, (first, second))
    is_release = first_stage == second_stage == _RELEASE
    return first != second and not (is_release and first_line == second_line)


def is_newer(version: str) -> bool:
    """Return whether `version` is newer than this one."""
    return parse_version(version) > parse_version(__version__)


def read(data_dir: Path) -> str | None:
    """Return the recorded version, None without a record. Raises StorageError."""
    path = data_dir / RECORD_FILE
    try:
        version = str(json.loads(path.read_text("utf-8"))["version"])
        parse_version(version)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(
            f"{path} is damaged ({error}). Its content must name the version that ran last, like this:"
            f' {{"version": "{__version__}"}}'
        ) from None
    return version


def write(data_dir: Path) -> None:
    """Record this version. Raises StorageError."""
    path = data_dir / RECORD_FILE
    try:
        atomic_files.write_text(path, json.dumps({"version": __version__}) + "\n")
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error


def refuse_newer(data_dir: Path, recorded: str, advice: str) -> None:
    """Raise NewerDatabase for data of a newer version.

    Data that differs only in the last number of its version has the same form. `advice`: sentence with the
    way back to this version.
    """
    if has_other_form(recorded, __version__) and is_newer(recorded):
        raise make_refusal(data_dir, recorded, advice)


def make_refusal(data_dir: Path, recorded: str, advice: str) -> NewerDatabase:
    """Return the error for data of a newer version."""
    return NewerDatabase(
        f"storage.data_dir: {data_dir} was written by Switchroom {recorded}, but this is {__version__}."
        f" Start Switchroom {recorded} or newer. {advice}"
    )
