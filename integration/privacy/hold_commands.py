"""Commands that set and release legal holds.

Legal holds protect calls and numbers from retention and erasure. A hold is in force when its command returns.
`kind` is "number" or "call"; `what` is the number in E.164 or the id of the call.
"""

from __future__ import annotations

from dataclasses import asdict

from integration.context import AppContext
from integration.core.commands import COMMAND_LINE, Arguments, Progress, Result, command
from integration.core.errors import DomainError
from integration.mirror.privacy.held_records import is_call_id
from integration.privacy import holds
from integration.privacy.erase import refresh_held


@command("hold.set")
def set_hold(context: AppContext, arguments: Arguments, _: Progress) -> Result:
    """Set a legal hold on {kind, what} for {reason}.

    {who}: the actor. Raises DomainError for an unknown call.
    """
    if arguments["kind"] == "call" and not _is_mirrored_call(context, int(arguments["what"])):
        raise DomainError(
            f"There is no call with the id {arguments['what']}. A telephone number begins with + or 0."
        )
    who = arguments.get("who") or COMMAND_LINE
    hold = holds.add(context.app_db, arguments["kind"], arguments["what"], arguments["reason"], who)
    _refresh(context)
    return asdict(hold)


@command("hold.release")
def release_hold(context: AppContext, arguments: Arguments, _: Progress) -> Result:
    """Release the legal hold on {kind, what}, by the actor {who}."""
    holds.release(context.app_db, arguments["kind"], arguments["what"], arguments.get("who") or COMMAND_LINE)
    _refresh(context)
    return {}


def _refresh(context: AppContext) -> None:
    with context.app_db.read() as app_connection, context.mirror_db.read() as mirror_connection:
        refresh_held(app_connection, mirror_connection, context.held_records)


def _is_mirrored_call(context: AppContext, call_id: int) -> bool:
    with context.mirror_db.read() as connection:
        return is_call_id(connection, call_id)
