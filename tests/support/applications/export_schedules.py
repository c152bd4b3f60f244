"""What tests of schedules share: a clock that they set, a mirror whose completeness they tell, and a mail
server, an HTTP server and folders to deliver to."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from integration.access import people
from integration.app_schema import open_house
from integration.catalogue import resource
from integration.context import House
from integration.core import clock
from integration.core.health import Health
from integration.core.json_records import Document
from integration.exports import deliveries as export_deliveries
from integration.exports import schedule_table as export_schedules
from integration.exports.schedule_table import Schedule
from integration.exports.schedules import Schedules
from integration.mirror.records.upsert import upsert
from integration.mirror.schema import open_mirror
from integration.mirror.sync_state import collection_state as walks
from integration.mirror.sync_state import completeness as coverage
from integration.settings.model import Settings

BOSS = "boss@example.com"


class Clock:
    """The time of the whole process, as a test wants it."""

    def __init__(self, text: str) -> None:
        self.set(text)

    def set(self, text: str) -> None:
        """`text` in UTC."""
        self.seconds = datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()

    def on(self, **more: float) -> None:
        self.seconds += timedelta(**more).total_seconds()

    def __call__(self) -> float:
        return self.seconds


class Room:
    """Databases, people and schedules. `boss` may export; `deliver()` looks once at every schedule."""

    def __init__(self, folder: Path, time: Clock, **sections: Any) -> None:
        self.folder, self.time = folder, time
        self.settings = Settings.model_validate(
            {
                "platform": {"base_url": "http://127.0.0.1:9/v1.2"},
                "storage": {"data_dir": folder},
                "dashboard": {"timezone": "Europe/Berlin"},
                **sections,
            }
        )
        self.mirror, self.house = open_mirror(folder / "mirror.db"), open_house(folder / "house.db")
        self.health = Health()
        self.parts = cast(
            House,
            SimpleNamespace(settings=self.settings, mirror=self.mirror, house=self.house, health=self.health),
        )
        people.create(self.house, BOSS, "supervisor", password_hash="x")
        self.restart()

    def restart(self) -> None:
        """All that a process kept in memory is gone."""
        self.schedules = Schedules(self.parts)

    def close(self) -> None:
        self.schedules.stop()
        self.mirror.close()
        self.house.close()

    # --- what there is ---------------------------------------------------------------------------

    def cdrs(self, *times: str, first: int = 1) -> None:
        """A CDR at each of these times (UTC)."""
        self.put("cdrs", *({"id": first + n, "calldate": at, "src": "1"} for n, at in enumerate(times)))

    def put(self, collection: str, *records: dict[str, Any]) -> None:
        documents = [Document(json.dumps(record), record) for record in records]
        target = resource(collection)
        self.mirror.write(lambda tx: upsert(tx, target, documents, source="sync", asked_at=clock.stamp()))

    def walked(self, collection: str = "cdrs") -> None:
        """All of it was read just now."""

        def work(tx: Any) -> None:
            walks.begin(tx, collection)
            walks.finish(tx, collection, None, None, clock.stamp())

        self.mirror.write(work)

    def counted(self, day: str, total: int = 1, ours: int = 1, collection: str = "cdrs") -> None:
        """The platform was asked for this day just now."""
        self.mirror.write(lambda tx: coverage.note(tx, collection, day, total, ours))

    # --- schedules -------------------------------------------------------------------------------

    def schedule(self, name: str = "Every day", **changed: Any) -> Schedule:
        values: dict[str, Any] = {
            "id": 0, "name": name, "file": "", "who": BOSS, "export": "cdrs", "form": "csv",
            "args": {"columns": "id,calldate"}, "every": "day", "at": "02:30", "zone": "Europe/Berlin",
            "target": "folder", "place": "", "secret": "", "wait_hours": 6, "incomplete": True, "since": "",
            "paused_at": None, "created_at": "",
        }  # fmt: skip
        number = export_schedules.add(self.house, Schedule(**{**values, **changed}))
        with self.house.read() as connection:
            found = export_schedules.find(connection, number)
        assert found is not None
        return found

    def deliver(self, *schedules: Schedule) -> None:
        """One look at these, or all, one after another."""
        with self.house.read() as connection:
            every = export_schedules.everything(connection)
        for schedule in every:
            if schedule.paused_at is None and (not schedules or schedule.id in {one.id for one in schedules}):
                self.schedules.serve(schedule)

    def crash_after_delivery(self) -> None:
        """The process dies between a delivery and its mark."""

        def crash(*_: object) -> None:
            raise KeyboardInterrupt

        with pytest.MonkeyPatch.context() as broken:
            broken.setattr(export_deliveries, "delivered", crash)
            with pytest.raises(KeyboardInterrupt):
                self.deliver()

    def log(self, schedule: Schedule) -> list[tuple[str, str, str]]:
        """(period, state, result) of each attempt, the oldest first."""
        with self.house.read() as connection:
            found = export_deliveries.attempts(connection, schedule.id)
        return [(one.period, one.state, one.result) for one in reversed(found)]

    def files(self, place: str = "") -> dict[str, str]:
        folder = self.folder / "exports" / place
        return {path.name: path.read_bytes().decode() for path in sorted(folder.glob("*")) if path.is_file()}


class Mailroom(Controller):
    """A mail server that keeps what it gets in `letters`; user 'switchroom', password 'canary-password'."""

    def __init__(self, *, tls: ssl.SSLContext | None = None, refuse: str = "") -> None:
        self.letters: list[EmailMessage] = []
        self.refuse = refuse
        super().__init__(
            self,
            hostname="127.0.0.1",
            port=0,
            tls_context=tls,
            require_starttls=tls is not None,
            auth_require_tls=False,
            authenticator=self._authenticate,
        )

    def _trigger_server(self) -> None:
        assert self.server is not None
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()

    @staticmethod
    def _authenticate(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        good = (data.login, data.password) == (b"switchroom", b"canary-password")
        # Not handled: the server itself says 535.
        return AuthResult(success=good, handled=False)

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if self.refuse and self.refuse in address:
            return "550 nobody here"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        letter = message_from_bytes(envelope.content, policy=policy.default)
        self.letters.append(cast(EmailMessage, letter))
        return "250 OK"


@contextmanager
def mailroom(**options: Any) -> Iterator[Mailroom]:
    room = Mailroom(**options)
    room.start()
    try:
        yield room
    finally:
        room.stop()
