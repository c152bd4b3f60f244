"""Call tracking: campaigns, their numbers, and inbound calls to these numbers.

The specification's examples show other resources, so that all fields except `e164` and `campaign_id` are
invented. A real client reads the `calldate` of a campaign, the time of its last call
(docs/platform.md#16-clients).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from integration.simulator.records.account_state import AccountState
from integration.simulator.records.record_fields import make_record
from integration.simulator.records.store import make_owner_test

Record = dict[str, Any]

_SOURCES = (("search", "organic"), ("search", "cpc"), ("newsletter", "email"), ("leaflet", "print"))


def add_collections(state: AccountState) -> None:
    ddis = state.account.ddis
    state.add_collection(
        "calltracking/campaigns",
        derive=lambda: _iterate_campaigns(state),
        records=[
            make_record(
                "calltracking/campaigns",
                id=81001,
                name="Website",
                url="https://example.com/",
                call_me_back_setting_id=1501,
                rules=[{"source": "search", "ddi": ddis[0].e164}],
            ),
            make_record(
                "calltracking/campaigns",
                id=81002,
                name="Autumn leaflet",
                url="https://example.com/autumn",
            ),
        ],
    )
    state.add_collection(
        "calltracking/ddis",
        records=[
            {
                "id": 82000 + n,
                "e164": ddis[ddi_index].e164,
                "campaign_id": campaign,
                "name": ddis[ddi_index].name,
            }
            for n, (ddi_index, campaign) in enumerate(((0, 81001), (5, 81001), (1, 81002)), 1)
        ],
    )
    ddi_fields = state.collections["ddis"].fields
    state.add_collection(
        "ddis/calltracking", fields=(*ddi_fields, "campaign_id"), derive=lambda: _iterate_ddis(state)
    )
    state.add_collection(
        "cdrs/calltracking",
        fields=(*state.collections["cdrs"].fields, "campaign_id", "campaign"),
        read_test=make_owner_test("user_id"),
        derive=lambda: _iterate_cdrs(state),
    )
    state.add_collection(
        "calltracking/cdrs",
        read_test=make_owner_test("user_id"),
        derive=lambda: (_make_tracked_cdr(cdr, campaign) for cdr, campaign in _iterate_tracked_calls(state)),
    )


def _campaigns_by_number(state: AccountState) -> dict[str, Record]:
    campaigns = state.collections["calltracking/campaigns"].records
    return {
        ddi["e164"]: campaigns[ddi["campaign_id"]]
        for ddi in state.collections["calltracking/ddis"].records.values()
        if ddi["campaign_id"] in campaigns
    }


def _iterate_tracked_calls(state: AccountState) -> Iterator[tuple[Record, Record]]:
    """Yield first CDRs of inbound calls to tracked numbers, with campaigns."""
    campaign_by_number = _campaigns_by_number(state)
    for cdr in state.collections["cdrs"].records.values():
        if cdr["is_root"] and cdr["destination"] == "in" and cdr["dst"] in campaign_by_number:
            yield cdr, campaign_by_number[cdr["dst"]]


def _iterate_cdrs(state: AccountState) -> Iterator[Record]:
    for cdr, campaign in _iterate_tracked_calls(state):
        yield {**cdr, "campaign_id": campaign["id"], "campaign": campaign["name"]}


def _make_tracked_cdr(cdr: Record, campaign: Record) -> Record:
    source, medium = _SOURCES[cdr["id"] % len(_SOURCES)]
    return {
        "id": cdr["id"],
        "cdr_id": cdr["id"],
        "live_id": cdr["live_id"],
        "user_id": cdr["user_id"],
        "campaign_id": campaign["id"],
        "calldate": cdr["calldate"],
        "from": cdr["src"],
        "to": cdr["dst"],
        "duration": cdr["duration"],
        "billsec": cdr["billsec"],
        "source": source,
        "medium": medium,
        "landing_page": "https://example.com/",
    }


def _iterate_ddis(state: AccountState) -> Iterator[Record]:
    ddis = state.collections["ddis"].records
    for number, campaign in _campaigns_by_number(state).items():
        yield {**ddis[number], "campaign_id": campaign["id"]}


def _iterate_campaigns(state: AccountState) -> Iterator[Record]:
    last_call_dates: dict[int, str] = {}
    for cdr, campaign in _iterate_tracked_calls(state):
        last_call_dates[campaign["id"]] = max(cdr["calldate"], last_call_dates.get(campaign["id"], ""))
    for record in state.collections["calltracking/campaigns"].records.values():
        yield {**record, "calldate": last_call_dates.get(record["id"])}
