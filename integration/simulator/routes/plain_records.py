"""How plain records are written, one row for each collection.

A record is made of defaults, the fields of its checked body and an id. What needs more than that (groups,
calls, users) has routes of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from integration.core import clock
from integration.simulator.http import bodies
from integration.simulator.http.responses import get_current_user
from integration.simulator.records import contacts, reports, settings, tracking, widgets
from integration.simulator.records.people import CUSTOMER_ID

if TYPE_CHECKING:
    from integration.simulator.world import World

Record = dict[str, Any]
MakeFields = Callable[["World", Record], Record]

CONTACT_FORM = bodies.Form(
    {
        **dict.fromkeys(
            bodies.split_names(
                "type group_name first_name last_name email company tel tel_1 tel_2 "
                "speed_dial_phone speed_dial_phone_1 speed_dial_phone_2 mobile mobile_1 mobile_2 "
                "speed_dial_mobile speed_dial_mobile_1 speed_dial_mobile_2 notes"
            ),
            bodies.text,
        ),
        **dict.fromkeys(("dialler_source_id", "outcome_id", "user_id"), bodies.integer),
        **dict.fromkeys(("labels", "groups"), bodies.list_of()),
        "transfer_list": bodies.boolean,
    }
)
"""Labels, groups, speed dials and transfer_list are taken; no record shows them, as in the specification."""


def _copy_fields(_: World, fields: Record) -> Record:
    return fields


@dataclass(frozen=True, slots=True)
class WritableCollection:
    """How records of one collection are written.

    `make_defaults` gives a new record's fields before its body's; `make_fields` turns a checked body into
    fields of the record, ValueError naming the field that can't be; `methods`: what the collection takes.
    """

    form: bodies.Form
    make_defaults: Callable[[World], Record]
    make_fields: MakeFields = _copy_fields
    methods: str = "POST PATCH DELETE"


def _find_next_number(world: World, name: str, field: str) -> int:
    """The next free internal number of conference rooms or IVRs."""
    used_numbers = [record[field] or 0 for record in world.collections[name].records.values()]
    return max(used_numbers, default=900) + 1


def _make_owner_fields(_: World) -> Record:
    return {
        "user_id": None if get_current_user().is_root else get_current_user().id,
        "created_at": clock.utc_text(),
    }


def _make_conference_defaults(world: World) -> Record:
    record = settings.conference_record(0)
    number = _find_next_number(world, "conferences", "confno")
    return {**record, "confno": number, "confno_pstn": 72000000 + number}


def _make_announcement_fields(world: World, fields: Record) -> Record:
    record_fields = {name: value for name, value in fields.items() if name == "description"}
    if "extension_id" in fields:
        if world.account.find_person(fields["extension_id"]) is None:
            raise ValueError("extension_id")
        record_fields["extension"] = fields["extension_id"]
    return record_fields


def _make_campaign_fields(world: World, fields: Record) -> Record:
    setting = fields.get("call_me_back_setting_id")
    if setting is not None and setting not in world.collections["callmeback/settings"].records:
        raise ValueError("call_me_back_setting_id")
    return fields


def _make_contact_fields(_: World, fields: Record) -> Record:
    return {name: value for name, value in fields.items() if name in contacts.CONTACT_DEFAULTS}


def _make_contact_defaults(_: World) -> Record:
    record = contacts.contact_record(created_at=clock.utc_text())
    if not get_current_user().is_root:
        record.update({"global": False, "user_id": get_current_user().id})
    return record


def _make_rule_fields(_: World, fields: Record) -> Record:
    if fields.get("action"):
        fields["final_dst"] = fields["action"] != "block"
    return fields


def _without_ddis(_: World, fields: Record) -> Record:
    return {name: value for name, value in fields.items() if name != "ddis"}


_FORMS = settings.FORMS
WRITABLE_COLLECTIONS: dict[str, WritableCollection] = {
    "calllabels": WritableCollection(
        _FORMS["calllabels"], lambda world: {"color": None, **_make_owner_fields(world)}
    ),
    "sms/cannedresponses": WritableCollection(_FORMS["sms/cannedresponses"], _make_owner_fields),
    "vmannouncements": WritableCollection(
        _FORMS["vmannouncements"],
        lambda _: {"extension": None, "description": None, "created_at": clock.utc_text()},
        _make_announcement_fields,
    ),
    "conferences": WritableCollection(_FORMS["conferences"], _make_conference_defaults, _without_ddis),
    "routingrules": WritableCollection(
        _FORMS["routingrules"],
        lambda world: {
            "customer": CUSTOMER_ID,
            "pos": len(world.collections["routingrules"].records) + 1,
            "source": "",
            "destination": "",
            "time_interval": "",
        },
        _make_rule_fields,
        "POST PATCH",
    ),
    "ivrs": WritableCollection(
        _FORMS["ivrs"],
        lambda world: settings.ivr_record(number=_find_next_number(world, "ivrs", "number")),
        _without_ddis,
        "POST",
    ),
    "queuegroups": WritableCollection(_FORMS["queuegroups"], lambda _: {}),
    "usergroups": WritableCollection(_FORMS["usergroups"], lambda _: {"color": None}),
    "usergrouppolicies": WritableCollection(_FORMS["usergrouppolicies"], lambda _: {"color": None}),
    "callmeback/settings": WritableCollection(
        widgets.FORM, lambda _: widgets.setting_record(0), widgets.make_record_fields
    ),
    "callmeback/buttons": WritableCollection(
        _FORMS["callmeback/buttons"],
        lambda _: {"data_online": None, "data_offline": None, "created_at": clock.utc_text()},
    ),
    "reportschedules": WritableCollection(
        reports.FORM,
        lambda _: reports.schedule_record(0, clock.unix()),
        lambda _, fields: reports.make_record_fields(fields),
    ),
    "calltracking/campaigns": WritableCollection(
        tracking.CAMPAIGN_FORM,
        lambda _: tracking.campaign_record(0, created_at=clock.utc_text()),
        _make_campaign_fields,
        "POST",
    ),
    "contacts": WritableCollection(CONTACT_FORM, _make_contact_defaults, _make_contact_fields),
}
