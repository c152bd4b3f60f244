"""Parquet read back by pyarrow and DuckDB.

Types, values of a wrong type, and one file per month.
"""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from integration.core.errors import QueryError
from integration.exports.formats import parquet
from integration.exports.selection import select
from tests.exports.test_presets import exporting
from tests.support.application import running_app
from tests.support.payloads.collection_table import collection_at
from tests.support.payloads.query_reference import CALLS

# In the extra `parquet`, which the suite does not install.
pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.exhaustive


def read_back(tmp_path: Path, records: list[dict[str, Any]], args: dict[str, str]) -> Any:
    table = collection_at(":memory:", CALLS, records)
    out = tmp_path / "calls.parquet"
    out.write_bytes(b"".join(parquet.stream(lambda: nullcontext(table), select(CALLS, args))))
    return pyarrow.parquet.read_table(out)


def test_schema_does_not_depend_on_the_records(tmp_path: Path) -> None:
    record = {"id": 1, "duration": 7, "calldate": "2026-07-01 09:15:30", "src": "+442079460001", "charge": 1}
    full = read_back(tmp_path, [record], {})
    empty = read_back(tmp_path, [], {})
    assert full.schema == empty.schema
    (row,) = full.to_pylist()
    assert row["calldate"] == datetime(2026, 7, 1, 9, 15, 30, tzinfo=UTC)
    assert (row["src"], row["duration"], row["charge"]) == ("+442079460001", 7, 1.0)


def test_values_of_a_wrong_type_are_kept_in_the_column_unfit(tmp_path: Path) -> None:
    records = [{"id": 1, "duration": "soon", "calldate": "0000-00-00 00:00:00", "src": 5}, {"id": 2}]
    first, second = read_back(tmp_path, records, {"columns": "id,duration,calldate,src"}).to_pylist()
    assert first["_unfit"] == '{"duration":"soon","calldate":"0000-00-00 00:00:00"}'
    assert (first["duration"], first["calldate"], first["src"]) == (None, None, "5")
    assert second["_unfit"] is None


def test_calls_are_downloaded_over_http(tmp_path: Path) -> None:
    with running_app(tmp_path / "data") as app:
        app.call(1, "2026-07-01 09:15:30", talk_seconds=61)
        response = exporting(app).get("/exports/call-history.parquet")
    (tmp_path / "calls.parquet").write_bytes(response.data)
    (row,) = pyarrow.parquet.read_table(tmp_path / "calls.parquet").to_pylist()
    assert row["started_local"] == "2026-07-01 10:15:30+01:00"
    assert (row["talk_seconds"], row["party_e164"]) == (61, "+447700900101")


def test_missing_pyarrow_is_reported_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    table = collection_at(":memory:", CALLS, [])
    with pytest.raises(QueryError, match="pip install pyarrow"):
        parquet.stream(lambda: nullcontext(table), select(CALLS, {}))
