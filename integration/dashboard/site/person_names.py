"""Names of dashboard users, as pages show them instead of e-mail addresses."""

from __future__ import annotations

from collections import Counter

from flask import Flask, g

from integration.access import people
from integration.context import app_context
from integration.mirror.page_queries import phones
from integration.workspace import person_settings


def person_name(email: str) -> str:
    """Return the name of a dashboard user.

    It is the name of the user's phone, otherwise the name entered on *You* or in the settings, otherwise the
    part of the address before the @. Two equal names get the extension, or without one the address. A text
    that is no address, such as the name of a key, is returned unchanged.
    """
    name = _load_names().get(email)
    return _name_of_address(email) if name is None else name


def person_initials(email: str) -> str:
    """Return the first letters of the first and the last word of the name."""
    words = person_name(email).partition(" (")[0].split()
    return "".join(word[0] for word in (words[:1] + words[1:][-1:])).upper()


def _load_names() -> dict[str, str]:
    """Return the names of all dashboard users by e-mail address, read once for each request."""
    if "person_names" not in g:
        g.person_names = _read_names()
    names: dict[str, str] = g.person_names
    return names


def _read_names() -> dict[str, str]:
    context = app_context()
    with context.mirror_db.read() as connection:
        all_phones = phones.list_phones(connection)
    phone_by_id = {phone.id: phone for phone in all_phones}
    phone_by_email = {phone.email.casefold(): phone for phone in all_phones}
    persons = people.list_all(context.app_db)
    phone_of = {
        person.email: phone_by_id.get(person.platform_user_id or 0) or phone_by_email.get(person.email)
        for person in persons
    }
    with context.app_db.read() as connection:
        entered = person_settings.load_of_all(connection, "name")
    names = {
        person.email: phone.name
        if (phone := phone_of[person.email])
        else entered.get(person.id) or _name_of_address(person.email)
        for person in persons
    }
    uses = Counter(names.values())
    return {
        email: name if uses[name] == 1 else f"{name} ({(phone and phone.number) or email})"
        for (email, name), phone in zip(names.items(), phone_of.values(), strict=True)
    }


def _name_of_address(email: str) -> str:
    local_part, at, _ = email.partition("@")
    return local_part.replace(".", " ").title() if at else email


def register(app: Flask) -> None:
    app.jinja_env.filters.update(person_name=person_name, person_initials=person_initials)
