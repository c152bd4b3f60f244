"""Address of a caller in the CRM of the business: the setting `dashboard.crm_url`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from urllib.parse import quote

from integration.context import AppContext
from integration.core.phone_numbers import is_withheld
from integration.mirror.page_queries import contacts
from integration.settings.values import CRM_PLACEHOLDER


def build_address(
    context: AppContext,
    number: str | None,
    *,
    name: str = "",
    contact_id: int | None = None,
    call_id: int | None = None,
    our_number: str | None = None,
) -> str | None:
    """Return the address of a party in the CRM.

    `number`: the party's number in E.164 or as received. None without the setting, for a withheld number, and
    if a placeholder of the address has no value.
    """
    template = context.settings.dashboard.crm_url
    if template is None or number is None or is_withheld(number):
        return None
    e164 = context.phone_numbers.to_e164(number) or ""

    def find_contact_id() -> str:
        if contact_id is not None:
            return str(contact_id)
        with context.mirror_db.read() as connection:
            contact = contacts.find_by_number(connection, e164)
        return "" if contact is None else str(contact["id"])

    values: Mapping[str, Callable[[], str]] = {
        "e164": lambda: e164,
        "digits": lambda: e164.removeprefix("+"),
        "national": lambda: context.phone_numbers.format_national(e164) if e164 else "",
        "name": lambda: name,
        "contact_id": find_contact_id,
        "call_id": lambda: "" if call_id is None else str(call_id),
        "our_e164": lambda: context.phone_numbers.to_e164(our_number) or "" if our_number else "",
    }
    used = {placeholder: values[placeholder]() for placeholder in CRM_PLACEHOLDER.findall(template)}
    if not all(used.values()):
        return None
    return CRM_PLACEHOLDER.sub(lambda match: quote(used[match[1]], safe=""), template)


def build_address_of_call(context: AppContext, call: sqlite3.Row) -> str | None:
    """Return the address of the outside party of a call."""
    return build_address(
        context,
        call["party_e164"] or call["party"],
        name=call["party_name"],
        call_id=call["id"],
        our_number=call["our_e164"] or call["our_number"],
    )
