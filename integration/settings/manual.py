"""Generator of config.example.toml and docs/settings.md, so that both always match the settings.

Regenerate them with `python -m integration.settings.manual > config.example.toml` and
`python -m integration.settings.manual page > docs/settings.md`.
"""

from __future__ import annotations

import json
import sys
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


PAGE_HEADER = """\
# Settings

All settings are in one TOML file: that of `--config`, else of the variable `SWITCHROOM_CONFIG`, else
`config.toml` in the working directory. `switchroom init` writes a first one;
[config.example.toml](../config.example.toml) has every key to copy. Only `platform.base_url` and the
credentials are required.

- The variable `SWITCHROOM_<SECTION>__<KEY>` overrides a key, for example `SWITCHROOM_SERVER__PORT=8080`.
  Lists are comma-separated or JSON. An empty variable is an unset key.
- `SWITCHROOM_<SECTION>__<KEY>_FILE` names a file from which the value is read; use it for secrets.
- Unknown keys and unknown variables that begin with `SWITCHROOM_` are mistakes. In Kubernetes, a service
  named `switchroom` adds such variables: set `enableServiceLinks: false`, or give the service another name.
- All mistakes are reported at once, one line each, and the exit status is 2.
- Either an API key (`user_id`, `api_key`) or a login (`email`, `password`) is configured.
- A changed setting takes effect at the next start of `serve`.
"""


def render_page() -> str:
    """Return the text of docs/settings.md."""
    lines = [PAGE_HEADER]
    current = ""
    for section, key, info in iterate_keys(Settings):
        if section != current:
            current = section
            lines.append(
                f"\n## {section}\n\n{_section_text(section)}\n\n| Key | Default | Meaning |\n|---|---|---|\n"
            )
        default = "required" if info.is_required() else "none" if info.default is None else ""
        description = (info.description or "").replace("|", "\\|")
        lines.append(f"| `{key}` | {default or f'`{_example_value(info)}`'} | {description} |\n")
    return "".join(lines)


def render_manual() -> str:
    """Return the text of config.example.toml."""
    return HEADER + "".join(_render_sections())


def _render_sections() -> Iterator[str]:
    current = ""
    for section, key, info in iterate_keys(Settings):
        if section != current:
            current = section
            yield f"\n[{section}]\n" + _wrap_comment(_section_text(section))
        yield (
            "\n"
            + _wrap_comment(_describe_field(info))
            + f"{'' if info.is_required() else '#'}{key} = {_example_value(info)}\n"
        )


def _section_text(section: str) -> str:
    model = Settings.model_fields[section].annotation
    assert isinstance(model, type)
    assert issubclass(model, BaseModel)
    return " ".join((model.__doc__ or "").split())


def _describe_field(info: FieldInfo) -> str:
    text = info.description or ""
    if info.is_required():
        return f"{text} Required."
    return f"{text} No default." if info.default is None and "If unset, " not in text else text


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
    print(render_page() if sys.argv[1:] == ["page"] else render_manual(), end="")
