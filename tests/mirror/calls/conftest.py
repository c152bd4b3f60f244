from __future__ import annotations

from tests.support.applications.call_mirror import call_app, empty_mirror, mirror  # noqa
