from __future__ import annotations

from tests.support.applications.filled_data_dir import filled, place  # noqa
from tests.support.applications.shared_app import module_app, shared_app  # noqa
