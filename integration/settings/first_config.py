"""`init`: write the first config.toml with the required settings."""

from __future__ import annotations

import json
import os
import zoneinfo
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tzlocal

from integration.core import atomic_files
from integration.core.errors import ConfigurationError, SwitchroomError
from integration.settings.model import Settings
from integration.settings.related_keys import find_unreadable_file
from integration.settings.sources import Sources, build_settings

Values = Mapping[str, Mapping[str, Any]]
"""Values by section and key. Omitted keys keep their defaults."""

_HEADER = """\
# Settings of Switchroom. config.example.toml documents every key.
# This file contains credentials: keep it readable by its owner only.
"""


def require_creatable(path: Path) -> None:
    """Raise SwitchroomError unless the file can be created."""
    if path.exists() or path.is_symlink():
        raise SwitchroomError(
            f"{path} already exists and was not changed. Edit it, or choose another file by --config."
        )
    folder = path.absolute().parent
    if not folder.is_dir():
        raise SwitchroomError(f"{folder} is not a folder. Create it, or choose another file by --config.")
    if not os.access(folder, os.W_OK):
        raise SwitchroomError(
            f"{folder} is not writable for this user. Choose another file by --config, or another user."
        )


def find_mistake(section: str, key: str, value: object) -> str | None:
    """Return the mistake in one value, None for a valid one."""
    values = {section: {key: value}}
    sources = Sources(values=values, mistakes=list(_find_wrong_id(values)), is_complete=False)
    try:
        build_settings(Settings, sources)
    except ConfigurationError as error:
        for line in error.mistakes:
            if line.startswith(f"{section}.{key}"):
                return line
    return next(find_unreadable_file(section, key, value), None)


def _find_wrong_id(values: Values) -> Iterator[str]:
    """Yield the mistake of a user id that is not a number.

    Only here: files with such an id were valid before, and are loaded.
    """
    user_id = values.get("platform", {}).get("user_id")
    if user_id and not (user_id.isascii() and user_id.isdigit()):
        yield f"platform.user_id: must consist of digits, not {user_id!r}"


def find_local_zone() -> str:
    """Return the time zone of this computer, or UTC if its name is unknown."""
    try:
        zone = tzlocal.get_localzone_name()
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        return "UTC"
    return zone if zone and find_mistake("dashboard", "timezone", zone) is None else "UTC"


def write(path: Path, values: Values) -> None:
    """Validate `values` and write them to the new file `path`.

    The file has mode 0600 and is written completely or not at all. Raises ConfigurationError with every
    mistake, and SwitchroomError for a file that exists or cannot be written.
    """
    sources = Sources({section: dict(keys) for section, keys in values.items()}, file=path)
    sources.mistakes += _find_wrong_id(values)
    build_settings(Settings, sources)
    try:
        atomic_files.write_text(path, format_toml(values), may_replace=False)
    except FileExistsError:
        require_creatable(path)
    except OSError as error:
        raise SwitchroomError(f"{path} cannot be written: {error.strerror}") from error


def format_toml(values: Values) -> str:
    """Format `values` as TOML."""
    lines = [_HEADER]
    for section, keys in values.items():
        if keys:
            lines.append(f"[{section}]")
            lines += [f"{key} = {_format_value(value)}" for key, value in keys.items()]
            lines.append("")
    return "\n".join(lines)


def _format_value(value: str | int | list[str]) -> str:
    # TOML has the escapes of JSON, but also requires an escape of DEL, which JSON does not escape.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
