"""Commands `user …` and `key …`, run by the writer.

Arguments and results are JSON. A password is hashed by the client, so that the control channel does not
carry it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from integration import catalogue
from integration.access import audit, keys, people, setup_links
from integration.access.rights import RIGHTS, ROLE_LABELS
from integration.core.commands import COMMAND_LINE, Arguments, Progress, Result, command
from integration.core.errors import DomainError
from integration.sqlite.database import Database

if TYPE_CHECKING:
    from integration.settings.model import Settings


class AccessContext(Protocol):
    """Members of `AppContext` that these commands use.

    The command `export` provides no others.
    """

    @property
    def settings(self) -> Settings: ...
    @property
    def app_db(self) -> Database: ...


@command("user.add")
def add_user(context: AccessContext, arguments: Arguments, _: Progress) -> Result:
    person = people.create(
        context.app_db,
        arguments["email"],
        arguments["role"],
        password_hash=arguments.get("password_hash"),
        platform_user_id=arguments.get("platform_user_id"),
    )
    audit.record(context.app_db, COMMAND_LINE, "user added", f"{person.email}, {ROLE_LABELS[person.role]}")
    return _make_user_result(context, arguments)


@command("user.passwd")
def set_password(context: AccessContext, arguments: Arguments, _: Progress) -> Result:
    password_hash = arguments.get("password_hash")
    if password_hash is not None:
        people.set_password(context.app_db, arguments["email"], password_hash)
    result = _make_user_result(context, arguments)
    action = "password set" if password_hash else "password link created"
    audit.record(context.app_db, COMMAND_LINE, action, result["email"])
    return result


@command("user.change")
def change_user(context: AccessContext, arguments: Arguments, _: Progress) -> Result:
    user_id = arguments.get("platform_user_id")
    person = people.change(
        context.app_db,
        arguments["email"],
        role=arguments.get("role"),
        rights={name: value for name, value in arguments.get("rights", {}).items() if name in RIGHTS},
        platform_user_id="unchanged" if user_id is None else user_id,
    )
    about = people.describe_access(person)
    audit.record(context.app_db, COMMAND_LINE, "user changed", about)
    return {"about": about}


@command("factor.remove")
def remove_second_factor(context: AccessContext, arguments: Arguments, _: Progress) -> Result:
    person = people.remove_second_factor(context.app_db, arguments["email"])
    audit.record(context.app_db, COMMAND_LINE, "second factor removed", person.email)
    return {"email": person.email}


@command("user.remove")
def remove_user(context: AccessContext, arguments: Arguments, _: Progress) -> Result:
    people.remove(context.app_db, arguments["email"])
    audit.record(context.app_db, COMMAND_LINE, "user removed", people.normalize_email(arguments["email"]))
    return {}


@command("key.add")
def add_key(context: AccessContext, arguments: Arguments, _: Progress) -> Result:
    collections = arguments.get("collections")
    user_id, secret = keys.add(
        context.app_db,
        arguments["name"],
        arguments["scope"],
        None if collections is None else [_check_collection(name) for name in collections],
        arguments.get("platform_user_id"),
        limits=keys.parse_limits(
            arguments.get("expires") or "",
            arguments.get("networks") or (),
            arguments.get("rate") or "",
            arguments.get("rights") or (),
        ),
        reserved_ids=keys.list_platform_user_ids(context.settings.storage.data_dir / "mirror.db"),
    )
    about = f"{arguments['name']}, {arguments['scope']}, {user_id}"
    audit.record(context.app_db, COMMAND_LINE, "key added", about)
    return {"user_id": user_id, "secret": secret}


@command("key.rotate")
def rotate_key(context: AccessContext, arguments: Arguments, _: Progress) -> Result:
    user_id, secret = keys.rotate(context.app_db, arguments["name"], arguments["overlap_hours"])
    audit.record(context.app_db, COMMAND_LINE, "key rotated", arguments["name"])
    return {"user_id": user_id, "secret": secret}


@command("key.revoke")
def revoke_key(context: AccessContext, arguments: Arguments, _: Progress) -> Result:
    keys.revoke(context.app_db, arguments["name"])
    audit.record(context.app_db, COMMAND_LINE, "key revoked", arguments["name"])
    return {}


@command("export.record")
def record_export(context: AccessContext, arguments: Arguments, _: Progress) -> Result:
    """Record an export by the command line in the audit log.

    Arguments: `who`, `about`, `result`.
    """
    audit.record(context.app_db, arguments["who"], "export", arguments["about"], arguments["result"])
    return {}


def _make_user_result(context: AccessContext, arguments: Arguments) -> Result:
    """Return the e-mail address, and without a password also a setup link."""
    email = people.normalize_email(arguments["email"])
    if arguments.get("password_hash") is not None:
        return {"email": email}
    return {"email": email, "link": setup_links.create_link(context.app_db, email, arguments["base_url"])}


def _check_collection(name: str) -> str:
    try:
        return catalogue.get_resource(name.strip().strip("/")).collection
    except catalogue.UnknownResource as error:
        raise DomainError(str(error)) from None
