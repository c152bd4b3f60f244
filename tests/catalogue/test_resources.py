"""Resources of the catalogue against the specification."""

from __future__ import annotations

import re

import pytest

from integration import catalogue
from tests.catalogue import specification

OTHERS = specification.other_resources()
NAMES = {
    "Live call": ["call"],
    "Webcall": ["webcall"],
    "Media session": ["media_session"],
    "SMS": ["sms"],
    "Fax": ["fax"],
    "Voicemail announcement": ["vm_announcement"],
    "DDI (telephone number)": ["ddi"],
    "Contact": ["contact"],
    "Conference": ["conference"],
    "Queue": ["queue"],
    "Ring group": ["ring_group"],
    "Pickup group": ["pickup_group"],
    "Routing rule": ["routing_rule"],
    "IVR": ["ivr"],
    "Queue group": ["queue_group"],
    "User group / user group policy": ["user_group", "user_group_policy"],
    "ACL role": ["acl_role"],
    "Current-user metadata (/me)": ["me"],
    "Chat": ["chat"],
    "Monitor (call recording)": ["monitor"],
    "Msdr (media session detail record)": ["msdr"],
    "Voicemessage": ["voicemessage"],
    "Call-me-back setting": ["callmeback_setting"],
    "Report schedule": ["report_schedule"],
}
NOT_SHOWN = {
    "call_label": ["id"],
    "sms_canned_response": ["id"],
    "calltracking_ddi": [],
    "calltracking_campaign": ["id"],
    "tracked_ddi": [],
    "tracked_cdr": [],
    "calltracking_cdr": [],
    "callmeback_website": [],
    "callmeback_cdr": [],
    "callmeback_visitor": [],
    "callmeback_button": ["id"],
    "media_session_dictionary": [],
    "sms_dictionary": [],
    "ddi_dictionary": [],
    "ring_group_dictionary": [],
    "cdr_dictionary": [],
    "msdr_dictionary": [],
    "report_schedule_dictionary": [],
}


def documented(name: str) -> list[tuple[str, str]]:
    return [(field.name, field.type) for field in catalogue.get_resource(name).fields if field.documented]


def extra(name: str) -> set[str]:
    return {field.name for field in catalogue.get_resource(name).fields if not field.documented}


@pytest.mark.parametrize("title", OTHERS)
def test_a_resource_has_the_documented_fields_with_types_in_order(title):
    for name in NAMES[title]:
        assert documented(name) == OTHERS[title]


def test_a_cdr_has_29_documented_and_5_observed_fields():
    specified = specification.model("CDR (full model)")
    assert len(specified) == 29
    assert documented("cdr") == specified
    assert extra("cdr") == {"root_live_id", "is_root", "labels", "metadata", "nb_notes"}


def test_a_user_has_the_full_model_and_the_field_customer_of_lists():
    assert documented("user") == [*specification.model("User (full model)"), ("customer", "integer")]


def test_fields_absent_from_user_lists_are_item_only():
    line = specification.prose("The User list and item examples show only: ")
    shown = set(re.split(r", ", line.split(": ", 1)[1].rstrip(".")))
    assert len(shown) == 12
    observed = {"ext", "dnd", "cli", "nb_sip_locations"}
    listed = {field.name for field in catalogue.get_resource("user").fields if not field.item_only}
    assert listed == shown | observed


def test_no_other_resource_has_item_only_fields():
    assert {row.name for row in catalogue.RESOURCES for field in row.fields if field.item_only} == {"user"}


def test_resources_without_specified_fields_have_at_most_an_id():
    assert {name: [field for field, _ in documented(name)] for name in NOT_SHOWN} == NOT_SHOWN
    for name, fields in NOT_SHOWN.items():
        row = catalogue.get_resource(name)
        assert row.key == ("id" if fields else None)
        assert row.about, name


def test_the_catalogue_has_exactly_the_specified_resources():
    specified = {name for names in NAMES.values() for name in names} | {"user", "cdr"} | set(NOT_SHOWN)
    assert {row.name for row in catalogue.RESOURCES} == specified


def test_secret_fields_are_marked():
    secret = {
        (row.name, field.name)
        for row in catalogue.RESOURCES
        for field in row.fields
        if field.meaning == "secret"
    }
    assert secret == {
        ("user", "vm_pin"),
        ("user", "legacy_api_key"),
        ("conference", "pin"),
        ("conference", "pin_pstn"),
        ("me", "sip_password"),
        ("me", "sip_domain"),
    }


def test_a_resource_is_listed_or_has_items_exactly_if_operations_exist():
    names = {row.name for row in catalogue.OPERATIONS}
    for row in catalogue.RESOURCES:
        assert row.is_listed == (f"GET /{row.collection}" in names), row.name
        assert row.item == (f"GET /{row.collection}/{{id}}" in names), row.name


def test_targets_of_relations_are_collections_of_the_catalogue():
    collections = {row.collection for row in catalogue.RESOURCES}
    for row in catalogue.RESOURCES:
        for relation in row.relations:
            assert relation.target_collection in collections, (row.name, relation)


def test_includable_relations_are_users_and_ddis_of_queues_and_ring_groups():
    includable = {
        (row.collection, relation.name)
        for row in catalogue.RESOURCES
        for relation in row.relations
        if relation.is_includable
    }
    assert includable == {
        ("queues", "users"),
        ("queues", "ddis"),
        ("ringgroups", "users"),
        ("ringgroups", "ddis"),
    }


@pytest.mark.parametrize("name", ["sms_canned_response", "sms/cannedresponses", "sms_cannedresponses"])
def test_a_resource_is_found_by_name_by_path_and_by_table(name):
    assert catalogue.get_resource(name).collection == "sms/cannedresponses"


def test_an_unknown_resource_raises_a_key_error_with_similar_names():
    with pytest.raises(KeyError) as caught:
        catalogue.get_resource("monitor5")
    assert str(caught.value) == "no resource has the name 'monitor5'; did you mean monitor, monitors?"


def test_no_two_columns_of_a_table_differ_only_in_case():
    for row in catalogue.RESOURCES:
        names = [field.name.lower() for field in row.fields]
        assert len(names) == len(set(names))


def test_no_field_has_the_name_of_an_internal_column():
    internal_columns = {"_doc", "_item", "_first_seen", "_last_seen", "_source", "_missing_since"}
    assert not internal_columns & {field.name for row in catalogue.RESOURCES for field in row.fields}
