"""The started product runs the jobs of exports."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from integration import factory
from integration.core import clock
from integration.exports import jobs, runner
from integration.exports.jobs import ExportJob
from integration.mirror.derived import rebuild
from integration.settings.data_dir_secrets import load_webhook_secrets
from integration.settings.model import Settings
from tests.support.application import running_app
from tests.support.harness import wait_for


def test_export_jobs_run_and_a_failed_schedule_is_in_the_health_report(tmp_path: Path) -> None:
    product = factory.Product(
        Settings.model_validate(
            {
                "platform": {"base_url": "http://127.0.0.1:9/v1.2", "user_id": "1", "api_key": "0" * 40},
                "storage": {"data_dir": tmp_path},
            }
        )
    )
    try:
        product.start()

        def is_ok() -> bool:
            return bool(product.health.report()["checks"][runner.JOB_NAME]["state"] == "ok")

        wait_for(is_ok, "the first run of the job")
        assert product.health.report()["checks"]["schedules of exports"]["state"] == "ok"
        app_db = product.context.app_db
        number = jobs.save_schedule(app_db, ExportJob(name="Desk", export="cdrs", args={}, every="day"))
        jobs.request_redelivery(app_db, number, "2026-01-01")
        with app_db.read() as connection:
            (run,) = jobs.list_open_runs(connection, number)
        jobs.mark_waiting(app_db, run, "records", "the disk is full")
        check = product.health.report()["checks"]["schedules of exports"]
        assert (check["state"], check["error"]) == ("failing", "Desk: the disk is full")
        assert not check["essential"]
    finally:
        product.stop()


def test_the_end_of_a_start_has_setup_links_and_on_a_terminal_only_the_secret_of_webhooks(
    tmp_path: Path, monkeypatch
) -> None:
    for public_url, expected in (
        ("https://phones.example.com", ["https://phones.example.com", "http://127.0.0.1:8000"]),
        (None, ["http://127.0.0.1:8000"]),
    ):
        with running_app(tmp_path / str(public_url)[:5], server__public_url=public_url or "") as app:
            *links, hint = app.product.describe_start()
            with monkeypatch.context() as terminal:
                terminal.setattr(sys.stderr, "isatty", lambda: True)
                *_, webhook = app.product.describe_start()
            secret = load_webhook_secrets(app.context.settings)[0]
        assert hint == "Webhook URL: see Settings › Connection"
        assert webhook == f"Webhook URL: {expected[0]}/webhooks/{secret}"
        printed = re.findall(r"^(.+): (http\S+)/setup/(\S+)$", "\n".join(links), re.MULTILINE)
        assert [line[1] for line in printed] == expected
        labels = ["Set up the first administrator", "Or on this computer"]
        assert [line[0] for line in printed] == labels[: len(expected)]
        assert len({line[2] for line in printed}) == 1


def test_a_long_computation_of_calls_ends_with_the_product_and_does_not_stall(tmp_path, monkeypatch) -> None:
    steps = []
    monkeypatch.setattr(rebuild, "rebuild_next", lambda *_: steps.append(clock.monotonic()))
    with running_app(tmp_path) as app:
        app.mirror_db.write(lambda tx: tx.execute("INSERT INTO _due VALUES ('legs', 1, 9, 1)"))
        app.product.start()
        wait_for(lambda: steps, "the computation of calls")

        def has_later_beat() -> bool:
            check = app.context.health.report()["checks"]["derived tables"]
            return check["seconds_since_beat"] < clock.monotonic() - steps[0]

        wait_for(has_later_beat, "a heartbeat during the computation")
        app.product.stop()
