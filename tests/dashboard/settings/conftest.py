from __future__ import annotations

from tests.support.applications.shared_app import module_app  # noqa: F401
