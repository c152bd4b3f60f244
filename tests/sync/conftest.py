from __future__ import annotations

from tests.support.applications.sync_rig import later, make_rig, rig, wednesday  # noqa
