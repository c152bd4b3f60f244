"""Build backend: hatchling, which needs Sphinx for wheels.

An editable installation serves the documents without Sphinx (`integration/web/help_documents.py`): fetching
Sphinx and building the site would add 16 s of CPU time to 4 s. hatchling has no requirements of wheels only.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from hatchling import build as hatchling
from hatchling.build import *  # noqa: F403

from docs_site.build import SITE_FOLDER, is_current


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """Return what a wheel needs: the extra `docs`, unless the site is built already."""
    requires: list[str] = hatchling.get_requires_for_build_wheel(config_settings)
    if is_current(Path.cwd(), Path(SITE_FOLDER)):
        return requires
    project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
    return [*requires, *project["optional-dependencies"]["docs"]]
