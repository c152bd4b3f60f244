"""Every everyday write of the platform has a control in the dashboard."""

from __future__ import annotations

from integration.catalogue import OPERATIONS
from integration.dashboard.account.editable import (
    RULES,
    find_delete,
    find_operation,
    find_write,
)

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
