"""Block a caller: the form of a new routing rule, filled with the caller's number."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlencode

from flask import Flask

from integration.context import app_context
from integration.dashboard.account.editable import can_write
from integration.dashboard.account.form import RecordForm
from integration.dashboard.account.widgets import Entry
from integration.dashboard.site import layout
from integration.mirror.page_queries import phones

PARAMETER = "block"
"""Parameter of the form with the number, and its hidden field."""
_COLLECTION = "routingrules"


def find_refusal(number: str) -> str | None:
    """Return why a number cannot be blocked, or None.

    Withheld, emergency and other short numbers have no form in E.164.
    """
    context = app_context()
    e164 = context.phone_numbers.to_e164(number)
    if e164 is None:
        return f"“{number[:40]}” can’t be blocked. Enter a full phone number, such as 07700 900123."
    with context.mirror_db.read() as connection:
        account_numbers = phones.list_account_numbers(connection, context.phone_numbers)
    if e164 in account_numbers:
        return f"{context.phone_numbers.format_national(e164)} is a number of this account."
    return None


def fill(form: RecordForm, number: str) -> RecordForm:
    """Return the form of a new rule with the entries that block `number`."""
    source = app_context().phone_numbers.to_platform_form(number)
    entries: dict[str, Entry] = {"direction": "I", "action": "block", "source": [source]}
    fields = (replace(one, entry=entries.get(one.name, one.entry)) for one in form.fields)
    return replace(form, fields=tuple(fields))


def build_link(number: str | None) -> str | None:
    """Return the address of the form; None for a number or a user that cannot block."""
    if not number or not can_write(layout.get_visibility(), _COLLECTION, "create"):
        return None
    if find_refusal(number) is not None:
        return None
    return f"/account/{_COLLECTION}?{urlencode({'edit': 1, PARAMETER: number})}"


def register(app: Flask) -> None:
    """Add `block_link` to the templates."""
    app.jinja_env.globals["block_link"] = build_link
