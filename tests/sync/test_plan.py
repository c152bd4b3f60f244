from __future__ import annotations

from integration.catalogue import RESOURCES, resource
from integration.sync.plan import NOT_MIRRORED_YET, PLAN, Policy


def test_every_collection_that_can_be_listed_has_a_policy():
    listed = {row.collection for row in RESOURCES if row.listed}
    assert set(PLAN) | NOT_MIRRORED_YET == listed
    assert not set(PLAN) & NOT_MIRRORED_YET


def test_a_collection_that_grows_has_a_date_and_numbers_for_keys():
    for policy in PLAN.values():
        if policy.kind == "grows":
            assert policy.resource.date is not None
            assert policy.by_key


def test_keys_that_are_text_are_not_read_in_their_order():
    for policy in PLAN.values():
        key = policy.resource.field(policy.resource.key or "")
        if policy.kind == "settings":
            assert policy.by_key == (key is not None and key.type == "integer"), policy.collection


def test_lists_without_a_look_back_are_read_often_enough_for_five_minutes():
    class Settings:
        class sync:
            full_interval = 86400

    for policy in PLAN.values():
        if policy.kind in ("settings", "single"):
            assert policy.walk_seconds(Settings) <= 285  # type: ignore[arg-type]
    assert Policy("cdrs", "grows").walk_seconds(Settings) == 86400  # type: ignore[arg-type]


def test_only_records_with_a_path_of_their_own_are_read_by_it():
    for policy in PLAN.values():
        if policy.items:
            assert resource(policy.collection).item
