from __future__ import annotations

import pytest

from integration.catalogue import OPERATIONS, get_resource
from integration.sync.plan import KEYLESS_ROWS_PER_INTERVAL, PLAN, SUBRESOURCES, Policy


class Settings:
    class sync:
        full_interval = 86400
        recent_interval = 60


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


def test_every_collection_is_read_at_least_every_five_minutes():
    for policy in PLAN.values():
        if policy.kind == "grows":
            assert policy.incremental_sync_seconds(Settings) <= 285, policy.collection  # type: ignore[arg-type]
        elif policy.kind in ("settings", "single"):
            assert policy.full_sync_seconds(Settings) <= 285, policy.collection  # type: ignore[arg-type]
    assert Policy("cdrs", "grows").full_sync_seconds(Settings) == 86400  # type: ignore[arg-type]


def test_a_large_collection_without_keys_is_read_less_often():
    raw = PLAN["calltracking/cdrs"]
    often, rarely = (
        raw.full_sync_seconds(Settings),
        raw.full_sync_seconds(Settings, 10 * KEYLESS_ROWS_PER_INTERVAL),
    )  # type: ignore[arg-type]
    assert rarely == pytest.approx(10 * often)
