"""Files beside the code: templates, styles, documentation site and the settings manual.

A checkout has them at its top level. A wheel has them in `integration/assets/`, because an installed package
owns no other folder; `hatch_build.py` puts them there.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parents[2]


def find_assets() -> Path:
    """Return the folder with `templates/`, `static/` and `config.example.toml`."""
    packaged = _PACKAGE / "assets"
    return packaged if packaged.is_dir() else _PACKAGE.parent


def find_help_site() -> Path:
    """Return the folder of the documentation site.

    It may be missing in a checkout: `python -m docs_site` builds it there.
    """
    assets = find_assets()
    return assets / "help" if assets.name == "assets" else assets / "build" / "help"
