"""Facts of scripted calls: webhooks, polls, CDRs and media records in the form of the platform.

Times are seconds after `T0`, 2026-09-02 08:45:55 UTC.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from integration.core.json_records import JsonRecord
from integration.inbox.interpret import interpret
from integration.mirror.calls.facts import CallEvent

T0 = 1788338755
ANN, BOB, CAT = 1000001, 1000002, 1000003
CALLER, OTHER, DDI = "447700900101", "447700900102", "442079460002"
SUPPORT, SALES = "RG-80001", "QUEUE"
EXTENSION_IDS = {ANN: "10001", BOB: "10002", CAT: "10003"}
NAMES = {ANN: "Ann Example", BOB: "Bob Sample", CAT: "Cat Specimen"}

ACCOUNT: dict[str, list[dict[str, Any]]] = {
    "users": [
        {"id": ANN, "ext": "1001", "first_name": "Ann", "last_name": "Example"},
        {"id": BOB, "ext": "1002", "first_name": "Bob", "last_name": "Sample"},
        {"id": CAT, "ext": "1003", "first_name": "Cat", "last_name": "Specimen"},
    ],
    "ringgroups": [{"id": 80001, "name": "Support", "number": 601, "ring_time": 20}],
    "queues": [{"id": 70001, "name": "Sales", "number": 602, "ring_time": 15, "retry": 5}],
    "conferences": [{"id": 5001, "name": "Team", "confno": 700}],
}
"""Records of the account in which all scripts happen."""

_STATES = {
    "initial": "INITIAL", "ringing": "RINGING", "connected": "CONNECTED", "hold": "ON_HOLD",
    "unhold": "CONNECTED", "hangup": "HANGUP", "missed": "HANGUP", "dtmf": "DTMF_RECEIVED",
}  # fmt: skip


class Webhook(NamedTuple):
    """Body of a webhook, received at `at`."""

    at: float
    body: dict[str, Any]


class Record(NamedTuple):
    """Record of a collection, mirrored at `at`."""

    at: float
    collection: str
    values: dict[str, Any]


class Poll(NamedTuple):
    """Complete response of `/calls`, requested at `at`."""

    at: float
    records: tuple[dict[str, Any], ...] = ()


class NotFound(NamedTuple):
    """404 of the path of a leg, requested at `at`."""

    at: float
    leg_id: int


Fact = Webhook | Record | Poll | NotFound


def interpret_webhook(webhook: Webhook) -> CallEvent:
    """Return the event of a webhook, as the inbox reads it."""
    body = webhook.body
    record = JsonRecord(json.dumps(body), body)
    event = interpret(record, body["event_time"], body["id"], body["event_name"])
    assert isinstance(event, CallEvent)
    return event


def format_utc(seconds: float) -> str:
    return datetime.fromtimestamp(T0 + int(seconds), UTC).strftime("%Y-%m-%d %H:%M:%S")


@dataclass(frozen=True)
class Leg:
    """One leg: by default a call of CALLER to the phone of a user.

    `start` and `connected` are the times of the leg; `root` is in every webhook, unless it is None.
    """

    id: int
    user: int | None = ANN
    start: float = 0
    connected: float | None = None
    context: str = "LOCAL_USER"
    root: int | None = None
    src: str | None = CALLER
    src_id: str | None = "0"
    src_name: str | None = '"442079460001" <2079460001>'
    dst: str | None = DDI
    dst_id: str | None = None
    dst_name: str | None = None
    destination: str = "in"
    server: str = "uk003"

    def webhook(self, name: str, at: float, **fields: Any) -> Webhook:
        """Return the webhook `call.<name>` of the time `at`, received at once.

        The id contains the microseconds of `at`. `fields` replace or add fields of the body.
        """
        micros = round((at - int(at)) * 1_000_000)
        body = {
            "id": f"{self.server}.{T0 + int(at):08x}{micros:05x}{len(name) % 10}.{self.id:08d}",
            "event_time": format_utc(at),
            "event_name": f"call.{name}",
            "call_id": self.id,
            "state": _STATES[name],
            "connected_at": None if self.connected is None or at < self.connected
            else format_utc(self.connected),
            "start_time": format_utc(self.start),
            "context": self.context,
            "destination": self.destination,
            "duration": 0,
            "t_cause": "Normal Clearing" if name in ("hangup", "missed") else None,
            "src": self.src,
            "src_id": self.src_id,
            "src_name": self.src_name,
            "src_hash": "00000000000000000000000000000000000000aa",
            "dst": self.dst,
            **self._destination_fields(EXTENSION_IDS),
            "terminated_by": "caller" if name in ("hangup", "missed") else None,
        }  # fmt: skip
        if self.root is not None:
            body["root_call_id"] = self.root
        return Webhook(at, body | fields)

    def ringing(self, at: float | None = None) -> Webhook:
        """Return `call.ringing`, by default 0.3 s after the start."""
        return self.webhook("ringing", self.start + 0.3 if at is None else at)

    def answer(self) -> Webhook:
        """Return `call.connected` at the time `connected`."""
        assert self.connected is not None
        return self.webhook("connected", self.connected)

    def hangup(self, at: float, **fields: Any) -> Webhook:
        return self.webhook("hangup", at, **fields)

    def missed(self, at: float, **fields: Any) -> Webhook:
        """Return `call.missed`. Only `fields` add `final`."""
        return self.webhook("missed", at, **fields)

    def cdr(self, duration: int, billsec: int, at: float, **fields: Any) -> Record:
        """Return the CDR of the leg, mirrored at `at`."""
        values = {
            "id": 700000000 + self.id,
            "call_id": None,
            "live_id": self.id,
            "parent_live_id": None,
            "root_live_id": None,
            "user_id": self.user,
            "type": "O" if self.destination == "out" else "I" if billsec else "M",
            "calldate": format_utc(self.start),
            "clid": None,
            "src_id": self.src_id,
            "src_name": self.src_name,
            "src": self.src,
            "dst": self.dst,
            **self._destination_fields({user: str(user) for user in NAMES}),
            "duration": duration,
            "billsec": billsec,
            "disposition": "CONNECTED" if billsec else "NO ANSWER",
            "destination": self.destination,
            "context": "USER_LOCAL" if self.context == "LOCAL_USER" else self.context,
            "rate": 0.035,
            "charge": 0.0,
            "t_cause": "Normal Clearing",
            "info": None,
            "labels": [],
            "metadata": None,
            "nb_notes": 0,
        }
        return Record(at, "cdrs", values | fields)

    def live(self, state: str, **fields: Any) -> dict[str, Any]:
        """Return the leg as `/calls` lists it. Times are Unix seconds."""
        values = {
            "id": self.id,
            "state": state,
            "start_time": T0 + int(self.start),
            "connected_at": T0 + int(self.connected)
            if self.connected is not None and state not in ("INITIAL", "RINGING") else None,
            "context": self.context,
            "destination": self.destination,
            "src": self.src,
            "src_id": self.src_id,
            "src_name": self.src_name,
            "dst": self.dst,
            **self._destination_fields(EXTENSION_IDS),
        }  # fmt: skip
        return values | fields

    def recording(self, at: float) -> Record:
        values = {"id": 1052000000 + self.id, "live_id": self.id, "user_id": self.user}
        return Record(at, "monitors", values | {"timestamp": format_utc(self.start), "type": "I"})

    def voicemail(self, at: float, **fields: Any) -> Record:
        values = {"id": 36900000 + self.id, "live_id": self.id, "parent_live_id": None, "duration": 12}
        return Record(
            at, "voicemessages", values | {"origtime": format_utc(at - 1), "caller": self.src} | fields
        )

    def _destination_fields(self, user_ids: dict[int, str]) -> dict[str, str | None]:
        if self.dst_id is not None:
            return {"dst_id": self.dst_id, "dst_name": self.dst_name}
        if self.user is None:
            return {"dst_id": "0", "dst_name": self.dst_name}
        return {"dst_id": user_ids[self.user], "dst_name": self.dst_name or NAMES[self.user]}


def delay(fact: Webhook, seconds: float) -> Webhook:
    """Return the webhook received `seconds` later; its body is unchanged."""
    return fact._replace(at=fact.at + seconds)


def outbound(leg_id: int = 201, start: float = 0, connected: float | None = None, **fields: Any) -> Leg:
    """Return a leg of Ann to CALLER."""
    leg = Leg(
        leg_id, ANN, start, connected, "PSTN_CALL", src="1001", src_id=str(ANN), src_name="Ann Example",
        dst=CALLER, dst_id="0", dst_name="United Kingdom Mobile", destination="out",
    )  # fmt: skip
    return replace(leg, **fields)


def internal(leg_id: int, user: int, start: float = 0, connected: float | None = None, **fields: Any) -> Leg:
    """Return a leg of Ann to the extension of `user`."""
    extension = {ANN: "1001", BOB: "1002", CAT: "1003"}[user]
    leg = Leg(
        leg_id, user, start, connected, src="1001", src_id=str(ANN), src_name="Ann Example", dst=extension
    )
    return replace(leg, **fields)


def music(leg_id: int, connected: float, start: float = 0, **fields: Any) -> Leg:
    """Return the leg that connects CALLER with the music of the queue."""
    leg = Leg(leg_id, None, start, connected, SALES, dst_id="70001", dst_name="Sales")
    return replace(leg, **fields)
