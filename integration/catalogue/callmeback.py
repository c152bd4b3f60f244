"""Call-me-back module: the widget's settings, buttons, calls and visitors. 12 operations."""

from __future__ import annotations

from integration.catalogue.rows import (
    EXAMPLES_UNRELATED,
    FIELDS_UNKNOWN,
    ModuleOperations,
    make_bare_resource,
    make_fields,
)
from integration.catalogue.shapes import Field, Relation, Resource

RESOURCES = (
    make_bare_resource("callmeback_website", "callmeback/websites", "Call-me-back website", FIELDS_UNKNOWN),
    Resource(
        name="callmeback_setting",
        collection="callmeback/settings",
        title="Call-me-back setting",
        fields=(
            *make_fields("integer", "id button_id culture ddi:extension position"),
            *make_fields("string", "allowed_countries name privacy_policy_url title welcome_screen_msg"),
            *make_fields("boolean", "floating_icon show_to_allowed_countries_only"),
            *make_fields("number", "max_call_rate"),
            *make_fields("timestamp", "created_at"),
        ),
        date="created_at",
        relations=(Relation("button_id", "callmeback/buttons"),),
    ),
    make_bare_resource("callmeback_cdr", "callmeback/cdrs", "Call-me-back CDR", EXAMPLES_UNRELATED),
    make_bare_resource(
        "callmeback_visitor",
        "callmeback/visitors",
        "Call-me-back visitor",
        EXAMPLES_UNRELATED,
    ),
    Resource(
        name="callmeback_button",
        collection="callmeback/buttons",
        title="Call-me-back button",
        fields=make_fields("integer", "id"),
        is_listed=False,
        about="The specification does not show the fields; id is known only from the record's path. "
        "Never listed.",
    ),
)

_SETTING_BODY = (
    *make_fields("integer", "button_id"),
    *make_fields("string", "name position"),
    *make_fields("boolean", "floating_icon"),
    *make_fields("string", "culture"),
    *make_fields("any", "allowed_countries"),
    *make_fields("boolean", "show_to_allowed_countries_only"),
    *make_fields("string", "welcome_screen_msg privacy_policy_url"),
    *make_fields("integer", "ddi_e164"),
    Field("max_call_rate", "number", "default 0.15"),
)

_CALLMEBACK = ModuleOperations("callmeback")

OPERATIONS = (
    _CALLMEBACK.list("/callmeback/websites", "Websites with a widget.", "callmeback_website"),
    _CALLMEBACK.list("/callmeback/settings", "Widget settings.", "callmeback_setting"),
    _CALLMEBACK.create(
        "/callmeback/settings", "Creates a widget setting.", "callmeback_setting", _SETTING_BODY
    ),
    _CALLMEBACK.read("/callmeback/settings/{id}", "One widget setting.", "callmeback_setting"),
    _CALLMEBACK.change(
        "/callmeback/settings/{id}", "Changes a widget setting.", "callmeback_setting", _SETTING_BODY
    ),
    _CALLMEBACK.delete(
        "/callmeback/settings/{id}", "Deletes a widget setting.", "callmeback_setting", errors=(401, 403)
    ),
    _CALLMEBACK.list("/callmeback/cdrs", "Calls started by the widget.", "callmeback_cdr"),
    _CALLMEBACK.list("/callmeback/visitors", "Visitors of pages with the widget.", "callmeback_visitor"),
    _CALLMEBACK.create("/callmeback/buttons", "Creates a button.", "callmeback_button", body=()),
    _CALLMEBACK.read("/callmeback/buttons/{id}", "One button.", "callmeback_button"),
    _CALLMEBACK.change(
        "/callmeback/buttons/{id}",
        "Changes a button.",
        "callmeback_button",
        make_fields("string", "name data_online data_offline"),
        errors=(400, 401),
    ),
    _CALLMEBACK.delete(
        "/callmeback/buttons/{id}", "Deletes a button.", "callmeback_button", errors=(401, 403)
    ),
)
