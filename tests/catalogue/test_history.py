"""The catalogue declares history; other lists of collections agree with it."""

from __future__ import annotations

from integration.catalogue import HISTORY, RESOURCES, get_resource
from integration.dashboard.account.sections import SECTIONS
from integration.mirror.privacy import retention_rules
from integration.mirror.privacy.erasure_gate import is_history
from integration.sync import plan

TABLES = {get_resource(collection).table for collection in HISTORY}
LIVE = {"calls"}
"""Live calls report events too, but they are not history: an ended call is hidden."""


def test_history_is_read_by_incremental_syncs():
    assert {policy.collection for policy in plan.list_history_policies()} == HISTORY
    assert {policy.collection for policy in plan.PLAN.values() if policy.is_history} == HISTORY


def test_retention_covers_history():
    assert set(retention_rules.ROW_KINDS) == TABLES


def test_an_erasure_strips_history_and_live_calls():
    assert {row.collection for row in RESOURCES if row.key is not None and is_history(row)} == HISTORY | LIVE


def test_the_account_pages_show_history_and_live_calls_in_one_group():
    assert {shelf.collection for shelf in SECTIONS.values() if shelf.group == "History"} == HISTORY | LIVE
