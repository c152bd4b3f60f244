"""Build the documentation site: `python -m docs_site [FOLDER]`."""

from __future__ import annotations

import sys
from pathlib import Path

from docs_site.build import SITE_FOLDER, build_site

ROOT = Path(__file__).parents[1]

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / SITE_FOLDER
    problems = build_site(ROOT, folder)
    print(problems or folder / "index.html")
    sys.exit(1 if problems else 0)
