"""Names of dashboard users: phone, entered name, address."""

from __future__ import annotations

import re

from integration.access import audit
from tests.support.people import BOB, CAROL, ERIN, Member

USERS = [
    {"id": 100, "first_name": "Carol", "last_name": "Reyes", "ext": "1001", "email": "c.reyes@example.com"},
    {"id": 101, "first_name": "Sam", "last_name": "Ito", "ext": "1002", "email": "sam.one@example.com"},
    {"id": 102, "first_name": "Sam", "last_name": "Ito", "ext": "1003", "email": "other@example.com"},
]


def shown_names(app) -> dict[str, tuple[str, str]]:
    """Initials and name of each user by address, as the audit log shows them."""
    page = app.log_in().get("/privacy/audit").text
    pattern = r'title="([^"]*)"><span class="initials" aria-hidden="true">([^<]*)</span>([^<]*)</span>'
    return {email: (initials, name) for email, initials, name in re.findall(pattern, page)}


def test_a_person_has_the_name_of_the_phone_an_entered_one_or_that_of_the_address(app):
    app.put("users", *USERS)
    sam, other = Member("sam.one@example.com", "agent"), Member("jo.b@example.com", "agent", 102)
    for member in (CAROL, BOB, ERIN, sam, other):
        app.add(member)
        audit.record(app.app_db, member.email, "login")
    audit.record(app.app_db, "key crm", "export")
    erin = app.log_in(ERIN)
    assert "Name that colleagues see" in erin.get("/profile").text
    erin.post("/profile/name", name="  Erin   Okafor ")
    carol = app.log_in(CAROL)
    assert "the name of your phone" in carol.get("/profile").text
    carol.post("/profile/name", name="Nickname")
    names = shown_names(app)
    assert names == {
        CAROL.email: ("CR", "Carol Reyes"),
        BOB.email: ("B", "Bob"),
        ERIN.email: ("EO", "Erin Okafor"),
        sam.email: ("SI", "Sam Ito (1002)"),
        other.email: ("SI", "Sam Ito (1003)"),
        "key crm": ("KC", "key crm"),
    }
