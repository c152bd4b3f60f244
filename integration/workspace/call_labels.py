"""Labels of calls: those of their CDRs, and local ones."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from integration.core.ids import id_list
from integration.mirror.page_queries import platform_labels
from integration.mirror.page_queries.call_view import CallView
from integration.mirror.page_queries.history import CallFilter
from integration.sqlite.readers import Readable
from integration.workspace import notes

SENT = "sent"
"""Result of a write that the platform accepted. The label appears on the CDR with its next sync."""


@dataclass(frozen=True, slots=True)
class CallLabel:
    """A label of a call, with its origins.

    `write_result`: SENT, or why the platform did not accept a local label; "" if none was sent. `colour`:
    that of the account's call label with this name, "" without one.
    """

    name: str
    is_local: bool = False
    is_on_platform: bool = False
    write_result: str = ""
    colour: str = ""

    @property
    def origin(self) -> str:
        """Origins in words."""
        if self.is_on_platform:
            return "phone system and here" if self.is_local else "phone system"
        if self.write_result == SENT:
            return "here, sent to the phone system"
        return f"only here ({self.write_result})" if self.write_result else "only here"


def load_by_call(
    mirror: sqlite3.Connection, app: sqlite3.Connection, call_ids_by_leg: Mapping[int, int]
) -> dict[int, list[CallLabel]]:
    """Return the labels of calls in alphabetical order, by call id.

    Calls without labels are omitted. `call_ids_by_leg`: call id by the id of each leg.
    """
    leg_ids = list(call_ids_by_leg)
    local_names: dict[int, dict[str, str]] = {}
    for row in notes.list_labels(app, leg_ids):
        local_names.setdefault(call_ids_by_leg[row["leg_id"]], {})[row["label"]] = row["write_result"]
    platform_names: dict[int, set[str]] = {}
    for leg_id, names in platform_labels.load_by_leg(mirror, leg_ids).items():
        platform_names.setdefault(call_ids_by_leg[leg_id], set()).update(names)
    colours = platform_labels.load_colours(mirror)
    return {
        call_id: [
            CallLabel(
                name,
                is_local=name in local_names.get(call_id, {}),
                is_on_platform=name in platform_names.get(call_id, ()),
                write_result=local_names.get(call_id, {}).get(name, ""),
                colour=colours.get(name, ""),
            )
            for name in sorted({*local_names.get(call_id, ()), *platform_names.get(call_id, ())})
        ]
        for call_id in {*local_names, *platform_names}
    }


def load_for_call(
    mirror: sqlite3.Connection, app: sqlite3.Connection, call_id: int, leg_ids: Sequence[int]
) -> list[CallLabel]:
    """Return the labels of one call in alphabetical order."""
    return load_by_call(mirror, app, dict.fromkeys([call_id, *leg_ids], call_id)).get(call_id, [])


def list_used(mirror: sqlite3.Connection, app: sqlite3.Connection) -> list[CallLabel]:
    """Return the labels on calls in alphabetical order."""
    local_names = {row["label"] for row in notes.list_label_usage(app)}
    platform_names = set(platform_labels.list_names(mirror))
    return [
        CallLabel(name, is_local=name in local_names, is_on_platform=name in platform_names)
        for name in sorted(local_names | platform_names, key=str.casefold)
    ]


def list_known_names(mirror: sqlite3.Connection, app: sqlite3.Connection) -> list[str]:
    """Return the names of call labels and of labels on calls.

    They are in alphabetical order.
    """
    used_names = {label.name for label in list_used(mirror, app)}
    return sorted(used_names | platform_labels.load_colours(mirror).keys(), key=str.casefold)


def list_offered(
    mirror: sqlite3.Connection, labels: Sequence[CallLabel], outcomes: Sequence[str] = ()
) -> list[CallLabel]:
    """Return the labels that one click adds to a call.

    These are `outcomes` (setting `calls.outcomes`) and the account's call labels, without those of the call.
    """
    names = {label.name for label in labels}
    colours = platform_labels.load_colours(mirror)
    offered = dict.fromkeys((*outcomes, *colours))
    return [CallLabel(name, colour=colours.get(name, "")) for name in offered if name not in names]


def add_noted_legs(view: CallView, app_db: Readable, mirror_db: Readable) -> CallFilter:
    """Return the filter of a view with the legs that have its label, or notes and labels with its search.

    Local labels and notes are in the application database, so the query of the mirror cannot join them.
    """
    call_filter, label = view.call_filter, view.args.get("label")
    if label is None and call_filter.search_terms is None:
        return call_filter
    with app_db.read() as app, mirror_db.read() as mirror:
        if label is not None:
            leg_ids = {*notes.find_legs_with_label(app, label), *platform_labels.find_legs(mirror, label)}
            call_filter = replace(call_filter, labelled_leg_ids=id_list(leg_ids))
        if call_filter.search_terms is not None:
            query = view.args["q"]
            leg_ids = {*notes.search_legs(app, query), *platform_labels.search_legs(mirror, query)}
            if leg_ids:
                call_filter = replace(call_filter, noted_leg_ids=id_list(leg_ids))
    return call_filter


def list_outcomes(mirror: sqlite3.Connection, outcomes: Sequence[str]) -> list[CallLabel]:
    """Return the labels that Live offers after a call."""
    colours = platform_labels.load_colours(mirror)
    return [CallLabel(name, colour=colours.get(name, "")) for name in dict.fromkeys(outcomes or colours)]
