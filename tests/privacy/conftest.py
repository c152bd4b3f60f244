from __future__ import annotations

from tests.support.applications.filled_data_dir import erased, erased_once, filled, place  # noqa
