"""Ring groups and queues: writing them changes who is rung when calls come in."""

from __future__ import annotations

from typing import Any

from flask import Flask, Response

from integration.simulator.http import bodies
from integration.simulator.http.bodies import anything, digits, filled, flag, listed, one_of, text, whole
from integration.simulator.http.relations import shown
from integration.simulator.http.responses import invalid, item, machine, no_content
from integration.simulator.records import directory
from integration.simulator.records.people import Group, Person
from integration.simulator.records.settings import DESTINATIONS
from integration.simulator.routes.reads import open_collection, open_record

Record = dict[str, Any]

_FIRST_NUMBER = {"ringgroups": 611, "queues": 601}
_KINDS = {"ringgroups": "ringgroup", "queues": "queue"}
# Memory hunt (M) is known from Follow Me alone; the simulator hunts.
_STRATEGIES = one_of("A", "H", "M")

_RING_GROUP = bodies.Form(
    {
        "name": filled,
        "users": listed(whole),
        "ddis": listed(digits),
        "strategy": _STRATEGIES,
        "final_dst_type": one_of(*DESTINATIONS),
        "final_dst_id": whole,
        "ring_time": whole,
        "cli_prefix": flag,
        "moh_id": whole,
        "number": whole,
    },
    ("name",),
)
_QUEUE = bodies.Form(
    {
        "name": filled,
        "users": listed(),
        "ddis": listed(digits),
        "ring_strategy": _STRATEGIES,
        "final_dst_type": one_of(*DESTINATIONS),
        "language": text,
        "monitor": text,
        "email_missed": text,
        "groups": listed(),
        "agent_sounds": anything,
        "caller_sounds": anything,
        **dict.fromkeys(
            bodies.named(
                "moh_id ivr_id number max_wait_time max_callers ring_time retry wrap_up_time "
                "wrap_up_panel_timeout ann_freq final_dst_id post_call_ivr_id"
            ),
            whole,
        ),
        **dict.fromkeys(
            bodies.named(
                "cli_prefix wait_time_prefix join_empty wrap_up_panel skip_busy pos_ann hold_ann "
                "hash_to_exit liaf"
            ),
            flag,
        ),
    },
    ("name",),
)
_FORMS = {"ringgroups": _RING_GROUP, "queues": _QUEUE}
# Names that a body and its record don't share.
_SHOWN_AS = {"moh_id": "moh", "ivr_id": "ivr"}


def add_routes(app: Flask) -> None:
    for name in _KINDS:
        app.add_url_rule(f"/{name}", f"POST {name}", _maker(name), methods=["POST"])
        # Of queues the specification shows no change; a real client makes one (observed.md §10.4).
        app.add_url_rule(f"/{name}/<key>", f"PATCH {name}", _changer(name), methods=["PATCH"])

    @app.delete("/ringgroups/<key>")
    def drop(key: str) -> Response:
        world = machine().world
        with world.lock:
            record = open_record("ringgroups", key, write=True)
            group = world.group(record["id"])
            world.account.groups.remove(group)
            world.collections["ringgroups"].remove(record)
            for line in world.account.lines:
                if line.target is group:
                    line.target = world.account.admin
            world.refresh_lines()
        return no_content()


def _maker(name: str) -> Any:
    def made() -> Response:
        world = machine().world
        with world.lock:
            open_collection(name)
            fields = _FORMS[name].read(bodies.sent())
            _check(fields, None)
            taken = {group.number for group in world.account.groups}
            number = next(n for n in range(_FIRST_NUMBER[name], 10**6) if n not in taken)
            group = Group(world.new_id(name), _KINDS[name], "", number, "A", 20, [])
            record = directory.group_record(group)
            _apply(name, group, record, fields)
            world.account.groups.append(group)
            world.collections[name].add(record)
            return item(_item(name, record), 201, f"/{name}/{group.id}")

    return made


def _changer(name: str) -> Any:
    def changed(key: str) -> Response:
        world = machine().world
        with world.lock:
            record = open_record(name, key, write=True)
            fields = _FORMS[name].read(bodies.sent(), change=True)
            group = world.group(record["id"])
            _check(fields, group)
            _apply(name, group, record, fields)
            return item(_item(name, record), path=f"/{name}/{key}")

    return changed


def _item(name: str, record: Record) -> Record:
    return shown(name, machine().world.collections[name].item(record))


def _check(fields: Record, group: Group | None) -> None:
    """Whether users, numbers and extension exist and are free. Raises Answered."""
    account = machine().world.account
    if any(person is None for person, _ in _members(fields)):
        raise invalid("users")
    own = {line.e164 for line in account.lines}
    if any(number not in own for number in fields.get("ddis") or []):
        raise invalid("ddis")
    taken = {other.number for other in account.groups if other is not group}
    if fields.get("number") in taken:
        raise invalid("number")
    ivr = fields.get("post_call_ivr_id")
    if ivr is not None and ivr not in machine().world.collections["ivrs"].records:
        raise invalid("post_call_ivr_id")


def _members(fields: Record) -> list[tuple[Person | None, bool | None]]:
    """Who `users` names, and whether they are logged in (None: not said)."""
    found: list[tuple[Person | None, bool | None]] = []
    for entry in fields.get("users") or []:
        user_id = entry.get("id") if isinstance(entry, dict) else entry
        status = bool(entry["status"]) if isinstance(entry, dict) and "status" in entry else None
        found.append((machine().world.account.person(user_id), status))
    return found


def _apply(name: str, group: Group, record: Record, fields: Record) -> None:
    if "users" in fields:
        _set_members(name, group, fields)
    if "ddis" in fields:
        machine().world.retarget(fields["ddis"] or [], group)
    for field, value in fields.items():
        shown_as = field if field in record else _SHOWN_AS.get(field, field)
        # Every group keeps a number.
        if shown_as in record and (value is not None or field != "number"):
            record[shown_as] = value
    group.name, group.number = record["name"], int(record["number"])
    group.strategy = "A" if record.get("strategy", record.get("ring_strategy")) in ("A", None) else "H"
    group.ring_time = max(1, int(record["ring_time"] or 20))
    group.cli_prefix = bool(record["cli_prefix"])
    group.final_dst_type = record["final_dst_type"] or "H"


def _set_members(name: str, group: Group, fields: Record) -> None:
    members = [(person, status) for person, status in _members(fields) if person is not None]
    # The queue script logs some agents in and out; that leaves the others members (observed.md §10.4).
    logins_only = (
        name == "queues"
        and bool(members)
        and all(person in group.members and status is not None for person, status in members)
    )
    if not logins_only:
        group.members = [person for person, _ in members]
        group.logged_in = {person.id: group.logged_in.get(person.id, True) for person, _ in members}
    for person, status in members:
        if status is not None:
            group.logged_in[person.id] = status
