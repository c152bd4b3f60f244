"""Filters of CDRs whose matches are counted by month (mirror/records/month_counts.py).

These are filters by user, direction, disposition and time, the most frequent ones of the platform's clients.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from integration.mirror.query.filter_sql import SqlBuilder
from integration.mirror.query.filters import AnyOf, Condition
from integration.mirror.records import month_counts
from integration.mirror.records.month_counts import COUNTED_FIELDS, MONTH_LENGTH, MonthCounts

_FIRST, _LAST = "", "\U0010ffff"
"""Limits below and above every month."""

_SORT_COST = 0.3
"""Cost of sorting a match of an index, relative to reading a record in the order of keys."""


@dataclass(frozen=True, slots=True)
class CountedFilter:
    """A filter with the counts of its months.

    `limits`: months of the time limits. `where`: SQL of the entire filter.
    """

    connection: sqlite3.Connection
    builder: SqlBuilder
    limits: tuple[str, str]
    counts: MonthCounts
    where: str

    def count_matches(self) -> int:
        """Return the exact number of matches.

        Only the CDRs of the two months at the limits of the time range are read.
        """
        total = self.counts.inner_matches
        # Of two lower limits SQLite would search by the first one. With the plus it searches by the month.
        where = self.where.replace('"calldate"', '+"calldate"')
        for month in set(self.limits) - {_FIRST, _LAST}:
            begin, end = self.builder.bind(month), self.builder.bind(month[:-1] + chr(ord(month[-1]) + 1))
            sql = f"SELECT count(*) FROM cdrs WHERE {where} AND calldate >= {begin} AND calldate < {end}"
            total += int(self.connection.execute(sql, self.builder.values).fetchone()[0])
        return total

    def find_dense_ids(self, end: int) -> tuple[int, int] | None:
        """Return the lowest and highest possible id of the matches.

        None if an index and a sort find the matches faster than reading records in the order of keys. `end`:
        number of the last match to read.
        """
        total = self.count_matches()
        if total == 0 or end * self.counts.records / total >= total * _SORT_COST:
            return None
        return self.counts.lowest_id, self.counts.highest_id


def read_filter(
    connection: sqlite3.Connection,
    builder: SqlBuilder,
    conditions: Sequence[Condition | AnyOf],
    where: str,
    *,
    include_missing: bool,
) -> CountedFilter | None:
    """Return a filter with its counts.

    `where` is SQL of the filter. Returns None if its matches are not counted by month, or if the month of a
    CDR is unknown. Raises QueryError.
    """
    if builder.resource.table != "cdrs" or not conditions:
        return None
    counted, has_user, first_month, last_month = ["1"], False, _FIRST, _LAST
    for condition in conditions:
        if not isinstance(condition, Condition) or condition.value is None:
            return None
        if condition.property in COUNTED_FIELDS and condition.operator in ("eq", "in"):
            counted.append(builder.build_condition(condition))
            has_user = has_user or condition.property == "user_id"
        elif condition.property == "calldate" and condition.operator in ("gt", "gte"):
            first_month = max(first_month, condition.value[:MONTH_LENGTH])
        elif condition.property == "calldate" and condition.operator in ("lt", "lte"):
            last_month = min(last_month, condition.value[:MONTH_LENGTH])
        else:
            return None
    if month_counts.has_undated(connection):
        return None
    counts = month_counts.read_counts(
        connection,
        (first_month, last_month),
        " AND ".join(counted),
        builder.values,
        by_user=has_user,
        include_missing=include_missing,
    )
    return CountedFilter(connection, builder, (first_month, last_month), counts, where)
