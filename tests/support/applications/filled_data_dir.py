"""Data directory with all kinds of records about two customers, and commands."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from integration.access import audit, people
from integration.catalogue import get_resource
from integration.cli import erase, hold
from integration.core import clock
from integration.core.commands import Progress
from integration.core.json_records import JsonRecord
from integration.factory import Product
from integration.inbox.replay import replay
from integration.mirror.derived.rebuild import rebuild_due
from integration.mirror.records.upsert import replace_all, upsert
from integration.settings.model import Settings, load
from integration.sync.writing import write_log
from integration.workspace import callbacks, notes, reads
from integration.workspace.callback_items import recompute_items
from tests.support.application import running_app
from tests.support.harness import NOWHERE, make_environment

THEIRS, OTHER, DDI = "447700900123", "447700900456", "442079460002"
"""Numbers of the customer that tests erase or hold, of another customer, and of the account."""
LEG, INNER, OTHER_LEG = 4_300_000_001, 4_300_000_002, 4_300_000_900


@cache  # One value in a test run, also when the second ends during it.
def stamp(days: float) -> str:
    """UTC text of the time `days` ago."""
    return clock.utc_text(clock.now() - timedelta(days=days))


@dataclass
class FilledDataDir:
    """Data directory below `folder`, to be filled by `fill`."""

    folder: Path
    days: float = 40.0
    """Age of all records."""

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    def environment(self, **more: str) -> dict[str, str]:
        return make_environment(self.data_dir, **{"dashboard__country": "GB", **more})

    def settings(self, **more: str) -> Settings:
        return load(None, self.environment(**more))

    @contextmanager
    def product(self, **settings: str) -> Iterator[Product]:
        """Yield the product on this data directory, before its start."""
        options = {"platform__base_url": NOWHERE, "platform__api_key": "0" * 40, **settings}
        with running_app(self.data_dir, **options) as app:
            yield app.product

    def run(self, command: Any, *arguments: str) -> Result:
        return CliRunner().invoke(command, arguments, env=self.environment(), catch_exceptions=False)

    def erase(self, *arguments: str) -> Result:
        return self.run(erase.command, *arguments)

    def hold(self, *arguments: str) -> Result:
        return self.run(hold.command, *arguments)

    def find_texts(self, *texts: str) -> dict[str, list[str]]:
        """Find texts in all files.

        Returns the texts found, by path below data_dir.
        """
        found: dict[str, list[str]] = {}
        for path in sorted(self.data_dir.rglob("*")):
            if path.is_file():
                body = path.read_bytes()
                if present := [text for text in texts if text.encode() in body]:
                    found[str(path.relative_to(self.data_dir))] = present
        return found

    # --- contents ------------------------------------------------------------------------------

    def records(self) -> dict[str, list[dict[str, Any]]]:
        """Records by collection, as the platform lists them.

        The customer's number is written in every format that the platform uses.
        """
        at = stamp(self.days)
        call = {"duration": 65, "billsec": 60, "type": "I", "destination": "in", "disposition": "CONNECTED"}
        call |= {"user_id": 1000002, "context": "PSTN_CALL", "charge": 0.5}
        return {
            "users": [{"id": 1000002, "first_name": "Carl", "last_name": "Clerk", "ext": "201"}],
            "ddis": [{"id": 7, "e164": DDI, "name": "Main", "sms_enabled": True}],
            "contacts": [
                {"id": 31, "first_name": "Ann", "last_name": "Example", "mobile": "07700 900123"},
                {"id": 32, "first_name": "Bob", "last_name": "Other", "mobile": f"+{OTHER}"},
            ],
            "cdrs": [
                {"id": 1, "calldate": at, "live_id": LEG, "src": THEIRS, "src_name": "Ann Example",
                 "clid": f'"Ann Example" <{THEIRS[2:]}>', "dst": DDI, "info": "Ann", **call},
                {"id": 2, "calldate": at, "live_id": INNER, "parent_live_id": LEG, "root_live_id": LEG,
                 "src": "201", "src_name": "Ann Example", "dst": "202", **call},
                {"id": 3, "calldate": at, "live_id": OTHER_LEG, "src": OTHER, "src_name": "Bob Other",
                 "dst": DDI, **call},
            ],
            "monitors": [
                {"id": 11, "timestamp": at, "live_id": LEG, "caller": f"+{THEIRS}", "called": DDI,
                 "duration": 60, "size": 5, "summary": "Ann's order",
                 "transcript": "This is Ann Example " * 2000},
                {"id": 12, "timestamp": at, "live_id": INNER, "caller": "201", "called": "202",
                 "duration": 60, "size": 5, "transcript": "Ann Example is on the line"},
                {"id": 13, "timestamp": at, "live_id": OTHER_LEG, "caller": OTHER, "called": DDI,
                 "duration": 60, "size": 5, "transcript": "Bob Other speaking"},
            ],
            "voicemessages": [
                {"id": 21, "origtime": at, "live_id": 0, "caller": f"00{THEIRS}", "dialled": DDI,
                 "callerid": f'"Ann Example" <{THEIRS}>', "duration": 5, "transcript": "Ann Example again"},
                {"id": 22, "origtime": at, "live_id": 0, "parent_live_id": 0, "caller": OTHER,
                 "dialled": DDI, "duration": 5, "transcript": "Bob Other again"},
            ],
            "sms": [
                {"id": 41, "created_at": at, "from": THEIRS, "to": DDI, "type": "I", "user_id": 1000002,
                 "message": "Ann Example here, mine is 0 7700 900 123", "from_name": "Ann Example"},
                {"id": 42, "created_at": at, "from": OTHER, "to": DDI, "type": "I", "message": "Bob Other"},
            ],
            "faxes": [
                {"id": 51, "created_at": at, "from": f"+{THEIRS}", "to": DDI, "pages": 1,
                 "filename": f"fax-to-{DDI}-from-{THEIRS}-at-20260301120000.pdf"},
            ],
            "callmeback/visitors": [{"phone": f"+{THEIRS}", "name": "Ann Example"}],
        }  # fmt: skip

    def webhooks(self) -> list[bytes]:
        """Bodies of webhooks about the same customers."""
        at = stamp(self.days)
        events: list[dict[str, Any]] = []
        both = ((LEG, THEIRS, "Ann Example", "a"), (OTHER_LEG, OTHER, "Bob Other", "b"))
        for leg, number, name, hashed in both:
            for event in ("call.ringing", "call.connected", "call.hangup"):
                events.append({
                    "id": f"srv.{leg}.{event}", "event_name": event, "event_time": at, "call_id": leg,
                    "src": number, "src_name": f'"{name}" <{number}>', "dst": DDI, "destination": "in",
                    "src_hash": hashed * 40, "state": "HANGUP",
                })  # fmt: skip
        events.append({
            "id": "srv.inner", "event_name": "call.ringing", "event_time": at, "call_id": INNER,
            "root_call_id": LEG, "src": "201", "src_name": "Ann Example", "dst": "202",
        })  # fmt: skip
        events.append({
            "id": "srv.sms", "event_name": "sms.received", "event_time": at, "from_no": THEIRS,
            "to_no": DDI, "text": "Ann Example by webhook",
        })  # fmt: skip
        # An unknown event without an id.
        events.append({"event_name": "new.kind", "event_time": at, "who": {"phone": f"+{THEIRS}"}})
        return [json.dumps(event).encode() for event in events]

    def sync(self, product: Product) -> None:
        """Mirror `records` as a full sync does."""
        for name, records in self.records().items():
            documents = [JsonRecord(json.dumps(record, separators=(",", ":")), record) for record in records]
            resource = get_resource(name)
            store = partial(
                upsert if resource.key else replace_all,
                resource=resource,
                records=documents,
                source="sync",
                requested_at=clock.utc_text(),
            )
            product.context.mirror_db.write(store)

    def receive(self, product: Product) -> None:
        """Store and apply `webhooks`, and store a body that is not JSON."""
        for acknowledgement in [product.context.inbox.receive(body) for body in self.webhooks()]:
            acknowledgement.result(30)
        product.context.inbox.receive(b"not JSON of " + THEIRS.encode()).result(30)
        replay(product.context, {}, Progress(lambda _: None, lambda: True))
        rebuild_due(product.context.mirror_db, product.context.rules)

    def fill(self) -> FilledDataDir:
        """Create records, webhooks, files, notes, call-backs and log entries."""
        with self.product() as product:
            context = product.context
            self.sync(product)
            self.receive(product)
            old = stamp(self.days)
            context.inbox.database.write(lambda tx: tx.execute("UPDATE inbox SET received_at = ?", (old,)))
            for path in self.files(product).values():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"audio")
            context.mirror_db.write(lambda tx: tx.execute("UPDATE media SET state = 'have', size = 5"))
            app_db = context.app_db
            user = people.create(app_db, "sue@example.com", "admin", password_hash="x")
            app_db.write(lambda tx: notes.add_note(tx, LEG, "sue@example.com", "Ann Example is cross"))
            app_db.write(lambda tx: notes.add_note(tx, OTHER_LEG, "sue@example.com", "Bob Other is not"))
            app_db.write(_add_callback)
            callbacks.record_action(app_db, 1, "sue@example.com", "note", "ring Ann Example")
            reads.mark_thread_read(app_db, user.id, THEIRS, stamp(1))
            audit.record(app_db, "sue@example.com", "export", f"calls of +{THEIRS}")
            write_log.begin(
                app_db, who="key", address="", method="POST", path=f"/users/1/sms/{THEIRS}",
                body=json.dumps({"to": THEIRS, "message": "Dear Ann Example"}).encode(),
            )  # fmt: skip
        return self

    def files(self, product: Product) -> dict[tuple[str, int], Path]:
        """Paths of archived files, by kind and record id."""
        with product.context.mirror_db.read() as connection:
            rows = connection.execute("SELECT kind, record_id, path FROM media").fetchall()
        return {(row[0], row[1]): self.data_dir / row[2] for row in rows}


def _add_callback(tx) -> None:
    """Add a call-back whose call is not in the mirror.

    Such items remain when the mirror is rebuilt.
    """
    tx.execute(
        "INSERT INTO callback_calls VALUES (77, ?, ?, 'missed', ?, 'Ann Example', 1)",
        (f"+{THEIRS}", stamp(50), DDI),
    )
    recompute_items(tx, f"+{THEIRS}")


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> Path:
    """Data directory to be copied. Filling it takes longer than most tests."""
    place = FilledDataDir(tmp_path_factory.mktemp("filled"))
    place.fill()
    return place.data_dir


@pytest.fixture
def place(tmp_path, filled) -> FilledDataDir:
    """Copy of the filled data directory: records of THEIRS and of OTHER."""
    shutil.copytree(filled, tmp_path / "data")
    return FilledDataDir(tmp_path)


@pytest.fixture(scope="module")
def erased_once(tmp_path_factory, filled) -> Path:
    """Data directory to be copied, in which THEIRS is erased."""
    place = FilledDataDir(tmp_path_factory.mktemp("erased"))
    shutil.copytree(filled, place.data_dir)
    assert place.erase(f"+{THEIRS}", "--yes").exit_code == 0
    return place.data_dir


@pytest.fixture
def erased(tmp_path, erased_once) -> FilledDataDir:
    """Copy of the data directory in which THEIRS is erased."""
    shutil.copytree(erased_once, tmp_path / "data")
    return FilledDataDir(tmp_path)
