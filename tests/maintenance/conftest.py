from __future__ import annotations

from tests.support.applications.data_dir import home  # noqa
