"""Effects of writes that do more than set fields of a record.

Writes of ring groups, queues and users change which phones ring for calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from integration.core import clock
from integration.simulator.context import get_current_user, get_simulator_context, get_world
from integration.simulator.http.responses import ErrorResponse, make_validation_error
from integration.simulator.records import notes, reports
from integration.simulator.records.account_state import GROUP_COLLECTIONS
from integration.simulator.records.people import Group, Person
from integration.simulator.records.record_fields import apply_fields, make_record
from integration.simulator.routes.record_checks import get_permitted_record

Record = dict[str, Any]

_NUMBER_FIELDS = {"conferences": "confno", "ivrs": "number", "queues": "number", "ringgroups": "number"}
_DESTINATION_LETTERS = {"conferences": "C", "ivrs": "I", "queues": "Q", "ringgroups": "R"}
"""Values of target_type for numbers that are routed to records of these collections."""
_TRACKED_DDIS = "calltracking/ddis"


def make_new_record(name: str) -> Record:
    """Create a record without an id, with values of optional fields.

    Groups, conference rooms and IVRs have the next free internal number.
    """
    world, user = get_world(), get_current_user()
    record, existing = make_record(name), world.collections[name].records.values()
    if "created_at" in record:
        record["created_at"] = clock.utc_text()
    if "user_id" in record and not user.is_root:
        record["user_id"] = user.id
    if name in _NUMBER_FIELDS:
        field = _NUMBER_FIELDS[name]
        record[field] = max((entry[field] or 0 for entry in existing), default=900) + 1
    if name == "conferences":
        record["confno_pstn"] = 72000000 + record["confno"]
    if name == "routingrules":
        record["pos"] = len(existing) + 1
    return record


def _write_contact(record: Record, fields: Record) -> None:
    apply_fields(record, fields)
    record["global"] = record["user_id"] is None
    is_new = record["id"] is None
    if is_new and not any(record[field] for field in ("first_name", "last_name", "company")):
        raise make_validation_error("first_name")


def _write_routing_rule(record: Record, fields: Record) -> None:
    if record["direction"] not in (None, fields.get("direction", record["direction"])):
        raise make_validation_error("direction")
    apply_fields(record, fields)
    record["final_dst"] = record["action"] != "block"


def _write_widget_setting(record: Record, fields: Record) -> None:
    # `culture` is text in bodies, but a number with undocumented meaning in records.
    apply_fields(record, {field: value for field, value in fields.items() if field != "culture"})
    if fields.get("ddi_e164") is not None:
        record["ddi"] = int(get_world().collections["ddis"].records[str(fields["ddi_e164"])]["id"])


def _write_report_schedule(record: Record, fields: Record) -> None:
    apply_fields(record, {"timezone": fields.get("tz") or record["timezone"], **fields})
    record["next_run_at"] = reports.compute_next_run(record, clock.unix())


def _write_group(record: Record, fields: Record) -> None:
    if fields.get("number") in [g.record["number"] for g in get_world().groups if g.record is not record]:
        raise make_validation_error("number")
    # null does not remove the number of a group.
    apply_fields(record, {field: v for field, v in fields.items() if v is not None or field != "number"})


WRITERS: dict[str, Callable[[Record, Record], None]] = {
    "contacts": _write_contact,
    "routingrules": _write_routing_rule,
    "callmeback/settings": _write_widget_setting,
    "reportschedules": _write_report_schedule,
    "ringgroups": _write_group,
    "queues": _write_group,
}
"""Functions that set the fields of a body, by collection, with further effects than apply_fields."""


def route_calls(name: str, record: Record, fields: Record) -> None:
    """Apply the `fields` of a request, which `record` has now, to the calls of the account."""
    world = get_world()
    if name in GROUP_COLLECTIONS:
        group = next((group for group in world.groups if group.record is record), None)
        if group is None:
            group = Group(name.removesuffix("s"), record)
            world.groups.append(group)
        if "users" in fields:
            _set_members(group, fields["users"] or [])
    if name in _DESTINATION_LETTERS and "ddis" in fields:
        world.route_numbers_to(fields["ddis"] or [], _DESTINATION_LETTERS[name], record["id"])


def _set_members(group: Group, entries: list[Any]) -> None:
    """Set the members of a group from user ids, or objects with user id and login state (`status`)."""
    objects = [entry if isinstance(entry, dict) else {"id": entry} for entry in entries]
    members = [_find_person(entry["id"]) for entry in objects]
    # The queue script, a real client, logs some agents in and out; the other agents stay members
    # (docs/platform.md#16-clients).
    changes_logins_only = (
        group.kind == "queue"
        and bool(members)
        and all(member in group.members for member in members)
        and all("status" in entry for entry in objects)
    )
    if not changes_logins_only:
        group.members = members
        group.logged_in = {member.id: group.logged_in.get(member.id, True) for member in members}
    for member, entry in zip(members, objects, strict=True):
        if "status" in entry:
            group.logged_in[member.id] = bool(entry["status"])


def _find_person(user_id: Any) -> Person:
    person = get_world().find_person(user_id)
    assert person is not None
    return person


def _remove_group(record: Record) -> None:
    get_world().groups.remove(get_world().get_group(record["id"]))


def _remove_user(record: Record) -> None:
    world, person = get_world(), _find_person(record["id"])
    if person is world.admin:
        # The user who created the account can be deleted only with the account.
        raise ErrorResponse(403, "Access denied")
    world.remove_person(person)
    get_simulator_context().login_service.revoke_all(person)


_REMOVERS: dict[str, Callable[[Record], None]] = {
    "queues": _remove_group,
    "ringgroups": _remove_group,
    "users": _remove_user,
}


def prepare_removal(name: str, record: Record) -> None:
    """Remove a record of `name` from the calls of the account, before it is deleted."""
    if name in _REMOVERS:
        _REMOVERS[name](record)
    if name in _DESTINATION_LETTERS:
        get_world().route_numbers_to([], _DESTINATION_LETTERS[name], record["id"])


def find_bulk_record(name: str, entry: Record) -> Record:
    """Return the record that an entry of a bulk change changes.

    Raises ErrorResponse if it does not exist or the user cannot change it.
    """
    if name != _TRACKED_DDIS:
        return get_permitted_record(name, str(entry["id"]), for_write=True)
    collections, number = get_world().collections, entry["e164"]
    for tracked_ddi in collections[name].records.values():
        if tracked_ddi["e164"] == number:
            return tracked_ddi
    ddi = collections["ddis"].records.get(number)
    if ddi is None:
        raise ErrorResponse(404, "Resource not found")
    return make_record(name, e164=number, name=ddi["name"])


def _mark_voice_message(record: Record, _: Record) -> None:
    # Folder 1 holds new messages, 2 messages that were played. Folders are undocumented; this is invented.
    record["is_new"] = record["folder"] == 1


def _change_person(record: Record, entry: Record) -> None:
    person = _find_person(record["id"])
    person.location_id = entry.get("location_id", person.location_id)
    person.group_ids = list(entry.get("groups", person.group_ids) or [])


def _add_cdr_note(record: Record, entry: Record) -> None:
    if entry.get("note"):
        notes.add_note(get_world(), record, get_current_user().id, entry["note"], clock.unix())


def _add_tracked_ddi(record: Record, _: Record) -> None:
    if record["id"] is None:
        record["id"] = get_world().new_id(_TRACKED_DDIS)
        get_world().collections[_TRACKED_DDIS].add(record)


BULK_EFFECTS: dict[str, Callable[[Record, Record], None]] = {
    "voicemessages": _mark_voice_message,
    "users": _change_person,
    "cdrs": _add_cdr_note,
    _TRACKED_DDIS: _add_tracked_ddi,
}
"""Further effects of bulk changes beside setting fields, by collection."""
