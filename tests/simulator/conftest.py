from __future__ import annotations

from tests.support.simulator_client import begin, receiver, world  # noqa
