"""`init`: write the first config.toml with the required settings."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from integration.core.errors import SwitchroomError
from integration.maintenance import manifest
from integration.settings.model import Settings
from integration.settings.sources import Sources, build_settings

Values = Mapping[str, Mapping[str, str | int]]
"""Values by section and key. Omitted keys keep their defaults."""

_HEADER = """\
# Settings of Switchroom. config.example.toml documents every key.
# This file contains credentials: keep it readable by its owner only.
"""


def require_absent(path: Path) -> None:
    """Raise SwitchroomError if the file exists, before any prompt."""
    if path.exists() or path.is_symlink():
        raise SwitchroomError(
            f"{path} already exists and was not changed. Edit it, or choose another file by --config."
        )


def write(path: Path, values: Values) -> None:
    """Validate `values` and write them to the new file `path` (mode 0600).

    Raises ConfigurationError with every mistake, and SwitchroomError for a file that exists or cannot be
    written.
    """
    build_settings(
        Settings, Sources(values={section: dict(keys) for section, keys in values.items()}, file=path)
    )
    try:
        with os.fdopen(manifest.create_private_file(path), "w", encoding="utf-8") as file:
            file.write(format_toml(values))
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        require_absent(path)
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


def _format_value(value: str | int) -> str:
    # TOML has the escapes of JSON, but also requires an escape of DEL, which JSON does not escape.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
