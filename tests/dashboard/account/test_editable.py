"""Every everyday write of the platform has a control in the dashboard."""

from __future__ import annotations

import pytest

from integration.catalogue.shapes import Field
from integration.dashboard.account.editable import (
    OMITTED_FIELDS,
    RULES,
    find_delete,
    find_operation,
    find_widget,
    find_write,
    list_specs,
)
from integration.dashboard.account.sections import FORM_SECTIONS, SECTIONS

FORMS = """
POST /webcalls
POST /leadcalls
POST /calllabels
PATCH /calllabels/{id}
DELETE /calllabels/{id}
POST /sms/cannedresponses
PATCH /sms/cannedresponses/{id}
DELETE /sms/cannedresponses/{id}
POST /vmannouncements
PATCH /vmannouncements/{id}
DELETE /vmannouncements/{id}
PATCH /calltracking/ddis
POST /calltracking/campaigns
POST /contacts
PATCH /contacts
PATCH /contacts/{id}
DELETE /contacts/{ids}
POST /conferences
PATCH /conferences/{id}
DELETE /conferences/{id}
POST /queues
POST /ringgroups
PATCH /ringgroups/{id}
DELETE /ringgroups/{id}
POST /routingrules
PATCH /routingrules/{id}
POST /ivrs
POST /queuegroups
PATCH /queuegroups/{id}
DELETE /queuegroups/{id}
PATCH /users
DELETE /users/{id}
DELETE /users/{id}/audio
POST /usergroups
PATCH /usergroups/{id}
DELETE /usergroups/{id}
POST /usergrouppolicies
PATCH /usergrouppolicies/{id}
DELETE /usergrouppolicies/{id}
DELETE /chatmsgs/{ids}
PATCH /monitors/{id}
DELETE /monitors/{ids}
DELETE /voicemessages/{ids}
POST /callmeback/settings
PATCH /callmeback/settings/{id}
DELETE /callmeback/settings/{id}
POST /callmeback/buttons
PATCH /callmeback/buttons/{id}
DELETE /callmeback/buttons/{id}
POST /reportschedules
PATCH /reportschedules/{id}
DELETE /reportschedules/{id}
""".strip().splitlines()
"""Writes of the specification with a form on the Account pages."""

OTHER_PAGES = {
    "POST /calls": "the Call buttons",
    "PATCH /calls/{id}": "the buttons of a live call",
    "DELETE /calls/{id}": "Hang up",
    "POST /sms": "Messages",
    "PATCH /cdrs": "the labels of a call",
    "PATCH /voicemessages": "Mark as heard",
}
"""Writes of the specification with a control on another page."""

# Everything else that the specification lets a client write. No page offers it.
EXCEPTIONS = {
    **dict.fromkeys(
        (
            "POST /login", "POST /login2fa", "POST /logout", "POST /confirmation", "POST /password",
            "POST /reset", "POST /registrations", "PATCH /registrations/{hash}",
            "POST /registrations/{hash}/resend",
        ),
        "sign-up and login of the platform",
    ),
    **dict.fromkeys(
        (
            "DELETE /sms", "DELETE /chatmsgs", "DELETE /cdrs", "DELETE /monitors", "DELETE /statements",
            "DELETE /voicemessages", "DELETE /customers/{id}",
        ),
        "deletes an entire collection or the account",
    ),
}  # fmt: skip


def name_form_writes() -> set[str]:
    """Names of the operations that the forms of the Account pages send."""
    found = set()
    for collection in RULES:
        operations = [find_write(collection, mode) for mode in ("create", "change", "many")]
        operations += [find_delete(collection), find_operation("DELETE", f"/{collection}/{{id}}/audio")]
        found |= {operation.name for operation in operations if operation is not None}
    return found


def test_the_58_everyday_writes_have_a_control_each():
    assert len(FORMS) + len(OTHER_PAGES) == 58
    assert len({*FORMS, *OTHER_PAGES, *EXCEPTIONS}) == 74
    # Real clients change queues, although the specification does not show it.
    assert name_form_writes() == {*FORMS, "PATCH /queues/{id}"}


def test_every_field_of_a_form_has_a_widget_or_a_reason_against_it():
    for collection in RULES:
        section = SECTIONS.get(collection) or FORM_SECTIONS[collection]
        for mode in ("create", "change", "many"):
            operation = find_write(collection, mode)
            shown = {spec.name for spec in list_specs(section, mode)}
            for field in (operation.body or ()) if operation else ():
                is_part_or_fixed = field.name in ("final_dst_type", "direction")
                is_omitted = f"{collection} {field.name}" in OMITTED_FIELDS
                assert field.name in shown or is_part_or_fixed or is_omitted, (collection, field.name)


def test_a_direction_is_entered_only_for_a_new_routing_rule():
    modes = {
        mode: "direction" in {one.name for one in list_specs(SECTIONS["routingrules"], mode)}
        for mode in ("create", "change")
    }
    assert modes == {"create": True, "change": False}


def test_a_field_of_an_unknown_structure_has_no_widget():
    with pytest.raises(KeyError):
        find_widget("ringgroups", Field("anything", "object"))


@pytest.mark.parametrize(
    ("field", "kinds"),
    [
        ("ringgroups users", ["ordered"]), ("queues users", ["agents"]),
        ("ivrs final_dst_id", ["destination"]),
        ("conferences pin", ["secret"]), ("vmannouncements data", ["file"]), ("contacts mobile", ["phone"]),
        ("reportschedules frequency", ["frequency"]), ("routingrules source", ["parties"]),
        ("usergroups color", ["colour"]), ("conferences monitor", ["yes"]), ("monitors cx_score", ["number"]),
    ],
)  # fmt: skip
def test_fields_have_the_widget_of_their_content(field, kinds):
    collection, name = field.split()
    specs = list_specs(SECTIONS[collection], "create") or list_specs(SECTIONS[collection], "change")
    assert [spec.widget.kind for spec in specs if spec.name == name] == kinds


def test_no_hint_is_a_description_of_a_data_structure():
    hints = {
        (section.collection, spec.name): spec.hint
        for section in SECTIONS.values()
        for mode in ("create", "change")
        for spec in list_specs(section, mode)
    }
    assert {place: hint for place, hint in hints.items() if set(hint) & set("{}[]")} == {}
