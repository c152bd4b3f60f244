from __future__ import annotations

from tests.support.applications.shared_app import module_app  # noqa: F401
from tests.support.applications.shared_app import shared_app as app  # noqa: F401
