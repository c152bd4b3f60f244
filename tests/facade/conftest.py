from __future__ import annotations

from tests.support.applications.facade_app import room, settings, writer  # noqa
