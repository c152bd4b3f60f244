"""Labels of one call: change them here, then on the platform."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flask import request

from integration.access import audit
from integration.context import AppContext, app_context
from integration.core.errors import PlatformError
from integration.core.json_records import read_page
from integration.dashboard.site import form_responses
from integration.dashboard.site.guard import current_person
from integration.mirror.page_queries import call_detail, phones, platform_labels
from integration.platform_api.budget import INTERACTIVE
from integration.sqlite.transaction import Transaction
from integration.sync.writing.write_through import WriteResult
from integration.workspace import call_labels, notes

log = logging.getLogger(__name__)

REFUSED = "refused by the phone system"
UNREACHABLE = "phone system unreachable"
NO_CDR = "the phone system has no record of the call yet"


def add_label(call_id: int, label: str) -> str:
    """Add a label to a call, here and on the platform.

    Returns the message for the dashboard user. A label that the platform does not accept stays here, with
    the reason. Raises ValueError for an empty or too long label.
    """
    context, label, email = app_context(), notes.normalize_label(label), current_person().email
    leg_ids = list_leg_ids(context, call_id)
    write_audited("label", f"call {call_id}", lambda tx: notes.add_label(tx, call_id, email, label))
    result, write_result = _send(context, call_id, leg_ids, label, is_added=True)
    context.app_db.write(lambda tx: notes.set_write_result(tx, leg_ids, label, write_result))
    if result is not None and not result.is_done:
        return f"Label added here only. {result.message}"
    return f"Label added here only: {write_result}." if result is None and write_result else "Label added."


def remove_label(call_id: int, label: str) -> str:
    """Remove a label from a call, here and on the platform.

    Returns the message for the dashboard user.
    """
    context = app_context()
    leg_ids = list_leg_ids(context, call_id)
    write_audited("label removed", f"call {call_id}", lambda tx: notes.remove_label(tx, leg_ids, label))
    result, _ = _send(context, call_id, leg_ids, label, is_added=False)
    if result is not None and not result.is_done:
        return f"Label removed here, not on the phone system. {result.message}"
    return "Label removed."


def write_audited(action: str, about: str, change: Callable[[Transaction], object]) -> None:
    """Apply a change of the current user to the application database, with its entry in the audit log."""
    email, address = current_person().email, request.remote_addr or ""

    def work(tx: Transaction) -> None:
        change(tx)
        audit.record(tx, email, action, about, address=address)

    app_context().app_db.write(work)


def list_leg_ids(context: AppContext, call_id: int) -> list[int]:
    """Return the ids of a call and of its legs."""
    with context.mirror_db.read() as connection:
        legs = [leg["leg_id"] for leg in call_detail.list_legs(connection, call_id)]
    return [call_id, *(leg for leg in legs if leg != call_id)]


def _send(
    context: AppContext, call_id: int, leg_ids: Sequence[int], label: str, *, is_added: bool
) -> tuple[WriteResult | None, str]:
    """Send a changed label to the platform.

    Returns the result, None if no request was needed or possible, and the result in words or "".
    """
    with context.mirror_db.read() as connection:
        live_legs = phones.list_live_legs(connection, call_id)
        names_by_id = platform_labels.load_names_by_id(connection)
        entries_by_cdr = platform_labels.load_entries(connection, leg_ids)
        live_entries = platform_labels.load_live_entries(connection, live_legs[0].id) if live_legs else []
    if live_legs:
        # The platform copies the labels of a live call to its CDR.
        with context.app_db.read() as connection:
            local_labels = [row["label"] for row in notes.list_labels(connection, leg_ids)]
        entries = _without(live_entries, {label, *local_labels}, names_by_id) + sorted(set(local_labels))
        result = form_responses.send_write("PATCH", f"/calls/{live_legs[0].id}", {"labels": entries})
        return result, _describe_result(result)
    if not entries_by_cdr:
        return None, NO_CDR if is_added else ""
    entries_by_cdr = _read_current_entries(context, entries_by_cdr)
    labelled = [
        cdr_id for cdr_id, entries in entries_by_cdr.items() if _has_label(entries, label, names_by_id)
    ]
    if is_added:
        main_cdr = next(iter(entries_by_cdr))
        changes = [] if labelled else [{"id": main_cdr, "labels": [*entries_by_cdr[main_cdr], label]}]
    else:
        changes = [
            {"id": cdr_id, "labels": _without(entries_by_cdr[cdr_id], {label}, names_by_id)}
            for cdr_id in labelled
        ]
    if not changes:
        return None, ""
    result = form_responses.send_write("PATCH", "/cdrs", changes)
    return result, _describe_result(result)


def _read_current_entries(
    context: AppContext, entries_by_cdr: Mapping[int, list[Any]]
) -> dict[int, list[Any]]:
    """Return the labels that these CDRs have on the platform.

    They are the mirrored ones if the platform does not respond. `PATCH` replaces all labels of a CDR, and
    the mirror can be a day older than labels of old calls.
    """
    condition = [{"property": "id", "operator": "in", "value": list(entries_by_cdr)}]
    current = dict(entries_by_cdr)
    try:
        response = context.platform.get(
            "/cdrs", {"filter": json.dumps(condition), "limit": len(current)}, priority=INTERACTIVE
        )
        for record in read_page(response.body).records:
            if record.values.get("id") in current:
                current[record.values["id"]] = platform_labels.parse_entries(record.values.get("labels"))
    except PlatformError as error:
        log.warning("cannot read the labels of CDRs %s before a change: %s", list(current), error)
    return current


def _has_label(entries: Sequence[Any], label: str, names_by_id: Mapping[int, str]) -> bool:
    return any(platform_labels.name_entry(entry, names_by_id) == label for entry in entries)


def _without(entries: Sequence[Any], labels: set[str], names_by_id: Mapping[int, str]) -> list[Any]:
    return [entry for entry in entries if platform_labels.name_entry(entry, names_by_id) not in labels]


def _describe_result(result: WriteResult) -> str:
    if result.is_done:
        return call_labels.SENT
    return UNREACHABLE if result.status is None or result.status >= 500 else REFUSED
