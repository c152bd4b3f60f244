"""Records of users: as listed, as of their own path, and as /me."""

from __future__ import annotations

from integration.simulator.records.people import CUSTOMER_ID, Person
from integration.simulator.records.record_fields import Record, copy_attributes, make_record


def user_record(person: Person) -> Record:
    """Build a user as /users lists it.

    This is the specification's short form with observed fields.
    """
    return make_record(
        "users",
        **copy_attributes(person, "id ext email first_name last_name is_root cli"),
        is_initial=person.is_root,
        roles=["ROLE_ADMIN"] if person.is_root else ["ROLE_USER"],
        two_factor_auth="E" if person.has_two_factor else "D",
        visited_apps=["dashboard"] if person.is_root else [],
        customer=CUSTOMER_ID,
        nb_sip_locations=int(person.is_online),
    )


def user_item(person: Person, record: Record, vm_new: int, vm_old: int) -> Record:
    """Build a user as /users/{id} returns it, the specification's full model.

    `record`: the user as listed.
    """
    full_record = make_record(
        "users",
        is_full=True,
        **copy_attributes(person, "monitor log_missed_calls pickup_group_id vm_announcement_id"),
        customer_id_id=CUSTOMER_ID,
        ring_time=str(person.ring_time),
        final_dst_id=person.id,
        fm_final_dst_id=person.id,
        vm_pin=f"{person.id % 10000:04d}",
        vm_emails=[person.email],
        vm_new=vm_new,
        vm_old=vm_old,
        monitor_transcript="Y" if person.has_transcripts else "D",
        call_barge_allowed=person.is_root,
        location_id=None if person.location_id is None else str(person.location_id),
    )
    item = full_record | record
    del item["customer"]
    return item


def me_record(person: Person) -> Record:
    return make_record(
        "me",
        **copy_attributes(person, "id email first_name last_name is_root cli"),
        customer_id=CUSTOMER_ID,
        currency_iso="GBP",
        balance=48.2,
        cc="44",
        sip_password=f"invented-{person.ext}",
        sip_domain="switch.sip.example.net",
    )
