"""A reader of docs/recipes.md: has a key, and an environment with the packages that an example names."""

from __future__ import annotations

import subprocess
from pathlib import Path

from integration.access import keys
from integration.access.key_limits import KeyLimits
from tests.support.application import TestApp
from tests.support.harness import ROOT
from tests.support.page_environment import make_environment


class Reader:
    """Runs `script`, a path, against `app`."""

    def __init__(self, script: str, app: TestApp, folder: Path, scope: str = "read") -> None:
        self.script, self.folder = ROOT / script, folder
        self.python = make_environment(script, folder / "environment") / "python"
        user_id, secret = keys.add(
            app.app_db, script, scope, limits=KeyLimits(rights=frozenset({"workspace"}))
        )
        self.environment = {
            "URL": app.url,
            "BASE": app.url + app.base,
            "KEY": f"{user_id}:{secret}",
            "HOME": str(folder),
            "NO_PROXY": "127.0.0.1",
        }

    def run(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.python, self.script],
            cwd=self.folder,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )
