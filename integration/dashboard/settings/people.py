"""Settings: who may log in, what they may do, where they are logged in. Administrators only."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, abort, redirect, request

from integration.access import people, sessions, setup_links
from integration.context import this_house
from integration.core.refused import Refused
from integration.dashboard.settings.general import SAID, administers, home, page, user_id
from integration.dashboard.site import layout as shell
from integration.dashboard.site.guard import audited
from integration.mirror.page_queries import history

blueprint = Blueprint("settings_people", __name__, url_prefix="/settings/people")


@blueprint.post("")
@administers
def add_person() -> str:
    house = this_house().house
    person = people.create(
        house,
        request.form.get("email", ""),
        request.form.get("role", "viewer"),
        platform_user_id=user_id(),
    )
    audited("user added", f"{person.email}, {person.role}")
    return page(link=_link(person), link_for=person.email)


@blueprint.get("/<int:number>")
@administers
def person(number: int) -> str:
    return _person_page(_known(number))


@blueprint.post("/<int:number>")
@administers
def change_person(number: int) -> Response | tuple[str, int]:
    house, known = this_house().house, _known(number)
    try:
        changed = people.set_role(house, known.email, request.form.get("role", known.role))
        for right in people.RIGHTS:
            given = {"yes": True, "no": False}.get(request.form.get(right, ""))
            changed = people.set_right(house, known.email, right, given)
        changed = people.set_platform_user(house, known.email, user_id())
    except Refused as refusal:
        return _person_page(_known(number), refused=str(refusal)), 400
    may = ", ".join(sorted(changed.rights)) or "nothing more"
    audited("user changed", f"{changed.email}, {changed.role}, may {may}")
    return home("changed", "people")


@blueprint.post("/<int:number>/reset")
@administers
def reset_person(number: int) -> str:
    known = _known(number)
    link = _link(known)
    audited("set-up link made", known.email)
    return page(link=link, link_for=known.email)


@blueprint.post("/<int:number>/remove")
@administers
def remove_person(number: int) -> Response:
    known = _known(number)
    people.remove(this_house().house, known.email)
    audited("user removed", known.email)
    return home("removed", "people")


@blueprint.post("/<int:number>/log-out")
@administers
def end_session(number: int) -> Response:
    """One session, or all of the person."""
    house, known = this_house().house, _known(number)
    one = request.form.get("session", "")
    if one.isdecimal():
        if int(one) not in {session.id for session in sessions.of_person(house, known.id)}:
            raise Refused("this session has ended already")
        sessions.revoke(house, int(one))
    else:
        sessions.revoke_all(house, known.id)
    audited("logged out", known.email)
    return redirect(f"/settings/people/{known.id}?said=ended", 303)  # type: ignore[return-value]


def _person_page(known: people.Person, **shown: Any) -> str:
    house = this_house()
    with house.mirror.read() as connection:
        users = history.people(connection)
    return shell.page(
        "system",
        "settings_person.html",
        known=known,
        own=people.own_rights(house.house, known.id),
        users=users,
        sessions=sessions.of_person(house.house, known.id),
        roles=people.ROLES,
        rights=people.RIGHTS,
        said=SAID.get(request.args.get("said", ""), ""),
        **shown,
    )


def _known(number: int) -> people.Person:
    found = people.get(this_house().house, number)
    if found is None:
        abort(404)
    return found


def _link(known: people.Person) -> str:
    house = this_house()
    return setup_links.one_time_link(house.house, known.email, setup_links.base_url(house.settings))
