"""Webhooks of the drift trial: changed and new fields, an unknown event."""

from __future__ import annotations

import json

import requests

from integration.catalogue import events
from integration.mirror.records import schema_drift
from tests.support.harness import ROOT
from tests.trials.sync.drift_checks import (
    NEW_FIELD,
    REMOVED,
    SHORT_KINDS,
    VALUES,
    Record,
    check_health,
    list_drift_entries,
)
from tests.trials.tools.local_product import LocalProduct
from tests.trials.trial import Trial

UNKNOWN_EVENT = "queue.wrapup_opened"


def check_events(product: LocalProduct, browser: requests.Session, trial: Trial) -> str:
    """Send changed webhooks; check that they are stored, applied and shown.

    Returns a summary.
    """
    samples = read_samples()
    bodies: list[tuple[bytes, str]] = []
    for name, sample in samples.items():
        for field in sample:
            for kind in VALUES if trial.options.all_kinds else SHORT_KINDS:
                drifted = {**sample, "id": f"drift.{len(bodies)}", field: VALUES[kind]}
                if VALUES[kind] is REMOVED:
                    del drifted[field]
                bodies.append((json.dumps(drifted).encode(), name))
        new = {**sample, "id": f"drift.{len(bodies)}", NEW_FIELD: VALUES["nested"]}
        bodies.append((json.dumps(new).encode(), name))
    bodies.append(
        (json.dumps({"id": "drift.x", "event_name": UNKNOWN_EVENT, "queue_id": 7}).encode(), UNKNOWN_EVENT)
    )
    session = requests.Session()
    for body, name in bodies:
        response = session.post(product.webhook_url, data=body, timeout=30)
        trial.verify(
            response.status_code == 200, f"{name} {body[:200]!r} is acknowledged, not {response.status_code}"
        )
    product.settle()
    with product.context.inbox.database.read() as connection:
        rows = connection.execute("SELECT body, status, event_name, error FROM inbox").fetchall()
    stored = {bytes(row["body"]) for row in rows}
    trial.verify({body for body, _ in bodies} <= stored, "every event is stored byte by byte")
    waiting = [row["event_name"] for row in rows if row["status"] == "new"]
    trial.verify(not waiting, f"every event is applied, not {waiting}")
    failed = {row["error"] for row in rows if row["status"] == "failed"}
    unexpected = [error for error in failed if "has no valid call_id" not in (error or "")]
    trial.verify(not unexpected, f"only events without a call fail, not {unexpected}")
    trial.verify(any(row["status"] == "unknown" for row in rows), "unknown events are counted")
    page = browser.get(f"{product.origin}/system").text
    trial.verify(UNKNOWN_EVENT in page, "System shows unknown events")
    names = {sample.partition(" ")[0] for sample in samples}
    recorded = {
        one[0].removeprefix(schema_drift.EVENT_PREFIX)
        for one in list_drift_entries(product)
        if one[1:3] == (NEW_FIELD, "field")
    }
    trial.verify(names <= recorded, f"new fields of events are recorded, except of {names - recorded}")
    trial.verify(f"{schema_drift.EVENT_PREFIX}call." in page, "System shows new fields of events")
    check_health(product, browser, "events", trial)
    return f"{len(bodies)} events, {sum(row['status'] == 'failed' for row in rows)} about no call"


def read_samples() -> dict[str, Record]:
    """Read the recorded webhooks, by event name and file name."""
    found: dict[str, Record] = {}
    for path in sorted((ROOT / "tests" / "fixtures" / "platform").glob("webhook-*.json")):
        payload = json.loads(path.read_text())
        sample = payload.get("body", payload)
        name = next((sample[one] for one in events.NAME_FIELDS if one in sample), None)
        if name is not None:
            found[f"{name} ({path.stem})"] = sample
    return found
