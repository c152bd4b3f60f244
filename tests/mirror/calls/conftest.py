from __future__ import annotations

from tests.support.applications.call_mirror import office, strangers  # noqa
