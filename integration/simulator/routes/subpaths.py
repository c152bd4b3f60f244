"""What belongs to one user, contact, CDR or live call, below its own path.

The specification's examples show other resources at most of these paths; here they hold what their names say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flask import Flask, Response

from integration.core import clock
from integration.simulator.http.responses import caller, item, listing, machine, no_content
from integration.simulator.media import sip
from integration.simulator.records import notes
from integration.simulator.records.people import Person
from integration.simulator.routes.reads import open_record, page_of, select

Record = dict[str, Any]
Belongs = Callable[[Record, Person], bool]

_OF_USER: dict[str, Belongs] = {
    "contacts": lambda record, person: bool(record["global"]) or record["user_id"] == person.id,
    "cdrs": lambda record, person: bool(record["user_id"] == person.id),
    "chatmsgs": lambda record, person: bool(record["user_id"] == person.id),
    "calls": lambda record, person: str(person.id) in (record["src_id"], record["dst_id"]),
}
_TRACE_FIELDS = ("at", "from", "to", "message")


def add_routes(app: Flask) -> None:
    for name, belongs in _OF_USER.items():
        app.get(f"/users/<key>/{name}", endpoint=f"user's {name}")(_of_user(name, belongs))
    _add_user(app)
    _add_calls(app)

    @app.get("/contacts/<key>/cdrs")
    def contact_cdrs(key: str) -> Response:
        with machine().world.lock:
            contact = open_record("contacts", key)
            numbers = {contact[f"{kind}{n}"] for kind in ("tel", "mobile") for n in ("", "_1", "_2")} - {
                None,
                "",
            }
            cdrs = machine().world.collections["cdrs"].visible(caller())
            return page_of("cdrs", [r for r in cdrs if r["src"] in numbers or r["dst"] in numbers])

    @app.get("/cdrs/<key>/notes")
    def cdr_notes(key: str) -> Response:
        with machine().world.lock:
            cdr = open_record("cdrs", key)
            found = machine().world.collections["cdrs/notes"].rows()
            records, total = select([n for n in found if n["cdr_id"] == cdr["id"]], notes.FIELDS)
            return listing(records, total)


def _user(key: str) -> Person:
    """The user of a path, if the caller may see them. Raises Answered."""
    record = open_record("users", key)
    person = machine().world.account.person(record["id"])
    assert person is not None
    return person


def _of_user(name: str, belongs: Belongs) -> Any:
    def listed(key: str) -> Response:
        with machine().world.lock:
            person = _user(key)
            rows = machine().world.collections[name].rows()
            return page_of(name, [record for record in rows if belongs(record, person)])

    return listed


def _add_user(app: Flask) -> None:
    @app.get("/users/<key>/smsthreads/<first>/<second>")
    @app.get("/users/<key>/sms/threads/<first>/<second>", endpoint="sms_threads")
    def sms_thread(key: str, first: str, second: str) -> Response:
        """What the user and one number wrote each other, oldest first."""
        ends = {first.removeprefix("+"), second.removeprefix("+")}
        with machine().world.lock:
            person = _user(key)
            rows: Iterable[Record] = machine().world.collections["sms"].rows()
            found = [r for r in rows if r["user_id"] == person.id and {r["from"], r["to"]} == ends]
            return page_of("sms", sorted(found, key=lambda record: (record["created_at"], record["id"])))

    @app.get("/users/<key>/audio")
    def audio(key: str) -> Response:
        """Sounds of the user's own: which announcement their mailbox plays. Fields invented."""
        person = _user(key)
        return item(
            {
                "user_id": person.id,
                "language": "en",
                "vm_announcement_id": person.vm_announcement_id,
                "custom": person.vm_announcement_id is not None,
            },
            path=f"/users/{person.id}/audio",
        )

    @app.delete("/users/<key>/audio")
    def reset_audio(key: str) -> Response:
        with machine().world.lock:
            _user(key).vm_announcement_id = None
        return no_content()


def _add_calls(app: Flask) -> None:
    @app.get("/calls/<key>/trace")
    def trace(key: str) -> Response:
        """The SIP messages so far, as JSON: only paths with an ending are files. Fields invented."""
        world = machine().world
        with world.lock:
            told = sip.of_call(open_record("calls", key))
        now = clock.now()
        rows = [
            {
                "at": clock.stamp(packet.at),
                "from": f"{packet.sender[0]}:{packet.sender[1]}",
                "to": f"{packet.receiver[0]}:{packet.receiver[1]}",
                "message": packet.payload.decode(),
            }
            for packet in sip.packets(told)
            if packet.at <= now
        ]
        records, total = select(rows, _TRACE_FIELDS)
        return listing(records, total)

    @app.get("/calls/<key>/monitors")
    def monitors(key: str) -> Response:
        """Recordings of the call; it may have ended, but must have been there."""
        world = machine().world
        with world.lock:
            found = [r for r in world.collections["monitors"].visible(caller()) if str(r["live_id"]) == key]
            if not found and not any(str(r["live_id"]) == key for r in world.collections["cdrs"].rows()):
                open_record("calls", key)
            return page_of("monitors", found)
