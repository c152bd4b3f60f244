"""Metrics: names, values, cost, and the page that lists them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from integration.alerts.rules import Finding, save_findings
from integration.core import clock
from integration.core.errors import PlatformError
from integration.maintenance import backup
from integration.mirror.derived import due
from integration.mirror.sync_state import collection_state, completeness, media_files
from integration.platform_api.client import Platform
from tests.deploy.debian_tools import run_tool
from tests.support.application import TestApp, running_app
from tests.support.applications.data_dir import webhook
from tests.support.downloads import add_download
from tests.support.fake_exchange import NOT_FOUND
from tests.support.harness import ROOT
from tests.support.people import BOB

PAGE = (ROOT / "docs" / "metrics.md").read_text("utf-8")
DOCUMENTED = re.compile(r"^\| `(\w+)` \| (\w+) \| (.*?) \| (.+?) \|$", re.M)


@pytest.fixture(scope="module")
def scraped_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestApp]:
    """An application with a value in each group of metrics."""
    with running_app(tmp_path_factory.mktemp("scraped")) as app:
        app.clock.freeze(1_790_000_000.0)
        fill(app)
        yield app


def fill(app: TestApp) -> None:
    app.context.inbox.receive(webhook(1)).result(30)
    app.clock.advance(90)
    for number in (2, 3):
        app.context.inbox.receive(webhook(number)).result(30)
    app.context.inbox.refused_count = 1
    app.put("cdrs", *({"id": number, "live_id": number} for number in (1, 2, 3)), complete=False)
    app.mirror_db.write(lambda tx: due.mark(tx, "legs", [(1, 3)]))
    app.mirror_db.write(lambda tx: collection_state.finish_full_sync(tx, "cdrs", 9, 9))
    app.mirror_db.write(lambda tx: collection_state.record_failure(tx, "sms", "timeout"))
    app.mirror_db.write(lambda tx: collection_state.record_failure(tx, "sms", "timeout"))
    app.mirror_db.write(lambda tx: completeness.save_day(tx, "cdrs", "2026-03-01", 9, 8))
    app.mirror_db.write(lambda tx: tx.execute("UPDATE _coverage SET differs_since = NULL") and None)
    app.mirror_db.write(lambda tx: completeness.save_day(tx, "sms", "2026-03-01", 9, 8))
    app.mirror_db.write(lambda tx: completeness.save_day(tx, "cdrs", "2026-03-02", 9, 9))
    app.archive("recording", 7, b"twelve bytes")
    app.mirror_db.write(
        lambda tx: media_files.mark_failed(
            tx, media_files.MediaFile("fax", 8, "faxes/undated/8.pdf", None, 0), "404"
        )
    )
    app.call(5, "2026-09-21 14:00:00", state="talking")
    app.app_db.write(
        lambda tx: save_findings(tx, [Finding(1, "a", "text", "/", "2026-09-21 14:00:00", None)], [])
    )
    app.app_db.write(
        lambda tx: tx.execute(
            "INSERT INTO alert_log (at, rule_id, rule, kind, subject, body, channel, target, place, state,"
            " tries) VALUES ('2026-09-21 14:00:00', 1, 'r', 'alert', 's', 'b', 'email', 't', 0, 'waiting', 0)"
        )
    )
    add_download(app.app_db, app.add(BOB))
    app.product.backup_rotation.newest_created_at = clock.now()
    app.context.platform.get("/ping")
    app.platform.respond("/no-such-path", NOT_FOUND, 404)
    with pytest.raises(PlatformError):
        app.context.platform.get("/no-such-path")
    app.client.get("/login")


def scrape(app: TestApp) -> str:
    return app.client.get("/metrics").text


def read_value(text: str, series: str) -> float:
    """Return the value of one series, given as in the text."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"{series} ")]
    return float(line.removeprefix(series))


@pytest.mark.parametrize(
    "line",
    [
        'switchroom_webhooks_total{outcome="stored"} 3.0',
        'switchroom_webhooks_total{outcome="refused"} 1.0',
        "switchroom_inbox_unapplied_webhooks 3.0",
        "switchroom_inbox_oldest_unapplied_age_seconds 90.0",
        'switchroom_collection_last_sync_timestamp_seconds{collection="cdrs"} 1.79000009e+09',
        'switchroom_collection_complete{collection="cdrs"} 1.0',
        'switchroom_collection_complete{collection="sms"} 0.0',
        'switchroom_collection_gaps{collection="cdrs"} 1.0',
        'switchroom_collection_gaps{collection="sms"} 0.0',
        'switchroom_collection_sync_failures{collection="sms"} 2.0',
        'switchroom_archive_files{kind="recording",state="have"} 1.0',
        'switchroom_archive_files{kind="fax",state="failed"} 1.0',
        'switchroom_archive_files{kind="fax",state="wanted"} 0.0',
        'switchroom_archive_size_bytes{kind="recording"} 12.0',
        'switchroom_calls_open{state="talking"} 1.0',
        'switchroom_calls_open{state="ringing"} 0.0',
        "switchroom_legs_waiting 3.0",
        "switchroom_alerts_active 1.0",
        'switchroom_notifications_waiting{channel="email"} 1.0',
        'switchroom_notifications_waiting{channel="post"} 0.0',
        'switchroom_export_jobs{state="waiting"} 1.0',
        "switchroom_export_schedules_failing 0.0",
        'switchroom_platform_requests_total{code="200"} 1.0',
        'switchroom_platform_requests_total{code="404"} 1.0',
        "switchroom_platform_reachable 1.0",
        "switchroom_platform_budget_limit_requests_per_second 10.0",
        'switchroom_check_ok{check="mirror.db"} 1.0',
        'switchroom_metrics_group_ok{group="archive"} 1.0',
        "switchroom_backup_last_attempt_ok 1.0",
        "switchroom_ready 1.0",
    ],
)
def test_each_value_is_that_of_the_data(scraped_app: TestApp, line: str) -> None:
    assert line in scrape(scraped_app).splitlines()


def test_sizes_are_those_of_the_files(scraped_app: TestApp) -> None:
    size = (scraped_app.context.settings.storage.data_dir / "house.db").stat().st_size
    assert f'switchroom_database_size_bytes{{database="house.db"}} {float(size)}' in scrape(scraped_app)
    assert re.search(r"^switchroom_disk_free_bytes [1-9]", scrape(scraped_app), re.M)


def test_the_page_lists_every_metric(scraped_app: TestApp) -> None:
    text = scrape(scraped_app) + requests.get(f"{scraped_app.url}/metrics", timeout=20).text
    kinds = dict(re.findall(r"^# TYPE (switchroom_\w+) (\w+)$", text, re.M))
    helps = dict(re.findall(r"^# HELP (switchroom_\w+) (.+)$", text, re.M))
    labels: dict[str, set[str]] = {}
    for name, sample_labels in re.findall(r"^(switchroom_\w+?)(?:_bucket)?(?:\{(.*)\})? \S+$", text, re.M):
        labels.setdefault(name, set()).update(set(re.findall(r'(\w+)="', sample_labels)) - {"le"})
    documented = {name: (kind, names, meaning) for name, kind, names, meaning in DOCUMENTED.findall(PAGE)}
    assert documented.keys() == kinds.keys()
    for name, (kind, names, meaning) in documented.items():
        assert (kind, meaning) == (kinds[name], helps[name])
        assert set(re.findall(r"`(\w+)`", names)) == labels[name], name


def test_promtool_accepts_names_and_format(scraped_app: TestApp) -> None:
    checked = run_tool("promtool", "check", "metrics", text=requests.get(f"{scraped_app.url}/metrics").text)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_requests_count_by_area_and_code(tmp_path: Path) -> None:
    secret = "s" * 43
    with running_app(tmp_path, facade__base_paths="/v1.2", webhooks__secret=secret) as app:
        headers = app.add_key()
        for method, path in (
            ("POST", f"/webhooks/{secret}"), ("POST", "/webhooks/wrong"), ("GET", "/login"),
            ("GET", "/calls/12345"), ("GET", "/calls/67890"), ("GET", "/v1.2/cdrs"), ("GET", "/v1.2/sms"),
            ("GET", "/v1.2"), ("GET", "/docs"), ("GET", "/static/switchroom.css"), ("GET", "/healthz"),
            ("GET", "/exports/cdrs.csv"), ("GET", "/wall/wrong"), ("GET", "//"), ("GET", "/no/such"),
        ):  # fmt: skip
            is_facade = path.startswith(("/v1.2", "/exports", "/docs"))
            requests.request(
                method, app.url + path, headers=headers if is_facade else {}, data=b"{}",
                timeout=20, allow_redirects=False,
            )  # fmt: skip
        text = scrape(app)
        counts = {
            area: sum(
                float(number)
                for number in re.findall(
                    rf'^switchroom_http_requests_total\{{area="{area}",.*\}} (\S+)$', text, re.M
                )
            )
            for area in ("webhooks", "pages", "facade", "static", "monitoring", "exports", "wallboards")
        }
        assert counts == {
            "webhooks": 2, "pages": 6, "facade": 3, "static": 1, "monitoring": 1, "exports": 1,
            "wallboards": 1,
        }  # fmt: skip
        assert 'switchroom_http_requests_total{area="webhooks",code="404"} 1.0' in text
        assert 'switchroom_http_requests_total{area="webhooks",code="200"} 1.0' in text
        assert 'switchroom_http_request_duration_seconds_count{area="webhooks"} 2.0' in text
        # No path, id or secret is a label.
        assert secret not in text
        assert "12345" not in text


def test_a_group_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    with running_app(tmp_path) as app:
        text = scrape(app)
        assert 'switchroom_metrics_group_ok{group="alerts"} 1.0' in text
        app.app_db.write(lambda tx: tx.execute("DROP TABLE alert_findings"))
        text = scrape(app)
        assert 'switchroom_metrics_group_ok{group="alerts"} 0.0' in text
        assert "switchroom_alerts_active " not in text
        assert "switchroom_inbox_unapplied_webhooks 0.0" in text


def test_a_platform_that_does_not_respond_counts_as_none(tmp_path: Path) -> None:
    with running_app(tmp_path, platform__base_url="http://127.0.0.1:9/v1.2") as app:
        platform: Platform = app.context.platform
        with pytest.raises(PlatformError):
            platform.get("/ping", tries=1, priority="people")
        text = scrape(app)
        assert 'switchroom_platform_requests_total{code="none"} 1.0' in text


def test_backups_show_the_last_time_and_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_app(tmp_path) as app:
        (tmp_path / "account.json").write_text('{"base_url": "x", "account": "1000001"}\n')
        os.utime(tmp_path / "account.json", (app.clock.unix(), app.clock.unix()))
        rotation = app.product.backup_rotation
        rotation.run_if_due()
        assert "switchroom_backup_last_success_timestamp_seconds " not in scrape(app)
        app.clock.advance(hours=25)
        app.clock.freeze(app.clock.unix())
        rotation.run_if_due()
        made_at = app.clock.unix()
        assert read_value(scrape(app), "switchroom_backup_last_success_timestamp_seconds") == made_at
        app.clock.advance(hours=25)
        monkeypatch.setattr(backup, "create", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            rotation.run_if_due()
        text = scrape(app)
        assert "switchroom_backup_last_attempt_ok 0.0" in text
        assert read_value(text, "switchroom_backup_last_success_timestamp_seconds") == made_at
