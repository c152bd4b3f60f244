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
from integration.app_schema import open_app_db
from integration.catalogue import get_resource
from integration.context import AppContext
from integration.core import clock
from integration.core.health import Health
from integration.core.json_records import JsonRecord
from integration.exports import deliveries
from integration.exports import schedules as export_schedules
from integration.exports.schedule_runner import ScheduleRunner
from integration.exports.schedules import Schedule
from integration.mirror.records.upsert import upsert
from integration.mirror.schema import open_mirror
from integration.mirror.sync_state import collection_state, completeness
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
        self.mirror_db, self.app_db = open_mirror(folder / "mirror.db"), open_app_db(folder / "house.db")
        self.health = Health()
        self.parts = cast(
            AppContext,
            SimpleNamespace(
                settings=self.settings, mirror_db=self.mirror_db, app_db=self.app_db, health=self.health
            ),
        )
        people.create(self.app_db, BOSS, "supervisor", password_hash="x")
        self.restart()

    def restart(self) -> None:
        """All that a process kept in memory is gone."""
        self.schedules = ScheduleRunner(self.parts)

    def close(self) -> None:
        self.schedules.stop()
        self.mirror_db.close()
        self.app_db.close()

    # --- what there is ---------------------------------------------------------------------------

    def cdrs(self, *times: str, first: int = 1) -> None:
        """A CDR at each of these times (UTC)."""
        self.put("cdrs", *({"id": first + n, "calldate": at, "src": "1"} for n, at in enumerate(times)))

    def put(self, collection: str, *records: dict[str, Any]) -> None:
        documents = [JsonRecord(json.dumps(record), record) for record in records]
        target = get_resource(collection)
        self.mirror_db.write(
            lambda tx: upsert(tx, target, documents, source="sync", requested_at=clock.utc_text())
        )

    def walked(self, collection: str = "cdrs") -> None:
        """All of it was read just now."""

        def work(tx: Any) -> None:
            collection_state.begin_full_sync(tx, collection)
            collection_state.finish_full_sync(tx, collection, None, None, clock.utc_text())

        self.mirror_db.write(work)

    def counted(self, day: str, total: int = 1, ours: int = 1, collection: str = "cdrs") -> None:
        """The platform was asked for this day just now."""
        self.mirror_db.write(lambda tx: completeness.save_day(tx, collection, day, total, ours))

    # --- schedules -------------------------------------------------------------------------------

    def schedule(self, name: str = "Every day", **changed: Any) -> Schedule:
        values: dict[str, Any] = {
            "id": 0, "name": name, "file": "", "who": BOSS, "export": "cdrs", "form": "csv",
            "args": {"columns": "id,calldate"}, "every": "day", "at": "02:30", "zone": "Europe/Berlin",
            "target": "folder", "place": "", "secret": "", "wait_hours": 6, "incomplete": True, "since": "",
            "paused_at": None, "created_at": "",
        }  # fmt: skip
        number = export_schedules.add(self.app_db, Schedule(**{**values, **changed}))
        with self.app_db.read() as connection:
            found = export_schedules.find(connection, number)
        assert found is not None
        return found

    def deliver(self, *schedules: Schedule) -> None:
        """One look at these, or all, one after another."""
        with self.app_db.read() as connection:
            every = export_schedules.list_all(connection)
        for schedule in every:
            if schedule.paused_at is None and (not schedules or schedule.id in {one.id for one in schedules}):
                self.schedules.deliver_due(schedule)

    def crash_after_delivery(self) -> None:
        """The process dies between a delivery and its mark."""

        def crash(*_: object) -> None:
            raise KeyboardInterrupt

        with pytest.MonkeyPatch.context() as broken:
            broken.setattr(deliveries, "mark_delivered", crash)
            with pytest.raises(KeyboardInterrupt):
                self.deliver()

    def log(self, schedule: Schedule) -> list[tuple[str, str, str]]:
        """(period, state, result) of each attempt, the oldest first."""
        with self.app_db.read() as connection:
            found = deliveries.list_attempts(connection, schedule.id)
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


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock("2026-11-18 12:00:00")
    monkeypatch.setattr(clock, "unix", fake)
    return fake
