"""Export job whose worker is killed while it writes the file."""

from __future__ import annotations

import io
import os
import signal
from pathlib import Path

import openpyxl

from tests.support.application import running_app
from tests.support.fake_exchange import API_KEY, read_fixture
from tests.support.harness import Product, wait_for

CDR = read_fixture("response-cdrs-list-200")["data"][0]
ROWS = 50_100
"""Records, more than an export returns at once."""


def test_a_killed_worker_repeats_its_export_and_leaves_no_partial_file(tmp_path: Path) -> None:
    with running_app(tmp_path) as app:
        headers = app.add_key()
        app.put("cdrs", *({**CDR, "id": number} for number in range(1, ROWS + 1)))
    product = Product(tmp_path, api_key=API_KEY)
    try:
        path = "/exports/cdrs.xlsx?columns=id,src,dst,calldate,duration"
        status, _, response = product.client.send("GET", path, headers=headers)
        assert status == 202
        folder, state_path = tmp_path / "prepared", response["Location"]
        part_path = folder / "1.xlsx.part"
        wait_for(lambda: part_path.exists() and part_path.stat().st_size > 0, "the first bytes of the file")
        killed = product.worker
        os.kill(killed or 0, signal.SIGKILL)
        wait_for(lambda: product.worker not in (None, killed), "another worker")
        assert not (folder / "1.xlsx").exists(), "a partial file under its final name"
        product.ready()
        state = wait_for(
            lambda: (
                (found := product.client.json("GET", state_path, headers=headers))["state"]
                in ("done", "failed")
                and found
            ),
            "the end of the export",
        )
        assert (state["state"], state["done"]) == ("done", ROWS)
        assert [file.name for file in folder.iterdir()] == ["1.xlsx"]
        status, content, _ = product.client.send("GET", f"{state_path}/file", headers=headers)
        sheet = openpyxl.load_workbook(io.BytesIO(content), read_only=True).worksheets[0]
        assert (status, sum(1 for _ in sheet.iter_rows())) == (200, ROWS + 1)
    finally:
        product.stop()
