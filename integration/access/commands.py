"""The commands `user …` and `key …`, as the process that writes carries them out.

Arguments and results are JSON. A password arrives hashed already: it travels through no channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from integration import catalogue
from integration.access import audit, keys, people, setup_links
from integration.access.rights import RIGHTS
from integration.core.errors import DomainError
from integration.sqlite.database import Database

if TYPE_CHECKING:
    from integration.core.commands import Arguments, Handler, Progress, Result

ACTOR = "command line"
"""Who did it, in the audit."""
RECORD_EXPORT = "export.written-down"
"""An export by the command line, for the audit: `who`, `about`, `result`."""


def handlers(app_db: Database, mirror_path: Path) -> Mapping[str, Handler]:
    """The commands by name, for the channel. `mirror_path` is the path of mirror.db, which may be missing."""

    def user_add(arguments: Arguments, _: Progress) -> Result:
        person = people.create(
            app_db,
            arguments["email"],
            arguments["role"],
            password_hash=arguments.get("password_hash"),
            platform_user_id=arguments.get("platform_user_id"),
        )
        audit.record(app_db, ACTOR, "user added", f"{person.email}, {person.role}")
        return _make_result(person, arguments)

    def user_passwd(arguments: Arguments, _: Progress) -> Result:
        password_hash = arguments.get("password_hash")
        if password_hash is None:
            person = _require_person(arguments["email"])
        else:
            person = people.set_password(app_db, arguments["email"], password_hash)
        audit.record(app_db, ACTOR, "password set" if password_hash else "set-up link made", person.email)
        return _make_result(person, arguments)

    def user_change(arguments: Arguments, _: Progress) -> Result:
        person = _require_person(arguments["email"])
        if arguments.get("role") is not None:
            person = people.set_role(app_db, person.email, arguments["role"])
        if arguments.get("platform_user_id") is not None:
            person = people.set_platform_user(app_db, person.email, arguments["platform_user_id"])
        for right in RIGHTS:
            if right in arguments.get("rights", {}):
                person = people.set_right(app_db, person.email, right, arguments["rights"][right])
        about = f"{person.email}, {person.role}, may {', '.join(sorted(person.rights)) or 'nothing more'}"
        audit.record(app_db, ACTOR, "user changed", about)
        return {"about": about}

    def user_remove(arguments: Arguments, _: Progress) -> Result:
        people.remove(app_db, arguments["email"])
        audit.record(app_db, ACTOR, "user removed", people.normalize_email(arguments["email"]))
        return {}

    def key_add(arguments: Arguments, _: Progress) -> Result:
        collections = arguments.get("collections")
        user_id, secret = keys.add(
            app_db,
            arguments["name"],
            arguments["scope"],
            None if collections is None else [_check_collection(name) for name in collections],
            arguments.get("platform_user_id"),
            reserved_ids=keys.list_platform_user_ids(mirror_path),
        )
        audit.record(app_db, ACTOR, "key added", f"{arguments['name']}, {arguments['scope']}, {user_id}")
        return {"user_id": user_id, "secret": secret}

    def key_revoke(arguments: Arguments, _: Progress) -> Result:
        keys.revoke(app_db, arguments["name"])
        audit.record(app_db, ACTOR, "key revoked", arguments["name"])
        return {}

    def record_export(arguments: Arguments, _: Progress) -> Result:
        audit.record(app_db, arguments["who"], "export", arguments["about"], arguments["result"])
        return {}

    def _require_person(email: str) -> people.Person:
        person = people.find(app_db, email)
        if person is None:
            raise DomainError(f"nobody here has the address {people.normalize_email(email)!r}")
        return person

    def _make_result(person: people.Person, arguments: Arguments) -> dict[str, Any]:
        """With a set-up link where no password was given."""
        if arguments.get("password_hash") is not None:
            return {"email": person.email}
        link = setup_links.create_link(app_db, person.email, arguments["base_url"])
        return {"email": person.email, "link": link}

    return {
        "user.add": user_add,
        "user.passwd": user_passwd,
        "user.change": user_change,
        "user.remove": user_remove,
        "key.add": key_add,
        "key.revoke": key_revoke,
        RECORD_EXPORT: record_export,
    }


def _check_collection(name: str) -> str:
    try:
        return catalogue.get_resource(name.strip().strip("/")).collection
    except catalogue.UnknownResource as error:
        raise DomainError(str(error)) from None
