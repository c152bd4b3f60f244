"""Build hook of hatchling: adds the files beside the code, and the commit, to wheel and sdist.

In the repository `templates/`, `static/` and the documents are at the top level. A wheel has them in
`integration/assets/`, where `integration/core/installation.py` finds them. `force-include` in
pyproject.toml would also copy them into editable installations, where changes of the repository would not be
visible.

A wheel also gets the documentation site, which is built in `build/help` unless it is there already.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

from docs_site.build import SITE_FOLDER, build_site, is_current

ASSETS = ("templates", "static", "config.example.toml", "CHANGELOG.md", "LICENSE", "NOTICE")
COMMIT_FILE = "COMMIT"


class AssetsHook(BuildHookInterface):
    """Hook for the targets `wheel` and `sdist`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        # Deleted at exit: hatchling reads the file after this method.
        self._folder = tempfile.TemporaryDirectory()
        included = build_data["force_include"]
        commit = Path(self.root, COMMIT_FILE)
        if not commit.is_file():
            # Not in an unpacked sdist, which has the file and no repository.
            commit = Path(self._folder.name, COMMIT_FILE)
            commit.write_text(self._read_commit() + "\n")
            if self.target_name == "sdist":
                included[str(commit)] = COMMIT_FILE
        if self.target_name == "wheel":
            site_folder = Path(self.root, SITE_FOLDER)
            if not is_current(Path(self.root), site_folder):
                build_site(Path(self.root), site_folder)
            included[str(site_folder)] = "integration/assets/help"
            included[str(commit)] = f"integration/assets/{COMMIT_FILE}"
            for name in ASSETS:
                included[str(Path(self.root, name))] = f"integration/assets/{name}"

    def _read_commit(self) -> str:
        if not Path(self.root, ".git").exists():
            return "unknown"
        command = ("git", "rev-parse", "--short=12", "HEAD")
        try:
            done = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return "unknown"
        return done.stdout.strip()
