"""`hold`: calls and numbers that neither retention nor an erasure may touch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from integration.core.refused import Refused
from integration.mirror.privacy.held_records import Held, is_call
from integration.privacy import holds
from integration.privacy.erase import held_now
from integration.server.control_channel import Arguments, Handler, Progress, Result
from integration.sqlite.database import Database

WHO = "command line"
SET, RELEASE = "hold.set", "hold.release"


def handlers(house: Database, mirror: Database, held: Held) -> Mapping[str, Handler]:
    """`hold.set` {kind, what, reason} and `hold.release` {kind, what}; `what` an E.164 number or a call's id.
    What was set holds from the answer on."""

    def look() -> None:
        with house.read() as ours, mirror.read() as calls:
            held_now(ours, calls, held)

    def set_(arguments: Arguments, _: Progress) -> Result:
        if arguments["kind"] == "call" and not _known(mirror, int(arguments["what"])):
            raise Refused(
                f"no call {arguments['what']} is known; a telephone number is written with its plus, or the 0"
            )
        made = holds.add(house, arguments["kind"], arguments["what"], arguments["reason"], WHO)
        look()
        return asdict(made)

    def release(arguments: Arguments, _: Progress) -> Result:
        holds.release(house, arguments["kind"], arguments["what"], WHO)
        look()
        return {}

    return {SET: set_, RELEASE: release}


def _known(mirror: Database, call: int) -> bool:
    with mirror.read() as connection:
        return is_call(connection, call)
