"""Resources of the catalogue against the specification."""

from __future__ import annotations

import pytest

from integration import catalogue
from tests.catalogue import specification

OTHERS = specification.other_resources()
NAMES = {
    "Live call": ["call"],
    "Voicemail announcement": ["vm_announcement"],
    "User group / user group policy": ["user_group", "user_group_policy"],
    "Current-user metadata (/me)": ["me"],
}
"""Names of resources whose title in the specification is not the name in words."""


def documented(name: str) -> list[tuple[str, str]]:
    return [(field.name, field.type) for field in catalogue.get_resource(name).fields if field.documented]


@pytest.mark.parametrize("title", OTHERS)
def test_a_resource_has_the_documented_fields_with_types_in_order(title):
    name_of_title = title.partition(" (")[0].lower().replace("-", "").replace(" ", "_")
    for name in NAMES.get(title, [name_of_title]):
        assert documented(name) == OTHERS[title]


def test_a_cdr_has_the_full_model():
    specified = specification.model("CDR (full model)")
    assert len(specified) == 29
    assert documented("cdr") == specified


def test_a_user_has_the_full_model_and_the_field_customer_of_lists():
    assert documented("user") == [*specification.model("User (full model)"), ("customer", "integer")]


def test_a_resource_is_listed_or_has_items_exactly_if_operations_exist():
    names = {row.name for row in catalogue.OPERATIONS}
    for row in catalogue.RESOURCES:
        assert row.is_listed == (f"GET /{row.collection}" in names), row.name
        assert row.item == (f"GET /{row.collection}/{{id}}" in names), row.name


def test_an_unknown_resource_raises_a_key_error_with_similar_names():
    with pytest.raises(KeyError) as caught:
        catalogue.get_resource("monitor5")
    assert str(caught.value) == "no resource has the name 'monitor5'; did you mean monitor, monitors?"
