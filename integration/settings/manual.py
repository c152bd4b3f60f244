"""Generator of config.example.toml, so that the file always matches the settings.

Regenerate the file with `python -m integration.settings.manual > config.example.toml`.
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
# Settings of Switchroom: every key with its default.
#
# Copy this file to config.toml and uncomment the keys that you change. Descriptions follow '# '. A key with
# its default (or an example, where there is no default) follows '#' without a space.
#
# Every key can be set by an environment variable instead: SWITCHROOM_<SECTION>__<KEY>, for example
# SWITCHROOM_SERVER__PORT=8080. Lists are comma-separated or JSON. SWITCHROOM_<SECTION>__<KEY>_FILE names a
# file from which the value is read; use it for secrets. The environment overrides this file.
"""


def render_manual() -> str:
    """Return the text of config.example.toml."""
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
    """Format `value` as TOML; an integral float has no fraction."""
    if isinstance(value, tuple):
        return "[" + ", ".join(to_toml(item) for item in value) + "]"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)


if __name__ == "__main__":
    print(render_manual(), end="")
