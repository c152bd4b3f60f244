"""Alert rules (condition, targets, times) and their current alerts.

`conditions.py` implements the conditions; `notification_log.py` stores the notifications.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from integration.core import clock
from integration.core.errors import DomainError
from integration.outbound.urls import shorten_url
from integration.sqlite.database import Database
from integration.sqlite.schema import Schema, read_columns
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS alert_rules (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    condition TEXT NOT NULL,
    threshold INTEGER NOT NULL,
    notice INTEGER NOT NULL CHECK (notice IN (0, 1)),
    emails TEXT NOT NULL,
    url TEXT NOT NULL,
    secret TEXT NOT NULL,
    days TEXT NOT NULL,
    begins TEXT NOT NULL,
    ends TEXT NOT NULL,
    quiet_from TEXT NOT NULL,
    quiet_to TEXT NOT NULL,
    cooldown INTEGER NOT NULL,
    paused_at TEXT,
    created_at TEXT NOT NULL,
    minutes INTEGER NOT NULL DEFAULT 0,
    calls INTEGER NOT NULL DEFAULT 0,
    queue_id INTEGER,
    only_open INTEGER NOT NULL DEFAULT 0
) STRICT;

-- current alerts; `told_at` NULL: no notification yet (quiet hours, cool-down)
CREATE TABLE IF NOT EXISTS alert_findings (
    rule_id INTEGER NOT NULL,
    key TEXT NOT NULL,
    text TEXT NOT NULL,
    href TEXT NOT NULL,
    began_at TEXT NOT NULL,
    told_at TEXT,
    PRIMARY KEY (rule_id, key)
) STRICT, WITHOUT ROWID;
"""


def add_sentence_columns(schema: Schema) -> None:
    """Migration: add the further numbers and the queue of a rule."""
    if "minutes" not in read_columns(schema).get("alert_rules", {"minutes"}):
        for column in (
            "minutes INTEGER NOT NULL DEFAULT 0",
            "calls INTEGER NOT NULL DEFAULT 0",
            "queue_id INTEGER",
        ):
            schema.execute(f"ALTER TABLE alert_rules ADD COLUMN {column}")


def add_only_open_column(schema: Schema) -> None:
    """Migration: add the limit of a rule to opening hours."""
    if "only_open" not in read_columns(schema).get("alert_rules", {"only_open"}):
        schema.execute("ALTER TABLE alert_rules ADD COLUMN only_open INTEGER NOT NULL DEFAULT 0")


MAX_RULES = 100
"""Largest number of rules of an installation."""
MAX_NAME_LENGTH = 60
EVERY_DAY = "0123456"
"""Value of `Rule.days` for all days; 0 is Monday."""
_TIME_PATTERN = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")


@dataclass(frozen=True, slots=True)
class Rule:
    """An alert rule. `threshold` is in the unit of its `condition`.

    Some conditions have further numbers: the last `minutes`, and the smallest number of `calls`. `queue_id`
    limits others to one queue; None is every queue.
    The rule is active on `days` (digits, 0 is Monday) from `begins` to `ends`. From `quiet_from` to
    `quiet_to` it sends no e-mail and no HTTP request. Times are 'HH:MM' in the display zone, '' for none; a
    range whose end is not after its start ends on the next day. `cooldown` is the smallest number of minutes
    between two notifications. `emails` are separated by blanks; `secret` is the Authorization header for
    `url`, or ''.

    With `only_open` it includes calls and messages that arrived during opening hours, and is otherwise active
    only during those of all lines.

    Rules with a negative id come from the configuration and notify `alerts.urls`.
    """

    id: int
    name: str
    condition: str
    threshold: int
    notice: bool = False
    emails: str = ""
    url: str = ""
    secret: str = ""
    days: str = EVERY_DAY
    begins: str = ""
    ends: str = ""
    quiet_from: str = ""
    quiet_to: str = ""
    cooldown: int = 0
    paused_at: str | None = None
    created_at: str = ""
    minutes: int = 0
    calls: int = 0
    queue_id: int | None = None
    only_open: bool = False

    def is_active(self, now: datetime) -> bool:
        """Return whether `now` is within the rule's days and hours.

        `now`: in the display zone.
        """
        # After midnight the day is that on which the hours began.
        began_at = self.find_active_since(now) or now
        return str(began_at.weekday()) in self.days and (
            not self.begins or is_within_hours(now, self.begins, self.ends)
        )

    def find_quiet_end(self, now: datetime) -> datetime | None:
        """Return the end of the quiet hours that contain `now`.

        Returns None outside quiet hours.
        """
        if not self.quiet_from or not is_within_hours(now, self.quiet_from, self.quiet_to):
            return None
        end = _set_time(now, self.quiet_to)
        return end if end > now else end + timedelta(days=1)

    def find_active_since(self, now: datetime) -> datetime | None:
        """Return the start of the hours that contain `now`.

        Returns None for a rule that is active all day.
        """
        if not self.begins:
            return None
        begin = _set_time(now, self.begins)
        return begin if begin <= now else begin - timedelta(days=1)

    @property
    def display_url(self) -> str:
        """`url` for pages and logs."""
        return shorten_url(self.url)


@dataclass(frozen=True, slots=True)
class Finding:
    """An alert: a current match of a rule. Times are UTC text.

    `key` identifies the alert within its rule, `text` describes it in one line, `href` is the path of its
    page. `notified_at` is None before the first notification.
    """

    rule_id: int
    key: str
    text: str
    href: str
    began_at: str
    notified_at: str | None = None


def _set_time(now: datetime, time: str) -> datetime:
    return now.replace(hour=int(time[:2]), minute=int(time[3:]), second=0, microsecond=0)


def is_within_hours(now: datetime, begins: str, ends: str) -> bool:
    time_text = f"{now:%H:%M}"
    return begins <= time_text < ends if begins < ends else time_text >= begins or time_text < ends


# --- rules -----------------------------------------------------------------------------------------------

_COLUMNS = tuple(name for name in Rule.__dataclass_fields__ if name != "id")


def list_all(connection: sqlite3.Connection) -> list[Rule]:
    """Return all rules, sorted by name."""
    return [
        _from_row(row)
        for row in connection.execute("SELECT * FROM alert_rules ORDER BY name COLLATE NOCASE, id")
    ]


def find(connection: sqlite3.Connection, rule_id: int) -> Rule | None:
    row = connection.execute("SELECT * FROM alert_rules WHERE id = ?", (rule_id,)).fetchone()
    return None if row is None else _from_row(row)


def _require(tx: Transaction, rule_id: int) -> Rule:
    rule = find(tx.connection, rule_id)
    if rule is None:
        raise DomainError("This alert rule was removed. Add a new one.")
    return rule


def save(app_db: Database, rule: Rule) -> int:
    """Add a rule (id 0) or replace the rule with this id.

    Returns its id. Raises DomainError.

    A change of the condition or of its values deletes the current alerts of the rule.
    """
    cleaned = replace(rule, name=" ".join(rule.name.split()))
    if not 1 <= len(cleaned.name) <= MAX_NAME_LENGTH or not cleaned.name.isprintable():
        raise DomainError(f"Enter a name of 1 to {MAX_NAME_LENGTH} printable characters.")
    if not cleaned.days or set(cleaned.days) - set(EVERY_DAY):
        raise DomainError("Choose at least one day on which the rule is active.")
    for begin, end in ((cleaned.begins, cleaned.ends), (cleaned.quiet_from, cleaned.quiet_to)):
        if bool(begin) != bool(end) or (
            begin and not (_TIME_PATTERN.fullmatch(begin) and _TIME_PATTERN.fullmatch(end))
        ):
            raise DomainError("Enter a start and an end of the hours, such as 09:00 and 17:30.")
        if begin and begin == end:
            raise DomainError(f"The start and the end of the hours must differ; both are {begin}.")
    if not (cleaned.notice or cleaned.emails or cleaned.url):
        raise DomainError("Choose at least one target: dashboard, e-mail or URL.")
    return app_db.write(lambda tx: _upsert(tx, cleaned))


def _upsert(tx: Transaction, rule: Rule) -> int:
    if not rule.id:
        if tx.execute("SELECT count(*) FROM alert_rules").fetchone()[0] >= MAX_RULES:
            raise DomainError(f"At most {MAX_RULES} alert rules are possible. Remove one first.")
        values = _column_values(replace(rule, created_at=clock.utc_text()))
        names, placeholders = ", ".join(_COLUMNS), ", ".join("?" * len(_COLUMNS))
        return int(
            tx.execute(f"INSERT INTO alert_rules ({names}) VALUES ({placeholders})", values).lastrowid or 0
        )
    stored = _require(tx, rule.id)
    updated = replace(rule, created_at=stored.created_at, paused_at=stored.paused_at)
    changes = ", ".join(f"{name} = ?" for name in _COLUMNS)
    tx.execute(f"UPDATE alert_rules SET {changes} WHERE id = ?", (*_column_values(updated), rule.id))
    if _get_condition_values(stored) != _get_condition_values(updated):
        tx.execute("DELETE FROM alert_findings WHERE rule_id = ?", (rule.id,))
    return rule.id


def _get_condition_values(rule: Rule) -> tuple[object, ...]:
    return rule.condition, rule.threshold, rule.minutes, rule.calls, rule.queue_id


def remove(app_db: Database, rule_id: int) -> str:
    """Delete a rule; its notification log stays.

    Returns its name. Raises DomainError for an unknown id.
    """

    def work(tx: Transaction) -> str:
        rule = _require(tx, rule_id)
        tx.execute("DELETE FROM alert_rules WHERE id = ?", (rule_id,))
        tx.execute("DELETE FROM alert_findings WHERE rule_id = ?", (rule_id,))
        return rule.name

    return app_db.write(work)


def pause(app_db: Database, rule_id: int, *, paused: bool) -> str:
    """Pause or resume a rule and delete its current alerts.

    Returns its name. Raises DomainError for an unknown id.
    """

    def work(tx: Transaction) -> str:
        rule = _require(tx, rule_id)
        tx.execute(
            "UPDATE alert_rules SET paused_at = ? WHERE id = ?",
            (clock.utc_text() if paused else None, rule_id),
        )
        tx.execute("DELETE FROM alert_findings WHERE rule_id = ?", (rule_id,))
        return rule.name

    return app_db.write(work)


# --- findings --------------------------------------------------------------------------------------------


def list_findings(connection: sqlite3.Connection) -> dict[int, list[Finding]]:
    """Return the current alerts by rule id, oldest first."""
    findings_by_rule: dict[int, list[Finding]] = {}
    for row in connection.execute("SELECT * FROM alert_findings ORDER BY began_at, key"):
        findings_by_rule.setdefault(row["rule_id"], []).append(Finding(*row))
    return findings_by_rule


def count_findings(connection: sqlite3.Connection) -> int:
    """Return the number of current alerts."""
    return int(connection.execute("SELECT count(*) FROM alert_findings").fetchone()[0])


def list_dashboard_findings(connection: sqlite3.Connection, limit: int) -> list[tuple[str, Finding, int]]:
    """Return the alerts of rules with target dashboard, newest first.

    Each is (rule name, newest alert, number of alerts).
    """
    return [
        (row["name"], Finding(*tuple(row)[:6]), row["many"])
        for row in connection.execute(
            # In SQLite the other columns of a query with max() are those of the row with the maximum.
            "SELECT f.*, r.name, count(*) AS many, max(f.began_at) AS newest FROM alert_findings f"
            " JOIN alert_rules r ON r.id = f.rule_id AND r.notice = 1"
            " GROUP BY r.id ORDER BY newest DESC, r.id LIMIT ?",
            (limit,),
        )
    ]


def save_findings(tx: Transaction, current: Iterable[Finding], ended: Iterable[Finding]) -> None:
    """Store the current alerts and delete the ended ones."""
    tx.executemany(
        "DELETE FROM alert_findings WHERE rule_id = ? AND key = ?",
        [(finding.rule_id, finding.key) for finding in ended],
    )
    tx.executemany(
        "INSERT OR REPLACE INTO alert_findings VALUES (?, ?, ?, ?, ?, ?)",
        [
            (finding.rule_id, finding.key, finding.text, finding.href, finding.began_at, finding.notified_at)
            for finding in current
        ],
    )


def _column_values(rule: Rule) -> list[object]:
    return [int(value) if isinstance(value := getattr(rule, name), bool) else value for name in _COLUMNS]


def _from_row(row: sqlite3.Row) -> Rule:
    return Rule(**{**dict(row), "notice": bool(row["notice"]), "only_open": bool(row["only_open"])})
