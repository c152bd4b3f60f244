"""Deletions in pages, facade and exports, as part of the trial `deletions`."""

from __future__ import annotations

import csv
import io
from typing import Any

import requests

from integration.core import clock
from tests.support.harness import Product, Simulator, wait_for
from tests.trials.tools.databases import query_rows
from tests.trials.tools.traffic import create_access
from tests.trials.trial import Trial, await_sync


def check_surfaces(trial: Trial, cdrs: int) -> None:
    """Delete records at the platform; check commands, pages, facade and export."""
    simulator = trial.start_simulator("--seed", str(trial.options.seed), "--no-traffic", history=cdrs)
    access = create_access(trial.data_dir)
    product = trial.start_product(trial.data_dir, simulator)
    await_sync(product, "cdrs", "monitors")
    product.command("sync", "monitors")
    archived = _list_values(product, "SELECT record_id FROM media WHERE state = 'have'")
    monitors = _list_values(product, "SELECT id FROM monitors ORDER BY id")[-5:-2]
    before = _list_values(product, "SELECT id FROM cdrs ORDER BY id")
    deleted = before[20:80]
    for name, keys in (("monitors", monitors), ("cdrs", deleted)):
        for key in keys:
            simulator.control("DELETE", f"records/{name}/{key}")
    # Times are stored in seconds: a record read in the second in which a sync begins counts as seen by it.
    second = clock.utc_text()
    wait_for(lambda: clock.utc_text() > second, "the next second", 5)

    synced = product.command("sync", "cdrs", "monitors", "--full", "--no-files")
    output = synced.stdout + synced.stderr
    trial.verify("--accept-deletions" in output, f"the command shows the deletion limit, not {output[-300:]}")
    checks = product.client.json("GET", "/readyz")["checks"]
    errors = [check["error"] for check in checks.values() if check.get("error")]
    is_shown = any("--accept-deletions" in error for error in errors)
    trial.verify(is_shown, f"/readyz shows the deletion limit, not {errors}")
    marked = _list_values(product, "SELECT id FROM monitors WHERE _missing_since > ''")
    trial.verify(marked == monitors, f"{len(monitors)} recordings are marked as missing, not {marked}")
    trial.verify(set(monitors) <= set(archived), "they were archived before")

    _check_pages(trial, product, access.dashboard, monitors[0])
    _check_facade(trial, product, simulator, access.facade, monitors[0], len(before))
    exported = csv.DictReader(io.StringIO(product.command("export", "monitors").stdout))
    trial.verify(
        set(monitors) <= {int(row["id"]) for row in exported}, "an export contains deleted recordings"
    )

    product.command("sync", "cdrs", "--accept-deletions")
    missing = "SELECT id FROM cdrs WHERE _missing_since > ''"
    accepted = _list_values(product, missing)
    trial.verify(
        set(accepted) == set(deleted), f"{len(deleted)} accepted CDRs are missing, not {len(accepted)}"
    )
    product.command("sync", "undo-deletions", "cdrs")
    product.command("sync", "cdrs", "--full", "--no-files")
    left = _list_values(product, missing)
    trial.verify(not left, f"after the undo no CDR is missing, not {len(left)}")
    trial.figures.append(f"{len(deleted)} CDRs held, accepted and restored by command")


def _check_pages(trial: Trial, product: Product, headers: Any, monitor: int) -> None:
    def get(path: str) -> requests.Response:
        return requests.get(product.url + path, headers=headers, timeout=60)

    trial.verify("--accept-deletions" in get("/system").text, "System shows the deletion limit")
    status = get(f"/recordings/{monitor}.mp3").status_code
    trial.verify(status == 200, f"a deleted recording can be played, not {status}")
    page = get("/recordings").text.lower()
    trial.verify("deleted on the phone system" in page, "the list shows the recording as deleted")


def _check_facade(
    trial: Trial, product: Product, simulator: Simulator, headers: Any, monitor: int, cdrs: int
) -> None:
    status = product.client.send("GET", f"{simulator.base}/monitors/{monitor}", headers=headers)[0]
    trial.verify(status == 404, f"the facade returns 404 for a deleted recording, not {status}")
    total = product.client.json("GET", f"{simulator.base}/cdrs?limit=1", headers=headers)["total"]
    trial.verify(
        total == cdrs, f"the facade lists all {cdrs} CDRs before the deletions are accepted, not {total}"
    )


def _list_values(product: Product, sql: str) -> list[Any]:
    return [row[0] for row in query_rows(product.data_dir / "mirror.db", sql)]
