"""Alert rules: what is watched, whom it is told, when not; and what each of them finds at present.

What a condition means and how it is looked for is in `alerts/conditions.py`; what was told in `alert_log.py`.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from integration.core import clock
from integration.core.refused import Refused
from integration.sqlite.database import Database
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
    created_at TEXT NOT NULL
) STRICT;

-- What rules find at present. `told_at` NULL: not told yet (quiet hours, cool-down).
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

MOST = 100
"""Rules of an installation."""
LONGEST_NAME = 60
EVERY_DAY = "0123456"
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")


@dataclass(frozen=True, slots=True)
class Rule:
    """`threshold` in the unit of its `condition`. It watches on `days` (digits, Monday is 0) from `begins` to
    `ends`, and tells nobody outside this house from `quiet_from` to `quiet_to`: times 'HH:MM' of the display
    zone, '' for none, over midnight where the second is not after the first. Between two messages lie
    `cooldown` minutes. `emails` has blanks between; `secret` is the Authorization header of `url`, or ''.

    Rules with an id below zero stand in the configuration and go to `alerts.urls`.
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

    def watches(self, now: datetime) -> bool:
        """Whether `now`, a time of the display zone, is among its days and hours."""
        return str(now.weekday()) in self.days and (not self.begins or within(now, self.begins, self.ends))

    def quiet_until(self, now: datetime) -> datetime | None:
        """When the quiet hours end that `now` is in; None in no such hours."""
        if not self.quiet_from or not within(now, self.quiet_from, self.quiet_to):
            return None
        end = _at(now, self.quiet_to)
        return end if end > now else end + timedelta(days=1)

    def began(self, now: datetime) -> datetime | None:
        """When the hours began that `now` is in; None where it watches all day."""
        if not self.begins:
            return None
        begin = _at(now, self.begins)
        return begin if begin <= now else begin - timedelta(days=1)

    @property
    def shown_url(self) -> str:
        """For pages and logs: the host alone. Many services have their credential in the path."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}/" + ("…" if parts.path.strip("/") or parts.query else "")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a rule found: `key` tells it from others of the rule, `text` is one line for people, `href`
    leads to it. Times are UTC text."""

    rule_id: int
    key: str
    text: str
    href: str
    began_at: str
    told_at: str | None = None


def _at(now: datetime, time: str) -> datetime:
    return now.replace(hour=int(time[:2]), minute=int(time[3:]), second=0, microsecond=0)


def within(now: datetime, begins: str, ends: str) -> bool:
    at = f"{now:%H:%M}"
    return begins <= at < ends if begins < ends else at >= begins or at < ends


# --- rules -----------------------------------------------------------------------------------------------

_WRITTEN = tuple(name for name in Rule.__dataclass_fields__ if name != "id")


def everything(connection: sqlite3.Connection) -> list[Rule]:
    """All rules, by name."""
    return [
        _of(row) for row in connection.execute("SELECT * FROM alert_rules ORDER BY name COLLATE NOCASE, id")
    ]


def find(connection: sqlite3.Connection, number: int) -> Rule | None:
    row = connection.execute("SELECT * FROM alert_rules WHERE id = ?", (number,)).fetchone()
    return None if row is None else _of(row)


def save(house: Database, wanted: Rule) -> int:
    """Add a rule (id 0) or replace the one of this id; returns its id. A rule whose condition is another one
    begins anew. Raises Refused."""
    kept = replace(wanted, name=" ".join(wanted.name.split()))
    if not 1 <= len(kept.name) <= LONGEST_NAME or not kept.name.isprintable():
        raise Refused(f"a rule needs a name of 1 to {LONGEST_NAME} printable characters")
    if not kept.days or set(kept.days) - set(EVERY_DAY):
        raise Refused("a rule needs at least one day on which it watches")
    for begin, end in ((kept.begins, kept.ends), (kept.quiet_from, kept.quiet_to)):
        if bool(begin) != bool(end) or (begin and not (_CLOCK.fullmatch(begin) and _CLOCK.fullmatch(end))):
            raise Refused("hours need a beginning and an end, such as 09:00 and 17:30")
        if begin and begin == end:
            raise Refused("hours that end when they begin are none")
    if not (kept.notice or kept.emails or kept.url):
        raise Refused("a rule has to tell somebody: on the dashboard, by e-mail or at an address")
    return house.write(lambda tx: _put(tx, kept))


def _put(tx: Transaction, wanted: Rule) -> int:
    if not wanted.id:
        if tx.execute("SELECT count(*) FROM alert_rules").fetchone()[0] >= MOST:
            raise Refused(f"there are {MOST} rules already; remove one first")
        values = _values(replace(wanted, created_at=clock.stamp()))
        names, marks = ", ".join(_WRITTEN), ", ".join("?" * len(_WRITTEN))
        return int(tx.execute(f"INSERT INTO alert_rules ({names}) VALUES ({marks})", values).lastrowid or 0)
    before = find(tx.connection, wanted.id)
    if before is None:
        raise Refused("this rule was removed")
    kept = replace(wanted, created_at=before.created_at, paused_at=before.paused_at)
    changes = ", ".join(f"{name} = ?" for name in _WRITTEN)
    tx.execute(f"UPDATE alert_rules SET {changes} WHERE id = ?", (*_values(kept), wanted.id))
    if (before.condition, before.threshold) != (kept.condition, kept.threshold):
        tx.execute("DELETE FROM alert_findings WHERE rule_id = ?", (wanted.id,))
    return wanted.id


def remove(house: Database, number: int) -> str:
    """Its log stays. Returns its name; raises Refused for an unknown one."""

    def work(tx: Transaction) -> str:
        rule = find(tx.connection, number)
        if rule is None:
            raise Refused("this rule was removed already")
        tx.execute("DELETE FROM alert_rules WHERE id = ?", (number,))
        tx.execute("DELETE FROM alert_findings WHERE rule_id = ?", (number,))
        return rule.name

    return house.write(work)


def pause(house: Database, number: int, *, paused: bool) -> str:
    """Stop watching, or go on and begin anew: what it had found is forgotten.

    Returns its name; raises Refused for an unknown one.
    """

    def work(tx: Transaction) -> str:
        rule = find(tx.connection, number)
        if rule is None:
            raise Refused("this rule was removed")
        tx.execute(
            "UPDATE alert_rules SET paused_at = ? WHERE id = ?", (clock.stamp() if paused else None, number)
        )
        tx.execute("DELETE FROM alert_findings WHERE rule_id = ?", (number,))
        return rule.name

    return house.write(work)


# --- findings --------------------------------------------------------------------------------------------


def findings(connection: sqlite3.Connection) -> dict[int, list[Finding]]:
    """What each rule finds at present, by its id, oldest first."""
    found: dict[int, list[Finding]] = {}
    for row in connection.execute("SELECT * FROM alert_findings ORDER BY began_at, key"):
        found.setdefault(row["rule_id"], []).append(Finding(*row))
    return found


def noticed(connection: sqlite3.Connection, limit: int) -> list[tuple[str, Finding, int]]:
    """(name, newest finding, how many there are) of the rules that tell the dashboard, newest first."""
    return [
        (row["name"], Finding(*tuple(row)[:6]), row["many"])
        for row in connection.execute(
            # With max() the other columns are those of its row.
            "SELECT f.*, r.name, count(*) AS many, max(f.began_at) AS newest FROM alert_findings f"
            " JOIN alert_rules r ON r.id = f.rule_id AND r.notice = 1"
            " GROUP BY r.id ORDER BY newest DESC, r.id LIMIT ?",
            (limit,),
        )
    ]


def keep(tx: Transaction, here: Iterable[Finding], gone: Iterable[Finding]) -> None:
    """Note what was found, and forget what is not any more."""
    tx.executemany(
        "DELETE FROM alert_findings WHERE rule_id = ? AND key = ?", [(f.rule_id, f.key) for f in gone]
    )
    tx.executemany(
        "INSERT OR REPLACE INTO alert_findings VALUES (?, ?, ?, ?, ?, ?)",
        [(f.rule_id, f.key, f.text, f.href, f.began_at, f.told_at) for f in here],
    )


def keep_only(tx: Transaction, rules: Sequence[int]) -> None:
    """Forget what rules found that are there no more."""
    marks = ", ".join("?" * len(rules))
    tx.execute(f"DELETE FROM alert_findings WHERE rule_id NOT IN ({marks})", list(rules))


def _values(rule: Rule) -> list[object]:
    return [int(value) if isinstance(value := getattr(rule, name), bool) else value for name in _WRITTEN]


def _of(row: sqlite3.Row) -> Rule:
    return Rule(**{**dict(row), "notice": bool(row["notice"])})
