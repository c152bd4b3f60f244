"""A reader of docs/recipes.md, who has a key."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from integration.access import keys
from integration.access.keys import KeyLimits
from tests.support.application import TestApp
from tests.support.harness import ROOT


class Reader:
    """Runs `script`, a path, against `app`."""

    def __init__(self, script: str, app: TestApp, folder: Path, scope: str = "read") -> None:
        self.script, self.folder = ROOT / script, folder
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
            [sys.executable, self.script],
            cwd=self.folder,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )
