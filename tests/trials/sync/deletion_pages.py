"""What people see of deletions, as part of the trial `deletions`: by the commands, /readyz, System, the list
of recordings, the facade and an export, all of real processes.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import requests

from integration.core import clock
from tests.support.harness import Product, Simulator, wait_for
from tests.trials.sync.platform import Report, friday_evening

EMAIL, PASSWORD = "owner@example.com", "a long enough password"


def people(options: argparse.Namespace, report: Report) -> str:
    history = ("--cdrs", str(options.cdrs), "--start", str(friday_evening()))
    simulator = Simulator("--seed", str(options.seed), "--no-traffic", *history)
    try:
        with tempfile.TemporaryDirectory() as folder:
            product = Product(
                Path(folder), base_url=simulator.url, user_id=simulator.user_id, api_key=simulator.api_key
            )
            try:
                return _seen(simulator, product, report)
            finally:
                product.stop(30)
    finally:
        simulator.stop()


def _seen(simulator: Simulator, product: Product, report: Report) -> str:
    mirror = product.data_dir / "mirror.db"
    complete = "SELECT 1 FROM _walks WHERE collection IN ('cdrs', 'monitors') AND complete_at > ''"
    wait_for(lambda: len(_rows(mirror, complete)) == 2, "the first walk", 120)
    product.command("sync", "monitors")
    recorded = [row[0] for row in _rows(mirror, "SELECT record_id FROM media WHERE state = 'have'")]
    silenced = [row[0] for row in _rows(mirror, "SELECT id FROM monitors ORDER BY id")][-5:-2]
    deleted = [row[0] for row in _rows(mirror, "SELECT id FROM cdrs ORDER BY id")][20:80]
    for name, keys in (("monitors", silenced), ("cdrs", deleted)):
        for key in keys:
            simulator.control("DELETE", f"records/{name}/{key}")
    before = len(_rows(mirror, "SELECT 1 FROM cdrs"))
    # Stamps have seconds: what was read in the one in which a walk begins counts as seen by it.
    read = clock.utc_text()
    wait_for(lambda: clock.utc_text() > read, "the next second", 5)

    walked = product.command("sync", "cdrs", "monitors", "--full", "--no-files")
    said = walked.stdout + walked.stderr
    report.check("--accept-deletions" in said, f"the command says what is held, not {said[-300:]}")
    ready = product.client.json("GET", "/readyz")
    checks = {name: check["error"] for name, check in ready["checks"].items() if check.get("error")}
    told = [error for error in checks.values() if "--accept-deletions" in error]
    report.check(bool(told), f"/readyz says it, not {checks}")
    marked = [row[0] for row in _rows(mirror, "SELECT id FROM monitors WHERE _missing_since > ''")]
    report.check(marked == silenced, f"the {len(silenced)} recordings are marked, not {marked}")
    report.check(set(silenced) <= set(recorded), "they were archived before")

    product.command("user", "add", EMAIL, "--role", "admin", "--password-stdin", stdin=PASSWORD)
    with requests.Session() as browser:
        token = re.search(r'name="csrf_token" value="([^"]+)"', browser.get(f"{product.url}/login").text)
        login = {"email": EMAIL, "password": PASSWORD, "csrf_token": token[1] if token else ""}
        browser.post(f"{product.url}/login", login, headers={"Origin": product.url})
        system = browser.get(f"{product.url}/system").text
        report.check("--accept-deletions" in system, "System says it")
        heard = browser.get(f"{product.url}/recordings/{silenced[0]}.mp3")
        report.check(heard.status_code == 200, f"a deleted recording plays, not {heard.status_code}")
        shown = browser.get(f"{product.url}/recordings").text
        report.check("no longer on the platform" in shown.lower(), "and is marked in the list")

    key = product.command("key", "add", "trial", "--scope", "read").stdout.strip().partition(":")[2]
    headers = {"X-Auth-Token": key}
    status = product.client.ask("GET", f"{simulator.base}/monitors/{silenced[0]}", headers=headers)[0]
    report.check(status == 404, f"the facade has it no more, not {status}")
    total = product.client.json("GET", f"{simulator.base}/cdrs?limit=1", headers=headers)["total"]
    report.check(total == before, f"it has all {before} CDRs while these are held, not {total}")
    exported = csv.DictReader(io.StringIO(product.command("export", "monitors").stdout))
    ids = {int(row["id"]) for row in exported}
    report.check(set(silenced) <= ids, "an export has the deleted recordings")

    product.command("sync", "cdrs", "--accept-deletions")
    now = {row[0] for row in _rows(mirror, "SELECT id FROM cdrs WHERE _missing_since > ''")}
    report.check(now == set(deleted), f"accepted, {len(now)} CDRs are marked, not {len(deleted)}")
    product.command("sync", "undo-deletions", "cdrs")
    product.command("sync", "cdrs", "--full", "--no-files")
    left = _rows(mirror, "SELECT 1 FROM cdrs WHERE _missing_since > ''")
    report.check(not left, f"undone, none is marked, not {len(left)}")
    return f"{len(deleted)} CDRs held, accepted and undone by command"


def _rows(path: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as connection:
        return connection.execute(sql).fetchall()
