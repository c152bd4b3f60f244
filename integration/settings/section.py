"""Base of the sections of the settings.

A section is a frozen model with one field for each key. The description of a field becomes the text of
`config.example.toml`; its example is shown there if the key has no default.
"""

from __future__ import annotations

import os

# Without this, the first model reads the metadata of every installed distribution in search of plugins.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

from pydantic import BaseModel, ConfigDict
from pydantic.config import JsonDict

SECRET: JsonDict = {"secret": True}
"""Mark of keys whose values never appear in messages, logs or a `repr`."""


class Section(BaseModel):
    """One section: unknown keys are mistakes, and messages never contain values."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, populate_by_name=True, hide_input_in_errors=True
    )
