"""Conversions of cells: zones, durations, NULs. Most are registered as SQLite functions."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from integration.core import clock
from integration.core.json_records import read_record, to_column_value


def register(connection: sqlite3.Connection, local_labels: Mapping[int, Sequence[str]]) -> None:
    """Register the functions, and `local_labels(leg_id)`, which returns a JSON list or NULL.

    The labels are in another database, so a statement of the mirror cannot join them.
    """
    connection.create_function("without_nul", 1, without_nul, deterministic=True)
    connection.create_function("in_zone", 2, in_zone, deterministic=True)
    connection.create_function("field_of", 2, field_of, deterministic=True)
    connection.create_function("with_offset", 2, with_offset, deterministic=True)
    texts = {leg_id: json.dumps(list(labels)) for leg_id, labels in local_labels.items()}
    connection.create_function("local_labels", 1, texts.get)


def field_of(record_text: str | None, path: str) -> Any:
    """Return the value at `path` ('$."name"') as the mirror stores it.

    Unlike json_extract it is exact for NULs and lone surrogates.
    """
    if record_text is None:
        return None
    return to_column_value(read_record(record_text).values.get(path[3:-1]))


def without_nul(value: Any) -> Any:
    return value.replace("\x00", "\ufffd") if isinstance(value, str) else value


def parse_utc(value: Any) -> datetime | None:
    """Parse a stored UTC time; None for any other value."""
    return clock.parse_utc(value) if isinstance(value, str) and len(value) > len("2026-07-01") else None


def in_zone(value: Any, zone: str) -> Any:
    """Convert a UTC time to `zone`. Other values are returned unchanged."""
    moment = clock.to_zone(parse_utc(value), _load_zone(zone))
    return value if moment is None else moment.replace(tzinfo=None).isoformat(" ")


def with_offset(value: Any, zone: str) -> Any:
    """Convert a UTC time to `zone`, with its offset: '2026-07-01 09:30:00+01:00'."""
    moment = clock.to_zone(parse_utc(value), _load_zone(zone))
    return value if moment is None else moment.isoformat(" ")


def format_duration(value: Any) -> Any:
    """Format seconds as h:mm:ss. Other values are returned unchanged."""
    if not isinstance(value, int) or value < 0:
        return value
    return f"{value // 3600}:{value // 60 % 60:02}:{value % 60:02}"


@lru_cache(maxsize=8)
def _load_zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)
