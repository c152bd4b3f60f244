from __future__ import annotations

import pytest

from tests.support.application import running_app


@pytest.fixture
def app(tmp_path):
    with running_app(tmp_path / "data") as app:
        yield app
