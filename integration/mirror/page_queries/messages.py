"""SMS by contact, from records of `/sms` and `sms.received` webhooks.

An event and a record have no common id. They are paired one to one by sender, receiver and text within
MATCH_WINDOW. n events and m records that match give max(n, m) messages, so messages are neither doubled nor
merged (promise P8).
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from integration.core import clock
from integration.core.ids import id_list
from integration.core.number_search.reading import read_digits
from integration.core.number_variants import ERASED
from integration.core.phone_numbers import PhoneNumbers
from integration.mirror.page_queries.search_index import bind_fragment, build_contains_sql
from integration.mirror.records import change_log
from integration.mirror.records.rows import UpsertResult
from integration.sqlite.database import Database
from integration.sqlite.listing import Listing, Page
from integration.sqlite.transaction import Transaction

MATCH_WINDOW = timedelta(minutes=10)
"""Maximum difference of `event_time` and `created_at` of one message. Both use the platform's clock."""


def build_digits_sql(column: str) -> str:
    """Return SQL for the digits of a number as text.

    The column may have the form '+44…', '0044…', '44…' or a JSON number.
    """
    return (
        f"CASE WHEN {column} LIKE '+%' THEN substr({column}, 2)"
        f" WHEN {column} LIKE '00%' THEN substr({column}, 3)"
        f" ELSE CAST(coalesce({column}, '') AS TEXT) END"
    )


_SENDER_DIGITS = build_digits_sql("e.sender")
_RECEIVER_DIGITS = build_digits_sql("e.receiver")

TABLES = f"""
CREATE TABLE IF NOT EXISTS _sms_events (
  event_id TEXT NOT NULL,
  at TEXT NOT NULL,
  user_id ANY,
  sender TEXT NOT NULL,
  receiver TEXT NOT NULL,
  text TEXT NOT NULL,
  doc TEXT NOT NULL,
  sms_id INTEGER,
  PRIMARY KEY (event_id, sender, receiver, text)
) STRICT;
-- serves match_events(): events without a record
CREATE INDEX IF NOT EXISTS _sms_events_unmatched ON _sms_events (at) WHERE sms_id IS NULL;
-- serves _match_text(): all events with one text
CREATE INDEX IF NOT EXISTS _sms_events_by_text ON _sms_events (text);
-- serves _match_text(): all records with one text
CREATE INDEX IF NOT EXISTS _sms_by_message ON sms (message);
-- serves the list of threads
CREATE INDEX IF NOT EXISTS _sms_by_created ON sms (created_at);

CREATE VIEW IF NOT EXISTS _messages AS
  SELECT 'sms ' || s.id AS key, s.id AS sms_id, s.created_at AS at,
         CASE WHEN s.type = 'O' THEN 'out' WHEN s.type = 'I' THEN 'in'
              WHEN EXISTS (SELECT 1 FROM ddis d
                            WHERE {build_digits_sql("d.e164")} = {build_digits_sql('s."from"')}) THEN 'out'
              ELSE 'in' END AS direction,
         {build_digits_sql('s."from"')} AS sender, {build_digits_sql('s."to"')} AS receiver,
         s.message AS text, s.result AS result, s.user_id AS user_id,
         s.from_name AS from_name, s.to_name AS to_name, 'record' AS source, s._missing_since AS missing_since
    FROM sms s
  UNION ALL
  SELECT 'event ' || e.event_id, NULL, e.at, 'in', {_SENDER_DIGITS}, {_RECEIVER_DIGITS},
         e.text, NULL, e.user_id, NULL, NULL, 'webhook', NULL
    FROM _sms_events e
   WHERE e.sms_id IS NULL OR NOT EXISTS (SELECT 1 FROM sms s WHERE s.id = e.sms_id);
"""


@dataclass(frozen=True, slots=True)
class SmsReceived:
    """Webhook `sms.received` (specification, SMS-received event): an SMS to the account."""

    event_id: str
    event_time: str
    user_id: int | None
    sender: str
    receiver: str
    text: str
    doc: str


def add_event(tx: Transaction, event: SmsReceived) -> None:
    """Store an `sms.received` event and pair it. A repeated event changes nothing."""
    event_key = (event.event_id, event.sender, event.receiver, event.text)
    added = tx.execute(
        "INSERT OR IGNORE INTO _sms_events (event_id, sender, receiver, text, at, user_id, doc)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*event_key, event.event_time, event.user_id, event.doc),
    )
    if added.rowcount:
        _match_text(tx, event.text)
        # It becomes an event for programs with its record, which has the id.
        tx.announce("sms", event.event_id, {"from": event.sender, "to": event.receiver})


def match_events(tx: Transaction) -> int:
    """Pair events without a record with records of `/sms`.

    Must be called after rows of `sms` changed. Returns the number of newly paired events. The result depends
    only on the stored events and records, not on their order of arrival.
    """
    waiting_texts = [
        row["text"]
        for row in tx.execute("SELECT DISTINCT text FROM _sms_events WHERE sms_id IS NULL").fetchall()
    ]
    return sum(_match_text(tx, text) for text in waiting_texts)


def register_hook(mirror_db: Database) -> None:
    """Register the hook that pairs and announces every stored record of `/sms`."""
    mirror_db.hooks.setdefault("sms", []).append(_handle_stored_sms)


def _handle_stored_sms(tx: Transaction, result: UpsertResult) -> None:
    match_events(tx)
    # Sent messages, and messages whose webhook was lost, have no webhook that announces them.
    new_messages = tx.execute(
        "SELECT sms_id, direction FROM _messages"
        " WHERE sms_id IN (SELECT value FROM json_each(?)) AND at >= ? ORDER BY at, sms_id",
        (id_list(result.inserted), change_log.find_first_event_time(tx.connection, clock.unix())),
    ).fetchall()
    for sms_id, direction in new_messages:
        tx.announce("sms", sms_id, {"event": "message.sent" if direction == "out" else "message.received"})
    if not new_messages:
        tx.announce("sms", (result.inserted or result.updated)[-1])


def _match_text(tx: Transaction, text: str) -> int:
    """Recompute the pairs of all events and records with one text.

    Returns the number of events that had no record before and have one now.
    """
    events: dict[tuple[str, str], list[sqlite3.Row]] = defaultdict(list)
    for row in tx.execute(
        "SELECT rowid, at, sender, receiver, sms_id FROM _sms_events WHERE text = ? ORDER BY at, event_id",
        (text,),
    ).fetchall():
        events[normalize_digits(row["sender"]), normalize_digits(row["receiver"])].append(row)
    records: dict[tuple[str, str], list[sqlite3.Row]] = defaultdict(list)
    for row in tx.execute(
        'SELECT id, created_at, "from", "to" FROM sms WHERE message = ? ORDER BY created_at, id', (text,)
    ).fetchall():
        records[normalize_digits(row["from"]), normalize_digits(row["to"])].append(row)
    newly_matched = 0
    for numbers, group in events.items():
        pairs = _pair_by_time(group, records.get(numbers, []))
        for row in group:
            sms_id = pairs.get(row["rowid"])
            if sms_id != row["sms_id"]:
                tx.execute("UPDATE _sms_events SET sms_id = ? WHERE rowid = ?", (sms_id, row["rowid"]))
                newly_matched += row["sms_id"] is None
    return newly_matched


def _pair_by_time(events: list[sqlite3.Row], records: list[sqlite3.Row]) -> dict[int, int]:
    """Pair as many events and records as possible within MATCH_WINDOW.

    Both lists are in order of time. The loop merges them and skips every entry that is too old for the first
    entry of the other list, which gives the largest number of pairs. Rejected: pairing each event with the
    nearest record, because fewer pairs may result. Returns rowid of event → id of record.
    """
    pairs: dict[int, int] = {}
    event_index, record_index = 0, 0
    while event_index < len(events) and record_index < len(records):
        event_time = clock.parse_utc(events[event_index]["at"])
        created_at = clock.parse_utc(records[record_index]["created_at"])
        if event_time is None:
            event_index += 1
        elif created_at is None or created_at < event_time - MATCH_WINDOW:
            record_index += 1
        elif created_at > event_time + MATCH_WINDOW:
            event_index += 1
        else:
            pairs[events[event_index]["rowid"]] = records[record_index]["id"]
            event_index += 1
            record_index += 1
    return pairs


def normalize_digits(number: object) -> str:
    """Return a number without leading plus or 00, as in thread keys."""
    text = str(number or "")
    return text[1:] if text.startswith("+") else text[2:] if text.startswith("00") else text


def list_contact_keys(numbers: Iterable[str], phone_numbers: PhoneNumbers) -> list[str]:
    """Return the contacts of messages with these numbers. A network may send the national form."""
    spellings = {spelling for number in numbers for spelling in phone_numbers.list_spellings(number)}
    return sorted({normalize_digits(spelling) for spelling in spellings})


CONTACT_MATCHES = (
    f"{build_contains_sql('contact')} OR contact IN (SELECT value FROM json_each(:contacts))"
    f" OR contact IN (SELECT substr(e164, 2) FROM _contact_numbers WHERE {build_contains_sql('name')})"
)
"""SQL of whether the text or the name of `contact` matches the values of `bind_contact_search`."""


def bind_contact_search(search_text: str, phone_numbers: PhoneNumbers) -> dict[str, str]:
    """Return the values of a search for contacts: fragments of texts and numbers, and equal contacts."""
    return {
        "text": search_text.strip(),
        **bind_fragment(search_text),
        "digits": read_digits(search_text),
        "contacts": id_list(list_contact_keys([search_text], phone_numbers)),
    }


_THREADS = Listing("-at", "contact", has_id=False)
_LATEST_FIRST = Listing("-at", "-key", has_id=False)


def list_threads(
    connection: sqlite3.Connection,
    phone_numbers: PhoneNumbers,
    *,
    search_text: str = "",
    cursor: str | None = None,
    size: int = 50,
) -> Page:
    """Return one page of threads, newest first.

    Columns: contact (digits, or the name that a sender has instead), at (UTC text), messages (their number),
    text, direction and name of the newest message. `search_text` is a fragment of a number, a name or a text.
    """
    return _THREADS.fetch_page(
        connection,
        # With max() SQLite reads the bare columns from the row with the maximum.
        "SELECT contact, max(at) AS at, count(*) AS messages, text, direction, name FROM"
        " (SELECT *, CASE direction WHEN 'in' THEN sender ELSE receiver END AS contact,"
        "  CASE direction WHEN 'in' THEN from_name ELSE to_name END AS name FROM _messages)"
        f" WHERE contact <> '{ERASED}'"
        f" AND (:text = '' OR {build_contains_sql('text')} OR {build_contains_sql('name')}"
        f" OR {CONTACT_MATCHES} OR (:digits <> '' AND contact LIKE '%' || :digits || '%'))"
        " GROUP BY contact",
        bind_contact_search(search_text, phone_numbers),
        cursor,
        size,
    )


def list_messages(
    connection: sqlite3.Connection, *contacts: str, cursor: str | None = None, size: int = 100
) -> Page:
    """Return one page of messages with any of these contacts (see `list_threads`), newest first."""
    return _LATEST_FIRST.fetch_page(
        connection,
        "SELECT * FROM _messages WHERE CASE direction WHEN 'in' THEN sender ELSE receiver END"
        " IN (SELECT value FROM json_each(:contacts))",
        {"contacts": id_list(contacts)},
        cursor,
        size,
    )


def find_last_received(connection: sqlite3.Connection, since: str) -> dict[str, str]:
    """Map contacts (digits) to the time of their last message after `since`.

    Times are UTC text.
    """
    return {
        row["sender"]: row["at"]
        for row in connection.execute(
            "SELECT sender, max(at) AS at FROM _messages WHERE at > ? AND direction = 'in' GROUP BY sender",
            (since,),
        )
    }


def list_sent(connection: sqlite3.Connection, since: str) -> list[tuple[str, str]]:
    """Return contact and time of the messages that were sent since `since` (UTC text)."""
    rows = connection.execute(
        "SELECT receiver, at FROM _messages WHERE at >= ? AND direction = 'out'", (since,)
    )
    return [(row[0], row[1]) for row in rows]


def list_sms_numbers(connection: sqlite3.Connection) -> list[sqlite3.Row]:
    """Return the account's numbers that can send SMS.

    Columns: e164 (as received), name.
    """
    return connection.execute(
        "SELECT e164, name FROM ddis WHERE sms_enabled IN (1, '1', 'true') AND _missing_since IS NULL"
        " ORDER BY e164"
    ).fetchall()


def list_canned_responses(connection: sqlite3.Connection) -> list[tuple[int, str, str]]:
    """Return (id, name, text) of the canned responses.

    The specification documents only the body that creates a canned response. The fields are therefore read
    from the received records.
    """
    rows = connection.execute(
        "SELECT id, _doc ->> '$.name' AS name, coalesce(_doc ->> '$.text', _doc ->> '$.message') AS text"
        " FROM sms_cannedresponses WHERE _missing_since IS NULL ORDER BY name COLLATE NOCASE, id"
    )
    return [(row["id"], row["name"] or row["text"][:40], row["text"]) for row in rows if row["text"]]


def find_contact_names(
    connection: sqlite3.Connection, contacts: Iterable[str], phone_numbers: PhoneNumbers
) -> dict[str, str]:
    """Map contacts of messages to names of the contacts with these numbers.

    Numbers without a contact are omitted.
    """
    numbers = {contact: phone_numbers.restore_contact(contact) for contact in contacts}
    sql = (
        "SELECT e164, min(name) FROM _contact_numbers"
        " WHERE e164 IN (SELECT value FROM json_each(?)) GROUP BY e164"
    )
    names = dict(tuple(row) for row in connection.execute(sql, (id_list(numbers.values()),)))
    return {contact: names[number] for contact, number in numbers.items() if number in names}
