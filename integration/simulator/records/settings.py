"""Settings of the account that do not affect simulated calls.

Conference rooms, pickup groups, IVRs, routing rules, groups of users and queues, roles, voicemail
announcements, call labels, canned responses. The specification shows no fields or bodies of call labels, and
fields of another resource for canned responses: `name`, `color`/`text`, `user_id` (null: shared by all users)
and `created_at` are invented.
"""

from __future__ import annotations

from typing import Any

from integration.simulator.records.account_state import AccountState
from integration.simulator.records.people import CUSTOMER_ID
from integration.simulator.records.record_fields import make_record
from integration.simulator.records.store import is_shared_or_owned, make_owner_test

Record = dict[str, Any]

ROLES = (
    ("ROLE_ADMIN", "Administrator", "pbx"),
    ("ROLE_USER", "User", "pbx"),
    ("ROLE_SUPERVISOR", "Supervisor", "callcentre"),
    ("ROLE_BILLING", "Billing", "account"),
    ("ROLE_REPORTS", "Reports", "reports"),
)


def add_collections(state: AccountState) -> None:
    """Add these collections with their seeded records."""
    people, groups = state.account.people, state.account.groups
    state.add_collection(
        "aclroles",
        records=[
            {"id": n, "_name": name, "name": title, "product_code": product}
            for n, (name, title, product) in enumerate(ROLES, 1)
        ],
    )
    state.add_collection("pickupgroups", records=_make_pickup_groups(state))
    state.add_collection(
        "conferences",
        records=[
            make_record(
                "conferences",
                id=72001,
                name="Monday round",
                confno=901,
                confno_pstn=72000901,
                pin="4711",
                pin_pstn="471100",
                monitor=True,
            ),
            make_record(
                "conferences",
                id=72002,
                name="Suppliers",
                confno=902,
                confno_pstn=72000902,
                pin="0815",
                pin_pstn="081500",
            ),
        ],
    )
    state.add_collection(
        "ivrs",
        records=[
            make_record(
                "ivrs",
                id=70001,
                name="Main menu",
                number=701,
                one=f"R:{groups[0].id}",
                two=f"R:{groups[1].id}",
                three=f"Q:{groups[3].id}",
                final_dst_type="R",
                final_dst_id=groups[0].id,
            ),
            make_record("ivrs", id=70002, name="How did we do?", number=702, sounds="survey", repeats=1),
        ],
    )
    rules = (
        ("I", "block", "447700900666", "", ""),
        ("I", f"R:{groups[1].id}", "", "442079460101", "1,2"),
        ("O", "block", str(people[5].id), "premium", ""),
    )
    state.add_collection(
        "routingrules",
        records=[
            {
                "id": 73000 + n,
                "customer": CUSTOMER_ID,
                "pos": n,
                "direction": direction,
                "action": action,
                "source": source,
                "destination": destination,
                "time_interval": interval,
                "final_dst": action != "block",
            }
            for n, (direction, action, source, destination, interval) in enumerate(rules, 1)
        ],
    )
    state.add_collection("queuegroups", records=[{"id": 74001, "name": "Front of house"}])
    groups_and_colors = (("Office", "#2f6fde"), ("Workshop", "#c2571a"), ("Field", "#2c8a4b"))
    state.add_collection(
        "usergroups",
        records=[
            {"id": 75000 + n, "name": name, "color": color}
            for n, (name, color) in enumerate(groups_and_colors, 1)
        ],
    )
    state.add_collection(
        "usergrouppolicies",
        records=[
            {"id": 76001, "name": "No international calls", "color": "#aa3333"},
            {"id": 76002, "name": "Recording on request", "color": "#777777"},
        ],
    )
    state.add_collection(
        "vmannouncements",
        read_test=make_owner_test("extension"),
        records=[
            make_record(
                "vmannouncements",
                id=77000 + n,
                extension=people[person_index].id,
                description=description,
            )
            for n, (person_index, description) in enumerate(
                ((0, "Out of the office"), (1, "Please leave a message"), (3, "Holiday in August")), 1
            )
        ],
    )
    _add_texts(state)


def _make_pickup_groups(state: AccountState) -> list[Record]:
    people = state.account.people
    records: list[Record] = []
    for n, (name, members) in enumerate((("Front desk", people[0:5]), ("Back office", people[5:9])), 71001):
        for person in members:
            person.pickup_groups = (n,)
        records.append({"id": n, "name": name, "users": len(members)})
    for n, person in enumerate(people):
        person.group_ids = [75001 + n // 5]
    return records


def _add_texts(state: AccountState) -> None:
    """Add call labels and canned responses, both shared and of single users."""
    people = state.account.people
    labels = (
        ("Order", "#2f6fde", None),
        ("Complaint", "#c0392b", None),
        ("Sales lead", "#27ae60", None),
        ("Ben: follow up", "#8e44ad", people[1].id),
        ("Dev: quote", "#16a085", people[3].id),
    )
    replies = (
        ("Opening hours", "We open at 8 and close at 6.", None),
        ("On our way", "We are on our way and will be with you within the hour.", None),
        ("Ready", "Your order is ready to collect from the front desk.", people[1].id),
        ("Sizes", "It comes in three sizes, see https://example.com/sizes", people[3].id),
    )
    for name, first_id, field, rows in (
        ("calllabels", 6001, "color", labels),
        ("sms/cannedresponses", 6501, "text", replies),
    ):
        state.add_collection(
            name,
            read_test=is_shared_or_owned,
            write_test=make_owner_test("user_id"),
            records=[
                make_record(name, **{"id": n, "name": title, field: value, "user_id": owner})
                for n, (title, value, owner) in enumerate(rows, first_id)
            ],
        )
