"""The dashboard's pages behind the real guard, on real databases, served over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from flask import Flask
from werkzeug.serving import make_server

from integration.access import people, sessions
from integration.access.authenticator import Authenticator
from integration.app_schema import open_app_db
from integration.context import EXTENSION, AppContext
from integration.core import clock
from integration.core.health import Health
from integration.core.phone_numbers import PhoneNumbers
from integration.core.scheduler import Scheduler
from integration.dashboard import pages
from integration.dashboard.calls.live import render_change, render_heartbeat
from integration.dashboard.site import guard, headers, login
from integration.factory import ROOT
from integration.inbox.apply import Applier
from integration.inbox.store import Inbox
from integration.live.hub import Hub
from integration.live.stream import make_stream
from integration.mirror import hooks
from integration.mirror.calls.facts import CallEvent
from integration.mirror.calls.store import CallStore
from integration.mirror.privacy.erasure_gate import ErasureGate
from integration.mirror.privacy.held_records import HeldRecords
from integration.mirror.records import change_log
from integration.mirror.schema import get_epoch, open_mirror
from integration.platform_api.client import Platform
from integration.settings.model import load
from integration.web import trusted_proxies

OURS = "442079460002"
CALLER = "447700900101"

_CALL: dict[str, Any] = {
    "direction": "in", "state": "ended", "unconfirmed": 0, "provisional": 0, "outcome": "answered",
    "hold_incomplete": 0, "party": CALLER, "party_e164": f"+{CALLER}", "party_name": "",
    "our_number": OURS, "our_e164": f"+{OURS}", "legs": 1, "recordings": 0, "voicemails": 0, "cdrs": 1,
    "sources": "cdr", "change_no": 0, "wait_seconds": 7, "talk_seconds": 60,
}  # fmt: skip

_LEG: dict[str, Any] = {
    "started": 0, "side": "in", "state": "ENDED", "connected": 1, "inferred": 0, "missing": 0, "cdrs": 1,
    "recordings": 0, "voicemails": 0, "sources": "cdr", "origins": "{}",
}  # fmt: skip


class Site:
    """A running dashboard. `client(role)` is a logged-in HTTP session."""

    def __init__(self, folder: Path, **settings: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        values = {
            "platform__base_url": "http://127.0.0.1:9/v1.2",
            "platform__user_id": "1000001",
            "platform__api_key": "0" * 40,
            "storage__data_dir": str(folder),
            "dashboard__timezone": "Europe/London",
            "dashboard__country": "GB",
            **settings,
        }
        self.settings = load(None, {f"SWITCHROOM_{key.upper()}": value for key, value in values.items()})
        numbers = PhoneNumbers(self.settings.dashboard.country)
        self.calls = CallStore(phone_numbers=numbers)
        self.mirror_db = open_mirror(folder / "mirror.db", on_commit=lambda told: self.hub.publish(told))
        self.app_db = open_app_db(folder / "house.db")
        self.inbox = Inbox(folder / "inbox.db")
        hooks.register_hooks(self.mirror_db, self.calls)
        with self.mirror_db.read() as connection:
            self.hub = Hub(lambda number: change_log.since(self.mirror_db, number), get_epoch(connection))
        self.files: dict[tuple[str, int], Path] = {}
        self.health = Health()
        # Without an address no request may be sent to the platform.
        platform = Platform(self.settings.platform) if "platform__base_url" in settings else None
        self.parts = AppContext(
            settings=self.settings,
            health=self.health,
            mirror_db=self.mirror_db,
            app_db=self.app_db,
            inbox=self.inbox,
            platform=platform,
            scheduler=Scheduler(self.health),
            sync_jobs=None,  # type: ignore[arg-type]
            call_store=self.calls,
            phone_numbers=numbers,
            live_hub=self.hub,
            authenticator=Authenticator(self.settings, self.mirror_db, self.app_db, platform),
            applier=Applier(self.inbox, self.mirror_db, self.calls, lambda: None),
            held_records=HeldRecords(),
            erasure_gate=ErasureGate(None),
            fetch_file=lambda kind, number: self.files[kind, number],
            remove_prepared_exports=int,
        )
        self.app = self._make_app()
        self._server = make_server("127.0.0.1", 0, self.app, threaded=True)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def _make_app(self) -> Flask:
        app = Flask("switchroom", template_folder=str(ROOT / "templates"), static_folder=str(ROOT / "static"))
        app.extensions[EXTENSION] = self.parts
        trusted_proxies.install(app, ())
        headers.install(app)
        watch = guard.install(
            app,
            self.app_db,
            public_url=None,
            agents_see=self.settings.dashboard.agents_see,
            open_to_all=("static", "wall"),
        )
        app.register_blueprint(login.make_blueprint(self.app_db))
        app.register_blueprint(
            make_stream(self.hub, render_change, 200, find_viewer=watch.viewer, heartbeat=render_heartbeat)
        )
        pages.register(app)
        return app

    def close(self) -> None:
        self.hub.close()
        self._server.shutdown()
        self._server.server_close()
        self.parts.scheduler.stop(10)
        for database in (self.mirror_db, self.app_db, self.inbox):
            database.close()

    # --- who asks --------------------------------------------------------------------------------

    def token(
        self, role: str = "admin", platform_user_id: int | None = None, email: str | None = None
    ) -> str:
        """A session token of a new person with this role, as the cookie `session` carries it."""
        email = email or f"{role}{len(people.list_all(self.app_db))}@example.com"
        person = people.create(self.app_db, email, role, password_hash="x", platform_user_id=platform_user_id)
        return sessions.create(self.app_db, person.id)

    def client(self, role: str = "admin", platform_user_id: int | None = None) -> Client:
        return Client(self.url, self.token(role, platform_user_id))

    # --- what there is ---------------------------------------------------------------------------

    def put(self, table: str, **values: Any) -> None:
        """A row of a collection table, or of ours."""
        if not table.startswith("_") and table != "media":
            now = clock.utc_text()
            values = {"_doc": "{}", "_first_seen": now, "_last_seen": now, "_source": "sync", **values}
        names = ", ".join(f'"{name}"' for name in values)
        marks = ", ".join("?" * len(values))
        self.mirror_db.write(
            lambda tx: tx.execute(f'INSERT INTO "{table}" ({names}) VALUES ({marks})', list(values.values()))
        )

    def call(self, number: int, started_at: str, **values: Any) -> None:
        """A row of `_calls`, as mirror/calls/store.py would write it."""
        moments = {"started_at": started_at, "state_since": started_at}
        if values.get("state", "ended") == "ended":
            moments["ended_at"] = started_at
        self.put("_calls", **{**_CALL, "id": number, **moments, **values})

    def leg(self, number: int, **values: Any) -> None:
        """A row of `_legs`, for calls that were not made of events."""
        self.put("_legs", **{**_LEG, "leg_id": number, "call_id": number, **values})

    def event(self, name: str, leg: int, at: str, **values: Any) -> None:
        """A `call.*` webhook, through the store that makes calls of them."""
        event = CallEvent(
            event_id=f"t.{leg}.{name}.{at}",
            name=name,
            leg_id=leg,
            root_id=leg,
            event_time=at,
            micros=None,
            server="t",
            state=values.pop("state", None),
            **{
                "start_time": at,
                "context": "LOCAL_USER",
                "destination": "in",
                "src": CALLER,
                "src_id": "0",
                "dst": OURS,
                "dst_id": "10002",
                "dst_name": "Ann Example",
                **values,
            },
        )
        self.mirror_db.write(lambda tx: self.calls.add_events(tx, [event]))


class Client:
    """HTTP with a session: `get` and `post` know the cookie and the CSRF token."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.csrf = sessions.derive_csrf_token(token)
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.cookies.set("session", token)
        self._session.headers["Accept"] = "text/html"

    def get(self, path: str, **options: Any) -> requests.Response:
        return self._session.get(self.url + path, timeout=20, **options)

    def post(self, path: str, *, csrf: bool = True, follow: bool = True, **fields: str) -> requests.Response:
        data = {**fields, **({"csrf_token": self.csrf} if csrf else {})}
        return self._session.post(self.url + path, data=data, timeout=20, allow_redirects=follow)


@contextmanager
def running(folder: Path, **settings: str) -> Iterator[Site]:
    site = Site(folder, **settings)
    try:
        yield site
    finally:
        site.close()
