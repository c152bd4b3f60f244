"""Rules and dashboard: they are valid, and name only metrics that exist."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.debian_tools import run_tool
from tests.support.harness import ROOT

PROMETHEUS = ROOT / "deploy" / "prometheus"
UPKEEP = (ROOT / "docs" / "upkeep.md").read_text("utf-8")
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "switchroom.json").read_text("utf-8"))
RULES = yaml.safe_load((PROMETHEUS / "switchroom.rules.yml").read_text("utf-8"))
TESTS = yaml.safe_load((PROMETHEUS / "switchroom.rules.test.yml").read_text("utf-8"))
# The page is compared with the metrics by tests/web/test_metrics.py.
LABELS_BY_METRIC = {
    name: set(re.findall(r"`(\w+)`", labels))
    for name, labels in re.findall(
        r"^\| `(switchroom_\w+)` \| \w+ \| (.*?) \|", (ROOT / "docs" / "metrics.md").read_text("utf-8"), re.M
    )
}
PROCESS_METRICS = {"process_start_time_seconds", "process_resident_memory_bytes", "process_open_fds", "up"}
SELECTOR = re.compile(r"\b((?:switchroom|process)_\w+|up)\b(?:\{([^}]*)\})?")


def list_rules() -> list[dict[str, Any]]:
    return [rule for group in RULES["groups"] for rule in group["rules"]]


def list_queries() -> dict[str, str]:
    """Queries of the dashboard by panel and target."""
    return {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in DASHBOARD["panels"]
        for target in panel["targets"]
    }


def check_selectors(query: str) -> set[str]:
    """Return the metrics of a query.

    Each must exist and have the labels of its selector.
    """
    names = set()
    for name, matchers in SELECTOR.findall(query):
        family = re.sub(r"_(bucket|sum|count)$", "", name)
        labels = set(re.findall(r"(\w+)\s*(?:=|!=|=~)\s*\"", matchers)) - {"job", "le"}
        if family in PROCESS_METRICS:
            assert labels == set(), query
        else:
            assert family in LABELS_BY_METRIC, f"{family} does not exist"
            assert labels <= LABELS_BY_METRIC[family], query
        names.add(family)
    return names


@pytest.mark.parametrize("rule", list_rules(), ids=lambda rule: rule["alert"])
def test_a_rule_uses_metrics_that_exist_and_has_a_test(rule: dict[str, Any]) -> None:
    names = check_selectors(rule["expr"])
    assert names
    labels = {name for metric in names for name in LABELS_BY_METRIC.get(metric, ())}
    texts = " ".join(rule["annotations"].values())
    assert set(re.findall(r"\$labels\.(\w+)", texts)) <= labels
    assert rule["annotations"].keys() == {"summary", "description"}
    assert rule["labels"]["severity"] in ("warning", "critical")
    expected = [
        bool(check.get("exp_alerts"))
        for test in TESTS["tests"]
        for check in test["alert_rule_test"]
        if check["alertname"] == rule["alert"]
    ]
    assert sorted(expected) == [False, True]


@pytest.mark.parametrize(("panel", "query"), list_queries().items(), ids=list_queries())
def test_a_query_of_the_dashboard_uses_metrics_that_exist(panel: str, query: str) -> None:
    assert check_selectors(query)


def test_promtool_parses_every_query_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": query.replace("$__rate_interval", "5m").replace("$job", "j")}
        for number, query in enumerate(list_queries().values())
    ]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    checked = run_tool("promtool", "check", "rules", path)
    assert checked.returncode == 0, checked.stderr
    assert f"{len(rules)} rules found" in checked.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "config", "prometheus.yml"),
        ("check", "rules", "--lint=all", "--lint-fatal", "switchroom.rules.yml"),
        pytest.param(("test", "rules", "switchroom.rules.test.yml"), marks=pytest.mark.exhaustive),
    ],
    ids=lambda arguments: "-".join(arguments[:2]),
)
def test_promtool_accepts_the_files(arguments: tuple[str, ...]) -> None:
    checked = run_tool("promtool", *arguments[:-1], PROMETHEUS / arguments[-1])
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_logrotate_rotates_the_log_of_a_running_process(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```\n(/var/log/switchroom\.log .*?)^```", UPKEEP, re.MULTILINE | re.DOTALL)
    log = tmp_path / "switchroom.log"
    rules = tmp_path / "rules"
    rules.write_text(block.replace("/var/log/switchroom.log", str(log)))
    rules.chmod(0o600)
    # As `2>>` opens it.
    with log.open("a") as written:
        print("before", file=written, flush=True)
        rotated = run_tool("logrotate", "--force", "--state", tmp_path / "state", rules)
        assert rotated.returncode == 0, rotated.stderr
        print("after", file=written, flush=True)
    assert log.read_bytes() == b"after\n"
    assert gzip.decompress((tmp_path / "switchroom.log.1.gz").read_bytes()) == b"before\n"
