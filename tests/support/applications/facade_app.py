"""The facade behind a real Flask application, on real databases, in front of a small platform over HTTP."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from flask import Flask
from flask.testing import FlaskClient

from integration.access import keys
from integration.access.authenticator import Authenticator
from integration.app_schema import open_app_db
from integration.catalogue import get_resource
from integration.context import EXTENSION, AppContext
from integration.core import clock
from integration.core.health import Health
from integration.core.json_records import JsonRecord
from integration.core.scheduler import Scheduler
from integration.facade.blueprint import make_blueprint
from integration.mirror.records import single_record
from integration.mirror.records.upsert import replace_all, upsert
from integration.mirror.schema import open_mirror
from integration.mirror.sync_state import collection_state
from integration.platform_api import retry
from integration.platform_api.client import Platform
from integration.settings.model import Settings
from integration.sqlite.database import Database
from tests.support.scripted_server import Asked, Reply, Server

ADMIN = "b" * 40
USER = "c" * 40
OTHER = "d" * 40
"""An administrator of another customer of the platform."""
UNTOLD = "e" * 40
"""An administrator of whom the platform does not tell whose user it is."""
FIXTURES = Path(__file__).parents[2] / "fixtures" / "platform"


def sample(name: str) -> dict[str, Any]:
    return json.loads((FIXTURES / f"{name}.json").read_text())


@dataclass
class Room:
    """Everything a test touches. `base` is where the facade answers."""

    server: Server
    mirror_db: Database
    app_db: Database
    platform: Platform
    client: FlaskClient
    context: AppContext
    app: Flask
    base: str = "/v1.2/voipstudio"
    headers: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, headers: dict[str, str] | None = None, **options: Any) -> Any:
        return self.client.get(
            self.base + path, headers=self.headers if headers is None else headers, **options
        )

    def put(self, collection: str, *records: dict[str, Any], complete: bool = True) -> None:
        """Mirror these records, and say that a walk has read all of the collection."""
        target = get_resource(collection)
        documents = [JsonRecord(json.dumps(record, separators=(",", ":")), record) for record in records]

        def work(tx: Any) -> None:
            store = upsert if target.key is not None else replace_all
            store(tx, target, documents, source="sync", requested_at=clock.utc_text())
            if complete:
                collection_state.begin_full_sync(tx, collection)
                collection_state.finish_full_sync(tx, collection, None, len(documents))

        self.mirror_db.write(work)

    def key(self, name: str = "tests", scope: str = "read", **options: Any) -> dict[str, str]:
        _, secret = keys.add(self.app_db, name, scope, options.get("collections"), options.get("user"))
        return {"X-Auth-Token": secret}

    def away(self) -> None:
        """From now on the platform gives no usable answer."""
        self.server.routes.clear()
        self.server.routes["*"] = lambda asked, reply: reply.json({"message": "down", "errors": []}, 503)

    def asked(self, path: str) -> int:
        return self.server.count(self.base + path)


def me_of(asked: Asked) -> tuple[int, dict[str, Any]]:
    """The platform's view of who asks."""
    shown = asked.headers.get("X-Auth-Token") or asked.headers.get("Authorization", "")
    people = {
        ADMIN: {"id": 1000009, "customer_id": 100001, "email": "root@example.com", "is_root": True},
        USER: {"id": 1000002, "customer_id": 100001, "email": "bob@example.com", "is_root": False},
        OTHER: {"id": 1000055, "customer_id": 100777, "email": "eve@example.com", "is_root": True},
        UNTOLD: {"id": 1000056, "email": "una@example.com", "is_root": True},
        "a" * 40: {**sample("response-me-200")["data"], "is_root": "true"},
    }
    user = None
    if shown.startswith("Basic "):
        user, _, shown = base64.b64decode(shown[6:]).decode().partition(":")
    if shown not in people or user not in (None, str(people[shown]["id"]), people[shown]["email"]):
        return 401, {"message": "Unauthorized", "errors": []}
    return 200, {"data": people[shown], "links": {}}


def basic(user: object, secret: str) -> dict[str, str]:
    """Headers of HTTP Basic authentication."""
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode()}


def journal(room: Room) -> list[dict[str, Any]]:
    """Rows of the write log, oldest first."""
    with room.app_db.read() as connection:
        return [dict(row) for row in connection.execute("SELECT * FROM journal ORDER BY id")]


def stored(room: Room, collection: str, key: int) -> dict[str, Any] | None:
    """The mirrored record, or None if it is missing."""
    with room.mirror_db.read() as connection:
        found = single_record.find_record(connection, get_resource(collection), key)
    return None if found is None or found.is_missing else json.loads(found.doc)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """`later(seconds)` moves the clock forward. Import this fixture where it is used."""
    real, moved = clock.unix, [0.0]
    monkeypatch.setattr(clock, "unix", lambda: real() + moved[0])

    def later(seconds: float) -> None:
        moved[0] += seconds

    return later


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    """Sections that a test may change before it asks for `room`."""
    return {"facade": {}, "platform": {}, "storage": {"data_dir": tmp_path}}


@pytest.fixture
def room(settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    monkeypatch.setattr(retry, "GAPS", (0.001,))
    server = Server()
    base = "/v1.2/voipstudio"
    server.routes["*"] = lambda asked, reply: reply.json({"message": "Not found", "errors": []}, 404)
    server.routes[f"{base}/me"] = lambda asked, reply: reply.json(me_of(asked)[1], me_of(asked)[0])
    server.routes[f"{base}/ping"] = lambda asked, reply: reply.json({"message": "Pong"})
    settings["platform"] = {
        "base_url": server.url + base,
        "user_id": "1000001",
        "api_key": "a" * 40,
        "timeout": 5,
        **settings["platform"],
    }
    loaded = Settings.model_validate(settings)
    mirror_db, app_db = open_mirror(tmp_path / "mirror.db"), open_app_db(tmp_path / "house.db")
    platform, health = Platform(loaded.platform), Health()
    services = SimpleNamespace(
        settings=loaded,
        health=health,
        mirror_db=mirror_db,
        app_db=app_db,
        platform=platform,
        scheduler=Scheduler(health),
        authenticator=Authenticator(loaded, mirror_db, app_db, platform),
    )
    context = cast(AppContext, services)
    app = Flask(__name__)
    app.extensions[EXTENSION] = context
    app.register_blueprint(make_blueprint(context))
    room = Room(server, mirror_db, app_db, platform, app.test_client(), context, app)
    room.headers = room.key()
    yield room
    context.scheduler.stop(10)
    platform.close()
    mirror_db.close()
    app_db.close()
    server.close()


@pytest.fixture
def writer(room: Room) -> dict[str, str]:
    """Headers with a local key of scope `write`."""
    return room.key("writer", "write")


Say = Callable[[Asked, Reply], None]


def says(value: Any, status: int = 200) -> Say:
    return lambda asked, reply: reply.json(value, status)
