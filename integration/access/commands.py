"""The commands `user …` and `key …`, as the process that writes carries them out.

Arguments and results are JSON. A password arrives hashed already: it travels through no channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from integration import catalogue
from integration.access import audit, keys, people, setup_links
from integration.access.people import RIGHTS
from integration.core.refused import Refused
from integration.sqlite.database import Database

if TYPE_CHECKING:
    from integration.server.control_channel import Arguments, Handler, Progress, Result

WHO = "command line"
"""Who did it, in the audit."""
EXPORTED = "export.written-down"
"""An export by the command line, for the audit: `who`, `about`, `result`."""


def handlers(house: Database, mirror: Path) -> Mapping[str, Handler]:
    """The commands by name, for the channel. `mirror` is the path of mirror.db, which may be missing."""

    def user_add(arguments: Arguments, _: Progress) -> Result:
        person = people.create(
            house,
            arguments["email"],
            arguments["role"],
            password_hash=arguments.get("password_hash"),
            platform_user_id=arguments.get("platform_user_id"),
        )
        audit.record(house, WHO, "user added", f"{person.email}, {person.role}")
        return _linked(person, arguments)

    def user_passwd(arguments: Arguments, _: Progress) -> Result:
        hashed = arguments.get("password_hash")
        if hashed is None:
            person = _known(arguments["email"])
        else:
            person = people.set_password(house, arguments["email"], hashed)
        audit.record(house, WHO, "password set" if hashed else "set-up link made", person.email)
        return _linked(person, arguments)

    def user_change(arguments: Arguments, _: Progress) -> Result:
        person = _known(arguments["email"])
        if arguments.get("role") is not None:
            person = people.set_role(house, person.email, arguments["role"])
        if arguments.get("platform_user_id") is not None:
            person = people.set_platform_user(house, person.email, arguments["platform_user_id"])
        for right in RIGHTS:
            if right in arguments.get("rights", {}):
                person = people.set_right(house, person.email, right, arguments["rights"][right])
        about = f"{person.email}, {person.role}, may {', '.join(sorted(person.rights)) or 'nothing more'}"
        audit.record(house, WHO, "user changed", about)
        return {"about": about}

    def user_remove(arguments: Arguments, _: Progress) -> Result:
        people.remove(house, arguments["email"])
        audit.record(house, WHO, "user removed", people.normal_email(arguments["email"]))
        return {}

    def key_add(arguments: Arguments, _: Progress) -> Result:
        named = arguments.get("collections")
        user_id, secret = keys.add(
            house,
            arguments["name"],
            arguments["scope"],
            None if named is None else [_collection(name) for name in named],
            arguments.get("platform_user_id"),
            taken=keys.platform_users(mirror),
        )
        audit.record(house, WHO, "key added", f"{arguments['name']}, {arguments['scope']}, {user_id}")
        return {"user_id": user_id, "secret": secret}

    def key_revoke(arguments: Arguments, _: Progress) -> Result:
        keys.revoke(house, arguments["name"])
        audit.record(house, WHO, "key revoked", arguments["name"])
        return {}

    def export_written_down(arguments: Arguments, _: Progress) -> Result:
        audit.record(house, arguments["who"], "export", arguments["about"], arguments["result"])
        return {}

    def _known(email: str) -> people.Person:
        person = people.find(house, email)
        if person is None:
            raise Refused(f"nobody here has the address {people.normal_email(email)!r}")
        return person

    def _linked(person: people.Person, arguments: Arguments) -> dict[str, Any]:
        """With a set-up link where no password was given."""
        if arguments.get("password_hash") is not None:
            return {"email": person.email}
        link = setup_links.one_time_link(house, person.email, arguments["base_url"])
        return {"email": person.email, "link": link}

    return {
        "user.add": user_add,
        "user.passwd": user_passwd,
        "user.change": user_change,
        "user.remove": user_remove,
        "key.add": key_add,
        "key.revoke": key_revoke,
        EXPORTED: export_written_down,
    }


def _collection(name: str) -> str:
    try:
        return catalogue.resource(name.strip().strip("/")).collection
    except catalogue.UnknownResource as unknown:
        raise Refused(str(unknown)) from None
