"""Commands `events …`, run by the writer, and by the page of outgoing webhooks.

{who, address} of the arguments are the user of the page and the address of their computer.
"""

from __future__ import annotations

from integration.access import audit
from integration.context import AppContext
from integration.core.commands import COMMAND_LINE, Arguments, Progress, Result, command
from integration.events import delivery_log, subscriptions
from integration.events.subscriptions import Subscription


@command("events.add")
def add_subscription(context: AppContext, arguments: Arguments, _: Progress) -> Result:
    secret = subscriptions.add(
        context.app_db,
        context.settings,
        arguments["name"],
        arguments["url"],
        arguments["kinds"],
        with_parties=not arguments["anonymous"],
        cursor=context.deliveries.newest_cursor(),
    )
    _record(context, "outgoing webhook added", arguments)
    return {"secret": secret}


@command("events.test")
def send_test(context: AppContext, arguments: Arguments, _: Progress) -> Result:
    outcome = context.deliveries.test(_require(context, arguments))
    _record(context, "outgoing webhook tested", arguments)
    return {"status": outcome.status, "error": outcome.error}


@command("events.replay")
def replay_events(context: AppContext, arguments: Arguments, progress: Progress) -> Result:
    """Replay the events from `since` to before `until` (UTC text, or None)."""
    number = _require(context, arguments).id
    with context.app_db.read() as connection:
        attempts = delivery_log.list_first_attempts(
            connection, number, arguments["since"], arguments["until"]
        )

    def report(done: int) -> bool:
        progress(done=done, total=len(attempts))
        return progress.can_continue

    _record(context, "outgoing webhook replayed", arguments)
    return {"delivered": context.deliveries.replay(number, attempts, report), "total": len(attempts)}


@command("events.rotate")
def rotate_secret(context: AppContext, arguments: Arguments, _: Progress) -> Result:
    secret = subscriptions.rotate(context.app_db, _require(context, arguments).id)
    _record(context, "outgoing webhook rotated", arguments)
    return {"secret": secret}


@command("events.enable")
def enable_subscription(context: AppContext, arguments: Arguments, _: Progress) -> Result:
    subscriptions.enable(context.app_db, _require(context, arguments).id)
    _record(context, "outgoing webhook enabled", arguments)
    return {}


@command("events.skip")
def skip_event(context: AppContext, arguments: Arguments, _: Progress) -> Result:
    event = context.deliveries.skip(_require(context, arguments).id)
    _record(context, "event skipped", arguments)
    return {"id": event.id, "type": event.kind}


@command("events.remove")
def remove_subscription(context: AppContext, arguments: Arguments, _: Progress) -> Result:
    subscriptions.remove(context.app_db, _require(context, arguments).id)
    _record(context, "outgoing webhook removed", arguments)
    return {}


def _require(context: AppContext, arguments: Arguments) -> Subscription:
    with context.app_db.read() as connection:
        return subscriptions.require(connection, arguments["name"])


def _record(context: AppContext, action: str, arguments: Arguments) -> None:
    who, address = arguments.get("who", COMMAND_LINE), arguments.get("address", "")
    audit.record(context.app_db, who, action, arguments["name"], address=address)
