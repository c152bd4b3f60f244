"""Every everyday write of the platform has a control in the dashboard."""

from __future__ import annotations

from integration.catalogue import OPERATIONS
from integration.dashboard.account.editable import (
    OMITTED_FIELDS,
    RULES,
    find_delete,
    find_operation,
    find_write,
    list_specs,
)
from integration.dashboard.account.sections import FORM_SECTIONS, SECTIONS

OTHER_PAGES = {
    "POST /calls": "the Call buttons",
    "PATCH /calls/{id}": "the buttons of a live call",
    "DELETE /calls/{id}": "Hang up",
    "POST /sms": "Messages",
    "PATCH /cdrs": "the labels of a call",
    "PATCH /voicemessages": "Mark as heard",
}
"""Writes of the specification with a control on another page."""

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
"""Writes of the specification that no page offers, and the reasons."""


def name_form_writes() -> set[str]:
    """Names of the operations that the forms of the Account pages send."""
    found = set()
    for collection in RULES:
        operations = [find_write(collection, mode) for mode in ("create", "change", "many")]
        operations += [find_delete(collection), find_operation("DELETE", f"/{collection}/{{id}}/audio")]
        found |= {operation.name for operation in operations if operation is not None}
    return found


def test_every_everyday_write_has_a_control():
    writes = {operation.name for operation in OPERATIONS if operation.method != "GET"}
    assert writes > {*OTHER_PAGES, *EXCEPTIONS}
    # Real clients change queues, although the specification does not show it.
    assert name_form_writes() == writes - {*OTHER_PAGES, *EXCEPTIONS} | {"PATCH /queues/{id}"}


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


def test_no_hint_is_a_description_of_a_data_structure():
    hints = {
        (section.collection, spec.name): spec.hint
        for section in SECTIONS.values()
        for mode in ("create", "change")
        for spec in list_specs(section, mode)
    }
    assert {place: hint for place, hint in hints.items() if set(hint) & set("{}[]")} == {}
