"""A process without its templates or styles is not ready, and names the file."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import requests

from tests.support.application import running_app
from tests.support.harness import ROOT


def copy_assets(folder: Path) -> Path:
    for name in ("templates", "static"):
        shutil.copytree(ROOT / name, folder / name)
    return folder


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda assets: shutil.rmtree(assets / "templates"), "templates/base.html"),
        (lambda assets: (assets / "templates" / "live.html").write_text("{% if %}"), "templates/live.html"),
        (lambda assets: (assets / "static" / "app.css").unlink(), "static/app.css"),
    ],
    ids=["no templates", "a damaged template", "no styles"],
)
def test_without_pages_the_process_is_unready_and_stores_webhooks(
    damage: Callable[[Path], object], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assets = copy_assets(tmp_path / "assets")
    damage(assets)
    monkeypatch.setattr("integration.web_app.find_assets", lambda: assets)
    with running_app(tmp_path / "data", webhooks__secret="s" * 32) as app:
        response = app.client.get("/readyz")
        assert (response.status_code, response.json["status"]) == (503, "unready")
        error = response.json["checks"]["pages"]["error"]
        assert f"{assets}/{named}" in error
        assert re.search(r"Install Switchroom again and restart it\.$", error)
        webhook = {"event_id": "1", "event_name": "call.ringing"}
        stored = requests.post(f"{app.url}/webhooks/{'s' * 32}", json=webhook, timeout=10)
        assert stored.json() == {"status": "stored"}
