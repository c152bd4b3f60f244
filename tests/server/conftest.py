from __future__ import annotations

from tests.support.child_processes import start  # noqa
