"""config.example.toml, written from the settings themselves, so that the manual can't go out of date.

`python -m integration.settings.manual > config.example.toml` writes it again.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from integration.settings.model import Settings
from integration.settings.sources import iterate_keys

HEADER = """\
# Switchroom's settings: every key there is, with its default.
#
# Copy this file to config.toml and take away the '#' in front of what you change. Prose stands behind '# ',
# a key at its default behind a bare '#'.
#
# Every key can be set by an environment variable instead: SWITCHROOM_<SECTION>__<KEY>, so
# SWITCHROOM_SERVER__PORT=8080; lists are comma-separated or JSON. SWITCHROOM_<SECTION>__<KEY>_FILE names a
# file to read the value from, which suits secrets. The environment goes before this file.
"""


def render_manual() -> str:
    """The text of config.example.toml."""
    return HEADER + "".join(_render_sections())


def _render_sections() -> Iterator[str]:
    current = ""
    for section, key, info in iterate_keys(Settings):
        if section != current:
            current = section
            model = Settings.model_fields[section].annotation
            assert isinstance(model, type)
            assert issubclass(model, BaseModel)
            yield f"\n[{section}]\n" + _wrap_comment(model.__doc__ or "")
        yield (
            "\n"
            + _wrap_comment(_describe_field(info))
            + f"{'' if info.is_required() else '#'}{key} = {_example_value(info)}\n"
        )


def _describe_field(info: FieldInfo) -> str:
    text = info.description or ""
    if info.is_required():
        return f"{text} Required."
    return f"{text} No default." if info.default is None else text


def _example_value(info: FieldInfo) -> str:
    if info.is_required() or info.default is None:
        return to_toml(info.examples[0] if info.examples else "")
    return to_toml(info.default)


def _wrap_comment(text: str) -> str:
    return textwrap.fill(text, 108, initial_indent="# ", subsequent_indent="# ") + "\n"


def to_toml(value: Any) -> str:
    """`value` as TOML writes it; whole floats without their fraction."""
    if isinstance(value, tuple):
        return "[" + ", ".join(to_toml(item) for item in value) + "]"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)


if __name__ == "__main__":
    print(render_manual(), end="")
