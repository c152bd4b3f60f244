"""Collections that are views of CDRs, SMS and numbers.

- `conversations`: calls and SMS. The specification lacks it, but a real client reads it
  (docs/platform.md#7-resources).
- `calltracking/…`, `…/calltracking`: numbers of campaigns and inbound calls to them. The specification's
  examples show other resources. A real client reads the `calldate` of a campaign, the time of its last call
  (docs/platform.md#16-clients).
- `callmeback/cdrs`: calls of the widget, CDRs with the destination `callmeback`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from integration.simulator.records.account_state import AccountState
from integration.simulator.records.record_fields import Record, list_fields

_SOURCES = (("search", "organic"), ("search", "cpc"), ("newsletter", "email"), ("leaflet", "print"))


def add_views(state: AccountState) -> None:
    for name, derive, added_fields in (
        ("conversations", _iterate_conversations, ()),
        ("calltracking/campaigns", _iterate_campaigns, ()),
        ("ddis/calltracking", _iterate_ddis, (*list_fields("ddis"), "campaign_id")),
        ("cdrs/calltracking", _iterate_cdrs, (*list_fields("cdrs"), "campaign_id", "campaign")),
        ("calltracking/cdrs", _iterate_tracked_cdrs, ()),
        ("callmeback/cdrs", _iterate_widget_cdrs, ()),
    ):
        collection = state.collections[name]
        collection.derive = partial(derive, state)
        collection.fields = added_fields or collection.fields


def _make_row(name: str, record: Record, **values: Any) -> Record:
    """Select the fields of collection `name` from `values` and `record`."""
    return {field: values[field] if field in values else record[field] for field in list_fields(name)}


def _iterate_conversations(state: AccountState) -> Iterator[Record]:
    for sms in state.collections["sms"].records.values():
        yield _make_row("conversations", sms, channel="sms", src=sms["from"], dst=sms["to"], duration=0)
    for cdr in state.collections["cdrs"].records.values():
        if cdr["is_root"]:
            yield _make_row("conversations", cdr, channel="call", created_at=cdr["calldate"])


def _find_campaigns(state: AccountState) -> dict[str, Record]:
    """Return campaigns by number."""
    campaigns = state.collections["calltracking/campaigns"].records
    return {
        ddi["e164"]: campaigns[ddi["campaign_id"]]
        for ddi in state.collections["calltracking/ddis"].records.values()
        if ddi["campaign_id"] in campaigns
    }


def _iterate_tracked_calls(state: AccountState) -> Iterator[tuple[Record, Record]]:
    """Yield first CDRs of inbound calls to tracked numbers, with campaigns."""
    campaign_by_number = _find_campaigns(state)
    for cdr in state.collections["cdrs"].records.values():
        if cdr["is_root"] and cdr["destination"] == "in" and cdr["dst"] in campaign_by_number:
            yield cdr, campaign_by_number[cdr["dst"]]


def _iterate_cdrs(state: AccountState) -> Iterator[Record]:
    for cdr, campaign in _iterate_tracked_calls(state):
        yield {**cdr, "campaign_id": campaign["id"], "campaign": campaign["name"]}


def _iterate_tracked_cdrs(state: AccountState) -> Iterator[Record]:
    for cdr, campaign in _iterate_tracked_calls(state):
        source, medium = _SOURCES[cdr["id"] % len(_SOURCES)]
        origin = {"source": source, "medium": medium, "landing_page": "https://example.com/"}
        yield _make_row("calltracking/cdrs", cdr, campaign_id=campaign["id"], **_name_ends(cdr), **origin)


def _iterate_widget_cdrs(state: AccountState) -> Iterator[Record]:
    (website,) = state.collections["callmeback/websites"].records.values()
    ids = {"website_id": website["id"], "setting_id": website["setting_id"]}
    for cdr in state.collections["cdrs"].records.values():
        if cdr["destination"] == "callmeback" and not cdr["is_root"]:
            yield _make_row("callmeback/cdrs", cdr, **ids, **_name_ends(cdr))


def _name_ends(cdr: Record) -> Record:
    return {"cdr_id": cdr["id"], "from": cdr["src"], "to": cdr["dst"]}


def _iterate_ddis(state: AccountState) -> Iterator[Record]:
    ddis = state.collections["ddis"].records
    for number, campaign in _find_campaigns(state).items():
        yield {**ddis[number], "campaign_id": campaign["id"]}


def _iterate_campaigns(state: AccountState) -> Iterator[Record]:
    last_call_dates: dict[int, str] = {}
    for cdr, campaign in _iterate_tracked_calls(state):
        last_call_dates[campaign["id"]] = max(cdr["calldate"], last_call_dates.get(campaign["id"], ""))
    for record in state.collections["calltracking/campaigns"].records.values():
        yield {**record, "calldate": last_call_dates.get(record["id"])}
