"""Text back: rules, the texts to missed callers, and the pause of all rules.

A text is claimed, which means stored and committed, before it is sent, so it is never sent twice. A claim
without a response counts as sent.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

from integration.core import clock
from integration.core.errors import DomainError
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

TABLES = """
-- `line` '': all lines. `template_id`: canned response, NULL for `text`. `sending_since` NULL: dry run.
CREATE TABLE IF NOT EXISTS text_back_rules (
    id INTEGER PRIMARY KEY AUTOINCREMENT, line TEXT NOT NULL, while_line TEXT NOT NULL, template_id INTEGER,
    text TEXT NOT NULL, delay INTEGER NOT NULL, sender TEXT NOT NULL, countries TEXT NOT NULL,
    sending_since TEXT
) STRICT;
-- missed calls for which a rule was sending: `state` is 'claimed', 'sent', 'refused' or 'left out'
CREATE TABLE IF NOT EXISTS text_back_calls (
    call_id INTEGER PRIMARY KEY, at TEXT NOT NULL, number TEXT NOT NULL, state TEXT NOT NULL,
    reason TEXT NOT NULL
) STRICT;
-- serves the texts of a period
CREATE INDEX IF NOT EXISTS text_back_calls_at ON text_back_calls (at);
-- `texts`: number of all claims
CREATE TABLE IF NOT EXISTS text_back_state (
    one INTEGER PRIMARY KEY CHECK (one = 0), texts INTEGER NOT NULL, resumed_at TEXT NOT NULL,
    pause_reason TEXT
) STRICT;
"""

_MIRROR_KEY = "texts sent back"
"""Key in `_meta` of mirror.db."""
_ADD_STATE = "INSERT OR IGNORE INTO text_back_state VALUES (0, 0, '', NULL)"

WhileLine = Literal["open", "closed", "always"]
MAX_RULES = 20
KEPT_DAYS = 7
"""Days for which callers without a text are kept."""
RESTORED = "A backup was restored, so texts that were sent later are not recorded here."


@dataclass(frozen=True, slots=True)
class TextRule:
    """A rule.

    `line`: number in E.164, '' for all lines. `while_line`: when the rule applies. `template_id`: canned
    response of the account, else `text` is sent. `delay`: minutes from the end of the call. `sender`: number
    (E.164) if the called line cannot send SMS. `countries`: ISO codes with spaces; '' for
    `dashboard.country`. `sending_since`: UTC text; None for a dry run.
    """

    id: int
    line: str
    while_line: WhileLine
    template_id: int | None
    text: str
    delay: int
    sender: str
    countries: str
    sending_since: str | None = None


@dataclass(frozen=True, slots=True)
class SendingState:
    """State of all rules.

    `texts`: number of all texts. Calls that ended before `resumed_at` (UTC text) get none. `pause_reason`:
    None unless the rules are paused.
    """

    texts: int
    resumed_at: str
    pause_reason: str | None


@dataclass(frozen=True, slots=True)
class TextBackCall:
    """Missed call whose text was decided at the time `at` (UTC text).

    `state`: 'claimed' (no response yet), 'sent', 'refused' or 'left out'. `reason`: why no text was sent.
    """

    call_id: int
    at: str
    number: str
    state: str
    reason: str

    @property
    def is_sent(self) -> bool:
        return self.state in ("claimed", "sent")


# --- rules -----------------------------------------------------------------------------------------------


def list_rules(connection: sqlite3.Connection) -> list[TextRule]:
    """Return the rules in the order of their precedence: those of single lines first, then the older."""
    rows = connection.execute("SELECT * FROM text_back_rules ORDER BY line = '', id")
    return [TextRule(*row) for row in rows]


def save_rule(app_db: Database, rule: TextRule) -> None:
    """Add a rule (id 0) or change it. It is a dry run until `start`. Raises DomainError."""

    def work(tx: Transaction) -> None:
        rules = list_rules(tx.connection)
        if rule.id and rule.id not in {stored.id for stored in rules}:
            raise DomainError("This rule was removed. Add a new one.")
        if not rule.id and len(rules) >= MAX_RULES:
            raise DomainError(f"At most {MAX_RULES} rules are possible. Remove one first.")
        stored = replace(rule, sending_since=None)
        tx.execute(
            "INSERT OR REPLACE INTO text_back_rules VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (rule.id or None, *astuple(stored)[1:]),
        )

    app_db.write(work)


def set_sending(app_db: Database, rule_id: int, *, is_sending: bool) -> None:
    """Start or stop sending. Raises DomainError for an unknown rule."""
    since = clock.utc_text() if is_sending else None
    sql = "UPDATE text_back_rules SET sending_since = ? WHERE id = ?"
    if not app_db.write(lambda tx: tx.execute(sql, (since, rule_id)).rowcount):
        raise DomainError("This rule was removed.")


def remove_rule(app_db: Database, rule_id: int) -> None:
    """Delete a rule. Raises DomainError for an unknown id."""
    sql = "DELETE FROM text_back_rules WHERE id = ?"
    if not app_db.write(lambda tx: tx.execute(sql, (rule_id,)).rowcount):
        raise DomainError("This rule was already removed.")


# --- pause -----------------------------------------------------------------------------------------------


def load_state(connection: sqlite3.Connection) -> SendingState:
    row = connection.execute("SELECT texts, resumed_at, pause_reason FROM text_back_state").fetchone()
    return SendingState(*row) if row else SendingState(0, "", None)


def _change_state(tx: Transaction, changes: str, *values: object) -> None:
    tx.execute(_ADD_STATE)
    tx.execute(f"UPDATE text_back_state SET {changes}", values)


def pause(tx: Transaction, reason: str) -> None:
    """Pause all rules until `resume`."""
    _change_state(tx, "pause_reason = ?", reason)


def resume(app_db: Database, texts: int) -> None:
    """Resume all rules. `texts`: number of all texts that mirror.db records."""
    changes, now = "pause_reason = NULL, resumed_at = ?, texts = max(texts, ?)", clock.utc_text()
    app_db.write(lambda tx: _change_state(tx, changes, now, texts))


def describe_pause(app_db: Database) -> str | None:
    """Return the error of the health check; None if no rule is paused."""
    with app_db.read() as connection:
        reason = load_state(connection).pause_reason
        is_sending = any(rule.sending_since for rule in list_rules(connection))
    if not reason or not is_sending:
        return None
    return f"No texts are sent. {reason} Resume the rules on Settings › Text back."


def pause_restored(path: Path) -> None:
    """Pause the rules in a restored house.db, unless its version has no text back."""
    connection = sqlite3.connect(path)
    try:
        with connection:
            if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'text_back_state'").fetchone():
                connection.execute(_ADD_STATE)
                connection.execute("UPDATE text_back_state SET pause_reason = ?", (RESTORED,))
    finally:
        connection.close()


# --- texts -----------------------------------------------------------------------------------------------


def claim(tx: Transaction, call_id: int, number: str) -> int:
    """Store that the text for a call is sent next. Returns the number of all texts.

    Raises sqlite3.IntegrityError if the call was decided before.
    """
    tx.execute(
        "INSERT INTO text_back_calls VALUES (?, ?, ?, 'claimed', '')", (call_id, clock.utc_text(), number)
    )
    _change_state(tx, "texts = texts + 1")
    return load_state(tx.connection).texts


def record_texts(tx: Transaction, texts: int) -> None:
    """Record the number of all texts in mirror.db, because an older house.db has a smaller one."""
    tx.execute("INSERT OR REPLACE INTO _meta VALUES (?, ?)", (_MIRROR_KEY, str(texts)))


def count_recorded_texts(mirror_connection: sqlite3.Connection) -> int:
    """Return the number of all texts that mirror.db records."""
    row = mirror_connection.execute("SELECT value FROM _meta WHERE key = ?", (_MIRROR_KEY,)).fetchone()
    return int(row[0]) if row else 0


def finish(app_db: Database, call_id: int, refusal: str) -> None:
    """Store the platform's response to a text: '' or the reason of the refusal."""
    app_db.write(
        lambda tx: tx.execute(
            "UPDATE text_back_calls SET state = ?, reason = ? WHERE call_id = ?",
            ("refused" if refusal else "sent", refusal, call_id),
        )
    )


def leave_out(app_db: Database, left_out: Iterable[tuple[int, str, str]]) -> None:
    """Store why calls get no text: (id of the call, number, reason)."""
    now = clock.now()
    limit = clock.utc_text(now.timestamp() - 86_400 * KEPT_DAYS)

    def work(tx: Transaction) -> None:
        tx.execute("DELETE FROM text_back_calls WHERE at < ? AND state = 'left out'", (limit,))
        tx.executemany(
            "INSERT INTO text_back_calls VALUES (?, ?, ?, 'left out', ?)",
            [(call_id, clock.utc_text(now), number, reason) for call_id, number, reason in left_out],
        )

    app_db.write(work)


def list_calls(connection: sqlite3.Connection, since: str) -> list[TextBackCall]:
    """Return what was decided since `since` (UTC text), oldest first."""
    rows = connection.execute("SELECT * FROM text_back_calls WHERE at >= ? ORDER BY at, call_id", (since,))
    return [TextBackCall(*row) for row in rows]


def find_call(connection: sqlite3.Connection, call_id: int) -> TextBackCall | None:
    row = connection.execute("SELECT * FROM text_back_calls WHERE call_id = ?", (call_id,)).fetchone()
    return None if row is None else TextBackCall(*row)


def count_texts(connection: sqlite3.Connection, since: str, *, includes_refused: bool = False) -> int:
    """Return the number of texts since `since` (UTC text)."""
    states = "'claimed', 'sent', 'refused'" if includes_refused else "'claimed', 'sent'"
    sql = f"SELECT count(*) FROM text_back_calls WHERE at >= ? AND state IN ({states})"
    return int(connection.execute(sql, (since,)).fetchone()[0])


def count_this_month(connection: sqlite3.Connection, zone: ZoneInfo) -> int:
    """Return the number of texts since the first day of the month in `zone`."""
    return count_texts(connection, clock.midnight(clock.now().astimezone(zone).date().replace(day=1), zone))
