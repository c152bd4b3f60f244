"""Records of users, numbers and groups.

`*_record` functions build a record as its collection lists it, `*_item` functions the longer form of its own
path.
"""

from __future__ import annotations

from typing import Any

from integration.simulator.records.people import CUSTOMER_ID, Ddi, Group, Person
from integration.simulator.records.record_fields import ACCOUNT_CREATED_AT

Record = dict[str, Any]


def user_record(person: Person) -> Record:
    """Build a user as /users lists it.

    This is the specification's short form with observed fields.
    """
    return {
        "id": person.id,
        "ext": person.ext,
        "email": person.email,
        "first_name": person.first_name,
        "last_name": person.last_name,
        "active": True,
        "is_initial": person.is_root,
        "is_root": person.is_root,
        "roles": ["ROLE_ADMIN"] if person.is_root else ["ROLE_USER"],
        "two_factor_auth": "E" if person.has_two_factor else "D",
        "visited_apps": ["dashboard"] if person.is_root else [],
        "customer": CUSTOMER_ID,
        "dnd": False,
        "nb_sip_locations": 1 if person.is_online else 0,
        "cli": person.cli,
        "created_at": ACCOUNT_CREATED_AT,
    }


def user_item(person: Person, vm_new: int = 0, vm_old: int = 0) -> Record:
    """Build a user as /users/{id} returns it, the specification's full model."""
    list_record = user_record(person)
    del list_record["customer"]
    return {
        **list_record,
        "customer_id_id": CUSTOMER_ID,
        "mobile_activated": False,
        "mobile": None,
        "esc_cli": None,
        "cc": "44",
        "area_code": "20",
        "ring_time": str(person.ring_time),
        "final_dst_type": "V",
        "final_dst_id": person.id,
        "vm_pin": f"{person.id % 10000:04d}",
        "vm_to_email": True,
        "vm_emails": [person.email],
        "vm_tts": "N",
        "vm_new": vm_new,
        "vm_old": vm_old,
        "cw": True,
        "rec_allowed": True,
        "rec_never_internal": True,
        "fm": False,
        "fm_only_direct": False,
        "fm_init_ring_time": 10,
        "fm_announcement_enabled": False,
        "fm_confirm_required": False,
        "fm_allowed": True,
        "fm_targets": [],
        "fm_ring_time": "20",
        "fm_strategy": "A",
        "fm_final_dst_type": "V",
        "fm_final_dst_id": person.id,
        "fm_cli": "R",
        "nun": None,
        "nun_only_direct": False,
        "nun_ring_time": 20,
        "monitor": person.monitor,
        "monitor_transcript": "Y" if person.has_transcripts else "D",
        "auto_answer_header": "N",
        "log_missed_calls": person.log_missed_calls,
        "language": "en",
        "cnam": False,
        "email_missed": "N",
        "call_barge_allowed": person.is_root,
        "transfer_cli": "R",
        "pickup_group_id": person.pickup_groups[0] if person.pickup_groups else None,
        "location_id": None if person.location_id is None else str(person.location_id),
        "vm_announcement_id": person.vm_announcement_id,
        "fm_announcement_id": None,
        "legacy_api_key": None,
    }


def me_record(person: Person) -> Record:
    return {
        "id": person.id,
        "customer_id": CUSTOMER_ID,
        "email": person.email,
        "first_name": person.first_name,
        "last_name": person.last_name,
        "is_root": person.is_root,
        "language": "en",
        "currency_iso": "GBP",
        "balance": 48.2,
        "cc": "44",
        "cli": person.cli,
        "sip_password": f"invented-{person.ext}",
        "sip_domain": "switch.sip.example.net",
    }


def ddi_record(ddi: Ddi) -> Record:
    if isinstance(ddi.target, Group):
        target_type = "R" if ddi.target.kind == "ringgroup" else "Q"
    else:
        target_type = "U" if isinstance(ddi.target, Person) else ddi.target.kind
    return {
        "id": ddi.id,
        "e164": ddi.e164,
        "name": ddi.name,
        "info": "London, United Kingdom",
        "uri": None,
        "target_type": target_type,
        "target_id": ddi.target.id,
        "status": "A",
        "flag": "N",
        "channels": 10,
        "cli_prefix": 1,
        "cli_hide": False,
        "rate": 0.0,
        "sms_enabled": ddi.sms,
        "sms_email": None,
        "fax_enabled": ddi.fax,
        "fax_email": "fax@example.com" if ddi.fax else None,
        "has_fax_password": False,
        "esc_enabled": False,
        "tel_verified": True,
        "created_at": ACCOUNT_CREATED_AT,
    }


def group_record(group: Group) -> Record:
    """Build a ring group or queue as its collection lists it.

    Its members are only in the form of its own path and with `include`.
    """
    if group.kind == "ringgroup":
        return {
            "id": group.id,
            "name": group.name,
            "number": group.number,
            "strategy": group.strategy,
            "ring_time": group.ring_time,
            "cli_prefix": group.cli_prefix,
            "moh_id": 1,
            "final_dst_type": group.final_dst_type,
            "final_dst_id": group.members[0].id if group.final_dst_type == "V" else None,
        }
    return {
        "id": group.id,
        "name": group.name,
        "number": group.number,
        "ring_strategy": group.strategy,
        "ring_time": group.ring_time,
        "retry": 5,
        "wrap_up_time": 10,
        "wrap_up_panel": False,
        "wrap_up_panel_timeout": 30,
        "skip_busy": True,
        "max_callers": 20,
        "max_wait_time": 300,
        "join_empty": True,
        "moh": 1,
        "monitor": 0,
        "ivr": None,
        "post_call_ivr_id": 70002 if group.id == 80101 else None,
        "language": "en",
        "caller_sounds": None,
        "cli_prefix": group.cli_prefix,
        "wait_time_prefix": False,
        "pos_ann": True,
        "hold_ann": False,
        "ann_freq": 60,
        "hash_to_exit": False,
        "liaf": False,
        "email_missed": "N",
        "final_dst_type": group.final_dst_type,
        "final_dst_id": None,
    }
