"""How plain records are written, one row for each collection.

A record is made of defaults, the fields of its checked body and an id. What needs more than that (groups,
calls, users) has routes of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from integration.core import clock
from integration.simulator.http import bodies
from integration.simulator.http.responses import caller
from integration.simulator.records import contacts, reports, settings, tracking, widgets
from integration.simulator.records.people import CUSTOMER_ID
from integration.simulator.world import World

Record = dict[str, Any]
Keep = Callable[[World, Record], Record]

CONTACT_FORM = bodies.Form(
    {
        **dict.fromkeys(
            bodies.named(
                "type group_name first_name last_name email company tel tel_1 tel_2 "
                "speed_dial_phone speed_dial_phone_1 speed_dial_phone_2 mobile mobile_1 mobile_2 "
                "speed_dial_mobile speed_dial_mobile_1 speed_dial_mobile_2 notes"
            ),
            bodies.text,
        ),
        **dict.fromkeys(("dialler_source_id", "outcome_id", "user_id"), bodies.whole),
        **dict.fromkeys(("labels", "groups"), bodies.listed()),
        "transfer_list": bodies.flag,
    }
)
"""Labels, groups, speed dials and transfer_list are taken; no record shows them, as in the specification."""


def _as_sent(_: World, fields: Record) -> Record:
    return fields


@dataclass(frozen=True, slots=True)
class Plain:
    """How records of one collection are written.

    `start` gives a new record's fields before its body's; `keep` turns a checked body into fields of the
    record, ValueError naming the field that can't be; `verbs`: what the collection takes.
    """

    form: bodies.Form
    start: Callable[[World], Record]
    keep: Keep = _as_sent
    verbs: str = "POST PATCH DELETE"


def _numbered(world: World, name: str, field: str) -> int:
    """The next free internal number of conference rooms or IVRs."""
    taken = [record[field] or 0 for record in world.collections[name].records.values()]
    return max(taken, default=900) + 1


def _own(_: World) -> Record:
    return {"user_id": None if caller().is_root else caller().id, "created_at": clock.stamp()}


def _conference(world: World) -> Record:
    record = settings.conference_record(0)
    number = _numbered(world, "conferences", "confno")
    return {**record, "confno": number, "confno_pstn": 72000000 + number}


def _announcement(world: World, fields: Record) -> Record:
    kept = {name: value for name, value in fields.items() if name == "description"}
    if "extension_id" in fields:
        if world.account.person(fields["extension_id"]) is None:
            raise ValueError("extension_id")
        kept["extension"] = fields["extension_id"]
    return kept


def _campaign(world: World, fields: Record) -> Record:
    setting = fields.get("call_me_back_setting_id")
    if setting is not None and setting not in world.collections["callmeback/settings"].records:
        raise ValueError("call_me_back_setting_id")
    return fields


def _contact(_: World, fields: Record) -> Record:
    return {name: value for name, value in fields.items() if name in contacts.CONTACT_DEFAULTS}


def _start_contact(_: World) -> Record:
    record = contacts.contact_record(created_at=clock.stamp())
    if not caller().is_root:
        record.update({"global": False, "user_id": caller().id})
    return record


def _rule(_: World, fields: Record) -> Record:
    if fields.get("action"):
        fields["final_dst"] = fields["action"] != "block"
    return fields


def _without_ddis(_: World, fields: Record) -> Record:
    return {name: value for name, value in fields.items() if name != "ddis"}


_FORMS = settings.FORMS
PLAIN: dict[str, Plain] = {
    "calllabels": Plain(_FORMS["calllabels"], lambda world: {"color": None, **_own(world)}),
    "sms/cannedresponses": Plain(_FORMS["sms/cannedresponses"], _own),
    "vmannouncements": Plain(
        _FORMS["vmannouncements"],
        lambda _: {"extension": None, "description": None, "created_at": clock.stamp()},
        _announcement,
    ),
    "conferences": Plain(_FORMS["conferences"], _conference, _without_ddis),
    "routingrules": Plain(
        _FORMS["routingrules"],
        lambda world: {
            "customer": CUSTOMER_ID,
            "pos": len(world.collections["routingrules"].records) + 1,
            "source": "",
            "destination": "",
            "time_interval": "",
        },
        _rule,
        "POST PATCH",
    ),
    "ivrs": Plain(
        _FORMS["ivrs"],
        lambda world: settings.ivr_record(number=_numbered(world, "ivrs", "number")),
        _without_ddis,
        "POST",
    ),
    "queuegroups": Plain(_FORMS["queuegroups"], lambda _: {}),
    "usergroups": Plain(_FORMS["usergroups"], lambda _: {"color": None}),
    "usergrouppolicies": Plain(_FORMS["usergrouppolicies"], lambda _: {"color": None}),
    "callmeback/settings": Plain(widgets.FORM, lambda _: widgets.setting_record(0), widgets.kept),
    "callmeback/buttons": Plain(
        _FORMS["callmeback/buttons"],
        lambda _: {"data_online": None, "data_offline": None, "created_at": clock.stamp()},
    ),
    "reportschedules": Plain(
        reports.FORM,
        lambda _: reports.schedule_record(0, clock.unix()),
        lambda _, fields: reports.kept(fields),
    ),
    "calltracking/campaigns": Plain(
        tracking.CAMPAIGN_FORM,
        lambda _: tracking.campaign_record(0, created_at=clock.stamp()),
        _campaign,
        "POST",
    ),
    "contacts": Plain(CONTACT_FORM, _start_contact, _contact),
}
