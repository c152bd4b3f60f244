"""`init`: the first config.toml, with what an installation can't do without."""

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
"""section → key → value; what is not there keeps its default."""

_HEADER = """\
# Switchroom's settings. config.example.toml explains every key there is.
# This file holds credentials: keep it readable for its owner only.
"""


def require_absent(path: Path) -> None:
    """Raises SwitchroomError if there is a file already, before anybody is asked anything."""
    if path.exists() or path.is_symlink():
        raise SwitchroomError(f"{path}: is there already and stays as it is; edit it, or name another file")


def write(path: Path, values: Values) -> None:
    """Create `path` (mode 0600) with `values`, once they are known to be good.

    Raises ConfigurationError with every mistake, SwitchroomError for a file that exists or can't be made.
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
        raise SwitchroomError(f"{path}: can't be written: {error.strerror}") from error


def format_toml(values: Values) -> str:
    """`values` as TOML."""
    lines = [_HEADER]
    for section, keys in values.items():
        if keys:
            lines.append(f"[{section}]")
            lines += [f"{key} = {_format_value(value)}" for key, value in keys.items()]
            lines.append("")
    return "\n".join(lines)


def _format_value(value: str | int) -> str:
    # JSON's escapes are TOML's; only DEL, which JSON leaves as it is, must be escaped there.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
