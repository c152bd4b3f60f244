"""An office with four calls, and what changes them later."""

from __future__ import annotations

from integration.core.commands import Progress
from integration.privacy import erase
from integration.workspace import app_changes, notes
from tests.support.application import TestApp
from tests.support.payloads.call_facts import ANN, BOB, CallMirror, Phone, cdr
from tests.support.people import ALICE

CALLER, SECOND_CALLER = "442079460001", "447700900123"


def open_office(app: TestApp) -> CallMirror:
    """Store calls 101, 102 and 103, which ended, 104, which is live, and users Ann, Bob and Cat."""
    app.add(ALICE)
    mirror = CallMirror(app)
    mirror.seed()
    mirror.apply(
        ("cdrs", cdr(9001, 101, 0, 18, 11, user_id=ANN, src=CALLER)),
        ("cdrs", cdr(9002, 102, 30, 20, 10, user_id=ANN, src=CALLER)),
        ("cdrs", cdr(9003, 103, 60, 40, 30, user_id=BOB, src=SECOND_CALLER)),
        Phone(104, BOB, started=90).event("ringing", 90),
    )
    return mirror


def label_call(app: TestApp, call_id: int) -> None:
    app.app_db.write(lambda tx: notes.add_label(tx, call_id, ALICE.email, "Complaint"))
    app_changes.announce(app.app_db, app.mirror_db)


def edit_call(mirror: CallMirror) -> None:
    """Learn that the talk of call 103 was 5 s shorter."""
    mirror.apply(("cdrs", cdr(9003, 103, 60, 35, 25, user_id=BOB, src=SECOND_CALLER)))


def merge_calls(mirror: CallMirror) -> None:
    """Learn that call 102 is a part of 101."""
    mirror.apply(Phone(102, ANN, root=101, started=30, connected=32).event("hangup", 50))


def erase_caller(app: TestApp, number: str) -> None:
    erase.erase(app.context, {"number": f"+{number}"}, Progress(lambda _: None, lambda: True))
