"""`hold`: calls and numbers that neither retention nor an erasure may touch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from integration.core.commands import Arguments, Handler, Progress, Result
from integration.core.errors import DomainError
from integration.mirror.privacy.held_records import HeldRecords, is_call_id
from integration.privacy import holds
from integration.privacy.erase import refresh_held
from integration.sqlite.database import Database

ACTOR = "command line"
SET_COMMAND, RELEASE_COMMAND = "hold.set", "hold.release"


def make_handlers(app_db: Database, mirror_db: Database, held_records: HeldRecords) -> Mapping[str, Handler]:
    """`hold.set` {kind, what, reason} and `hold.release` {kind, what}; `what` an E.164 number or a call's id.
    What was set holds from the answer on."""

    def refresh() -> None:
        with app_db.read() as app_connection, mirror_db.read() as mirror_connection:
            refresh_held(app_connection, mirror_connection, held_records)

    def handle_set(arguments: Arguments, _: Progress) -> Result:
        if arguments["kind"] == "call" and not _is_mirrored_call(mirror_db, int(arguments["what"])):
            raise DomainError(
                f"no call {arguments['what']} is known; a telephone number is written with its plus, or the 0"
            )
        hold = holds.add(app_db, arguments["kind"], arguments["what"], arguments["reason"], ACTOR)
        refresh()
        return asdict(hold)

    def handle_release(arguments: Arguments, _: Progress) -> Result:
        holds.release(app_db, arguments["kind"], arguments["what"], ACTOR)
        refresh()
        return {}

    return {SET_COMMAND: handle_set, RELEASE_COMMAND: handle_release}


def _is_mirrored_call(mirror_db: Database, call_id: int) -> bool:
    with mirror_db.read() as connection:
        return is_call_id(connection, call_id)
