from __future__ import annotations

from tests.support.applications.client_site import site  # noqa
from tests.support.applications.platform_pair import module_twins, twins  # noqa
