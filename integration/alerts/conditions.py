"""What rules can watch for. Each condition looks at the present and returns what holds now."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from integration.alerts.rules import Finding, Rule
from integration.context import House
from integration.core import clock
from integration.core.phone_numbers import withheld
from integration.mirror.page_queries import alert_queries as alarms
from integration.mirror.page_queries import live
from integration.workspace import callbacks

RECENT_HOURS = 1
"""How old a call or a message may be that is told as new: what came while nothing ran, and no history."""
MANY = 500


@dataclass(frozen=True, slots=True)
class Look:
    """What a condition looks at: `now` in the display zone; `known`, what the rule found before; `failing`,
    since when (Unix seconds) each part of the health report that is not well has been so."""

    parts: House
    rule: Rule
    now: datetime
    known: list[Finding]
    failing: Mapping[str, float]

    def ago(self, **span: float) -> str:
        """UTC text of so long ago."""
        # Local times are subtracted as clocks show them: an hour too much or too little where clocks change.
        return clock.stamp(self.now.timestamp() - timedelta(**span).total_seconds())

    @property
    def since(self) -> str:
        """From when on calls and messages are new; also from before, what nobody was told of yet."""
        new = max(self.ago(hours=RECENT_HOURS), self.rule.created_at)
        return min([new, *(finding.began_at for finding in self.known if finding.told_at is None)])


@dataclass(frozen=True, slots=True)
class Found:
    """`at`: since when, UTC text; the rest as of `Finding`."""

    key: str
    text: str
    href: str
    at: str


@dataclass(frozen=True, slots=True)
class Condition:
    """`unit` of the threshold, '' where there is none; `recovers`: its end is worth telling."""

    word: str
    unit: str
    default: int
    least: int
    most: int
    find: Callable[[Look], list[Found]]
    recovers: bool = True


# --- calls and messages ----------------------------------------------------------------------------------


def _who(parts: House, call: sqlite3.Row) -> str:
    number = parts.numbers.national(call["party_e164"] or call["party"])
    if withheld(call["party"]):
        number = "a withheld number"
    return f"{call['party_name']} ({number})" if call["party_name"] else number


def _line(parts: House, call: sqlite3.Row) -> str:
    ours = call["group_name"] or parts.numbers.national(call["our_e164"] or call["our_number"])
    return f" on {ours}" if ours else ""


def _call(call: sqlite3.Row, text: str) -> Found:
    return Found(str(call["id"]), text, f"/calls/{call['id']}", call["started_at"])


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _not_called_back(look: Look) -> list[Found]:
    before = look.ago(minutes=look.rule.threshold)
    with look.parts.house.read() as connection:
        items = [item for item in callbacks.items(connection) if item.opened_at <= before]
    return [
        Found(
            str(item.id),
            f"{_party(look.parts, item)} waits for a call back",
            f"/missed#item-{item.id}",
            item.opened_at,
        )
        for item in items
    ]


def _party(parts: House, item: callbacks.Item) -> str:
    number = "A withheld number" if item.party.startswith("withheld:") else parts.numbers.national(item.party)
    return f"{item.party_name} ({number})" if item.party_name else number


def _waiting(look: Look) -> list[Found]:
    with look.parts.mirror.read() as connection:
        calls = alarms.waiting(connection, look.ago(seconds=look.rule.threshold))
    return [
        _call(call, f"{_who(look.parts, call)} has been waiting{_line(look.parts, call)}") for call in calls
    ]


def _queue_length(look: Look) -> list[Found]:
    with look.parts.mirror.read() as connection:
        queues = live.queues_now(connection)
    return [
        Found(
            str(queue["id"]),
            f"{_many(queue['waiting'], 'caller')} waiting in {queue['name']}",
            "/",
            queue["longest"],
        )
        for queue in queues
        if queue["waiting"] >= look.rule.threshold
    ]


def _missed_call(look: Look) -> list[Found]:
    return _not_answered(look, "Missed call from")


def _voicemail(look: Look) -> list[Found]:
    return _not_answered(look, "Voicemail from")


def _not_answered(look: Look, said: str) -> list[Found]:
    with look.parts.mirror.read() as connection:
        outcome = "missed" if look.rule.condition == "missed_call" else "voicemail"
        calls = alarms.not_answered(connection, outcome, look.since, MANY)  # type: ignore[arg-type]
    return [_call(call, f"{said} {_who(look.parts, call)}{_line(look.parts, call)}") for call in calls]


def _sms(look: Look) -> list[Found]:
    with look.parts.mirror.read() as connection:
        rows = alarms.received_messages(connection, look.since, MANY)
    found = []
    for row in rows:
        sender = look.parts.numbers.national(f"+{row['sender']}")
        # An event gets another key when its record comes.
        key = f"{row['sender']} {row['text']}"[:200]
        text = " ".join(str(row["text"] or "").split())
        short = text if len(text) <= 100 else f"{text[:100]}…"
        found.append(
            Found(
                key,
                f"Message from {sender}: {short}",
                f"/messages?{urlencode({'with': row['sender']})}",
                row["at"],
            )
        )
    return found


# --- this house ------------------------------------------------------------------------------------------


def _silent_webhooks(look: Look) -> list[Found]:
    last = look.parts.inbox.overview().last_received_at
    began = look.rule.began(look.now)
    # A night is no silence, nor is what was before the rule.
    since = max(last or "", look.rule.created_at, clock.stamp(began) if began else "")
    if since > look.ago(minutes=look.rule.threshold):
        return []
    return [Found("webhooks", "No webhook has come from the platform", "/system", since)]


def _files(look: Look) -> list[Found]:
    with look.parts.mirror.read() as connection:
        row = alarms.failed_files(connection)
    if row["n"] < look.rule.threshold:
        return []
    said = f"{_many(row['n'], 'download')} of recordings or voicemail failed ({row['why']})"
    return [Found("files", said, "/recordings?state=failed", row["since"] or clock.stamp(look.now))]


def _behind(look: Look) -> list[Found]:
    with look.parts.mirror.read() as connection:
        fresh = live.freshness(connection)
    since = fresh.last_success_at or (fresh.last_error and look.rule.created_at)
    if not since or since > look.ago(minutes=look.rule.threshold):
        return []
    why = f": {fresh.last_error}" if fresh.last_error else ""
    return [Found("mirror", f"Call records are not read from the platform{why}", "/system", since)]


def _gap(look: Look) -> list[Found]:
    # Of today the platform's count and ours differ for as long as calls come.
    today = look.ago(days=0)[:10]
    with look.parts.mirror.read() as connection:
        rows = alarms.lacking(connection, today)
    return [
        Found(
            row["collection"],
            f"{_many(row['n'], 'record')} of /{row['collection']} missing here, the first of {row['day']}",
            "/system#coverage",
            row["since"],
        )
        for row in rows
        if row["n"] >= look.rule.threshold
    ]


def _disk(look: Look) -> list[Found]:
    free = shutil.disk_usage(look.parts.settings.storage.data_dir).free / 1e9
    if free >= look.rule.threshold:
        return []
    since = next((finding.began_at for finding in look.known), clock.stamp(look.now))
    return [Found("disk", f"{free:.1f} GB are free on the disk of the data", "/system", since)]


def _trouble(look: Look) -> list[Found]:
    checks = look.parts.health.report()["checks"]
    before = look.now.timestamp() - 60 * look.rule.threshold
    return [
        Found(
            part,
            f"{part}: {checks[part]['error'] or checks[part]['state']}",
            "/system#parts",
            clock.stamp(at),
        )
        for part, at in sorted(look.failing.items())
        if at <= before and part in checks
    ]


CONDITIONS: Mapping[str, Condition] = {
    "not_called_back": Condition(
        "A missed caller was not called back for", "minutes", 30, 1, 10_080, _not_called_back
    ),
    "waiting": Condition("A caller has been waiting for", "seconds", 60, 5, 3600, _waiting),
    "queue_length": Condition("Callers waiting in one queue, at least", "callers", 5, 1, 1000, _queue_length),
    "missed_call": Condition("A call was missed", "", 0, 0, 0, _missed_call, recovers=False),
    "voicemail": Condition("A caller left a voice message", "", 0, 0, 0, _voicemail, recovers=False),
    "sms": Condition("A message (SMS) came in", "", 0, 0, 0, _sms, recovers=False),
    "silent_webhooks": Condition("No webhook has come for", "minutes", 60, 1, 10_080, _silent_webhooks),
    "behind": Condition("Call records were not read for", "minutes", 15, 1, 10_080, _behind),
    "gap": Condition("Records missing here, at least", "records", 1, 1, 1_000_000, _gap),
    "files": Condition("Recordings that could not be downloaded, at least", "files", 1, 1, 1_000_000, _files),
    "disk": Condition("Free disk space is under", "GB", 5, 1, 100_000, _disk),
    "trouble": Condition("A part of Switchroom has been failing for", "minutes", 10, 1, 10_080, _trouble),
}
