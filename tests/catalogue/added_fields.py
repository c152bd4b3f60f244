"""Program of test_field_meanings: report the treatment of added CDR fields as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from integration.catalogue import COLLECTIONS, field_labels, get_resource
from integration.core.json_records import JsonRecord
from integration.dashboard.account.values import ReferenceNames, ValueFormatter
from integration.exports.columns import derive_columns
from integration.mirror.privacy.erasure_gate import ErasureGate
from integration.mirror.records import masking, schema_drift
from integration.mirror.records.upsert import upsert
from integration.sync.writing import write_log
from tests.support.application import running_app

ERASED_NUMBER = "442079460001"
VALUES = {
    "second_number": "442079460002",
    "private_number": "442079460002",
    "desk": "101",
    "displayed": '"Ann" <442079460002>',
    "queue_time": 75,
    "hold_limit": 30,
    "capacity": 2_000_000,
    "noticed": 1_790_000_000,
    "surcharge": 0.5,
    "mood": "BAD",
    "reason": "busy",
    "tone": "sharp",
    "doorcode": "4711",
    "remark": "called back",
}
BARE_VALUES = {f"bare_{name}": value for name, value in VALUES.items()}
CDRS = get_resource("cdrs")
AT = "2026-11-02 09:15:00"


def make_record(**values):
    record = {"id": 1, "calldate": AT, "src": ERASED_NUMBER, **values}
    return JsonRecord(json.dumps(record), record)


def strip(**values):
    gate = ErasureGate(b"key" * 11)
    gate.add("2026-12-01 00:00:00", [gate.digest(ERASED_NUMBER)], [len(ERASED_NUMBER)], ())
    stripped = gate.filter_record(CDRS, make_record(**values))
    assert stripped is not None
    assert stripped.values["src"] == "erased"
    return stripped.values


def list_changed(text, sent):
    values = json.loads(text)
    return sorted(name for name in sent if values[name] != sent[name])


def main():
    with running_app(Path(sys.argv[1]), dashboard__timezone="UTC") as app:
        record = make_record(**VALUES, **BARE_VALUES)
        app.mirror_db.write(lambda tx: upsert(tx, CDRS, [record], source="sync", requested_at=AT))
        result = {"with meanings": report(app, VALUES), "without meanings": report(app, BARE_VALUES)}
    print(json.dumps(result))


def report(app, sent):
    with app.mirror_db.read() as connection, app.product.site.app_context():
        drift = [
            [found.field, found.kind, found.value]
            for found in schema_drift.list_drift(connection)
            if found.field in sent
        ]
        rows = connection.execute("SELECT field, what, value FROM _drift ORDER BY field")
        watched = [list(row) for row in rows if row["field"] in sent]
        formatter = ValueFormatter(CDRS, ReferenceNames(connection, COLLECTIONS))
        shown = {name: formatter.format_value(name, sent) for name in sent}
    columns = derive_columns(CDRS, {})
    stripped = strip(**sent)
    matching = strip(**{name: ERASED_NUMBER for name, value in sent.items() if isinstance(value, str)})
    body = json.dumps(sent).encode()
    return {
        "labels": {name: field_labels.label_field(name) for name in sent},
        "shown": {name: (value.kind, value.text) for name, value in shown.items()},
        "masked": list_changed(masking.mask_json(body), sent),
        "hidden": sorted(masking.list_hidden_fields(CDRS) & set(sent)),
        "redacted": list_changed(write_log.redact_body(body), sent),
        "stripped": {name: stripped[name] for name in sent},
        "erased": sorted(name for name in sent if matching.get(name) == "erased"),
        "drift": drift,
        "watched": watched,
        "columns": sorted(columns),
        "currency": columns["currency"].sql,
    }


if __name__ == "__main__":
    main()
