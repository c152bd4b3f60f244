from __future__ import annotations

from pathlib import Path

import pytest

from integration.catalogue import OPERATIONS, get_resource
from integration.sync.plan import KEYLESS_ROWS_PER_INTERVAL, PLAN, SUBRESOURCES
from tests.sync.plan_table import DEFAULT_SETTINGS, render_table


def test_every_path_that_is_read_without_a_parameter_is_planned():
    """43 lists and /me, counted from OPERATIONS and not from RESOURCES."""
    paths = {
        row.path.lstrip("/")
        for row in OPERATIONS
        if row.method == "GET" and not row.parameters and row.path != "/ping"
    }
    assert set(PLAN) == paths
    assert len(paths) == 44


EXCLUDED = {
    *("/users/{id}/contacts", "/users/{id}/cdrs", "/users/{id}/calls", "/contacts/{id}/cdrs"),
    *("/users/{id}/smsthreads/{from}/{to}", "/users/{id}/sms/threads/{from}/{to}", "/calls/{id}/monitors"),
    "/calls/{id}/trace",
}
"""Paths below a record that are not mirrored: records of other lists, and the trace of a live call."""


def test_every_path_below_a_record_is_planned_or_excluded():
    owners = ("/users/{id}/", "/cdrs/{id}/", "/calls/{id}/", "/contacts/{id}/")
    paths = {
        row.path
        for row in OPERATIONS
        if row.method == "GET" and row.path.startswith(owners) and not row.path.endswith(".csv")
    }
    assert set(SUBRESOURCES) | EXCLUDED == paths
    for below in SUBRESOURCES.values():
        assert below.count_field is None or get_resource(below.collection).field(below.count_field)


def test_a_large_collection_without_keys_is_read_less_often():
    raw = PLAN["calltracking/cdrs"]
    often, rarely = (raw.full_sync_seconds(DEFAULT_SETTINGS, n * KEYLESS_ROWS_PER_INTERVAL) for n in (0, 10))
    assert rarely == pytest.approx(10 * often)


def test_the_page_has_the_table_of_the_plan():
    """After a change of the plan, paste the output of `python -m tests.sync.plan_table`."""
    page = Path(__file__).parents[2] / "docs" / "sync.md"
    assert render_table(DEFAULT_SETTINGS) in page.read_text(encoding="utf-8")
