"""Puts the product together. The only file that knows every part."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from flask import Flask

from integration import __version__
from integration.access import browser as security
from integration.access import commands as house_commands
from integration.access import sessions, setup_links
from integration.alerts.loops import alert_loops
from integration.app_schema import open_house
from integration.context import EXTENSION, House
from integration.core import clock
from integration.core.consumer import Loop
from integration.core.health import Health
from integration.core.phone_numbers import Numbers
from integration.dashboard import pages
from integration.dashboard.calls.live import beat, present
from integration.dashboard.site import guard, login
from integration.dashboard.site.background_jobs import EXTENSION as JOBS
from integration.dashboard.site.background_jobs import Jobs
from integration.exports import routes as export_routes
from integration.exports.jobs import EVERY_SECONDS as LOOK_SECONDS
from integration.exports.jobs import EXTENSION as PREPARED
from integration.exports.jobs import Preparer
from integration.exports.query import give_back_stalled
from integration.exports.schedules import EVERY_SECONDS, WAKE, Schedules
from integration.facade.blueprint import make_blueprint as make_facade
from integration.inbox import replay_command as upkeep_commands
from integration.inbox.apply import Applier
from integration.inbox.receive import PREFIX, Receiver
from integration.inbox.store import Inbox
from integration.live.hub import Hub
from integration.live.stream import make_stream
from integration.maintenance import rotation
from integration.maintenance.rotation import Rotation
from integration.mirror import hooks as wiring
from integration.mirror.calls import live_table as live_calls
from integration.mirror.calls.rules import Rules
from integration.mirror.calls.store import CallStore
from integration.mirror.page_queries import report_rollups as summary
from integration.mirror.page_queries import search_index as search
from integration.mirror.privacy import retention_rules as expiry
from integration.mirror.privacy.erasure_gate import Erased
from integration.mirror.privacy.held_records import Held
from integration.mirror.records import change_log as changes
from integration.mirror.schema import epoch, open_mirror
from integration.mirror.sync_state.media_files import Kind
from integration.platform_api.client import Platform
from integration.privacy import erase as erasing
from integration.privacy import erasures, retention
from integration.privacy import hold_commands as holding
from integration.privacy.erase import held_now
from integration.privacy.retention import Keeper
from integration.server import BLOCKING_THREADS
from integration.server.control_channel import Handler
from integration.server.shutdown import end_broken
from integration.settings.data_dir_secrets import HookSecrets, erasure_key
from integration.settings.model import Settings
from integration.sqlite.database import Database
from integration.sqlite.transaction import Change
from integration.sync.commands import handlers as sync_commands
from integration.sync.files import download as recordings
from integration.sync.jobs import Clockwork
from integration.sync.writing import deletion_poller as followup
from integration.web import health_routes
from integration.web.request_limits import Bodies
from integration.workspace import callbacks
from integration.workspace import promoted_fields as promoted

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

log = logging.getLogger(__name__)

ROOT = Path(__file__).parents[1]
OPEN_TO_ALL = ("static", "wall", "health", "facade", "exports")
"""Endpoints and blueprints that check their callers themselves, or need no check (promise S4)."""


class Product:
    """The running product, as the worker wants it (`worker.Product`)."""

    def __init__(self, settings: Settings) -> None:
        data_dir = settings.storage.data_dir
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.health = Health()
        self.health.fact("version", __version__)
        numbers = Numbers(settings.dashboard.country)
        calls = CallStore(rules(settings), numbers, on_ended=live_calls.ended)
        house = open_house(data_dir / "house.db", on_broken=end_broken)
        mirror = open_mirror(data_dir / "mirror.db", on_commit=self._announce, on_broken=end_broken)
        inbox = Inbox(data_dir / "inbox.db", on_stored=self._stored, on_broken=end_broken)
        with mirror.read() as connection:
            hub = Hub(lambda number: changes.since(mirror, number), epoch(connection))
        platform = Platform(settings.platform, requests_per_minute=settings.sync.max_requests_per_minute)
        clockwork = Clockwork(settings, mirror, platform, calls, self.health)
        self.parts = House(
            settings, self.health, mirror, house, inbox, platform, clockwork, calls, numbers, hub, self._fetch
        )
        wiring.connect(mirror, calls)
        held, erased = Held(), Erased(erasure_key(data_dir, make=False))
        with house.read() as ours, mirror.read() as theirs:
            held_now(ours, theirs, held)
            erasures.load(ours, erased)
        expiry.guard(mirror, expiry.Limits(settings.retention), held, erased)
        if erased:
            erased.guard(mirror)
            inbox.redact = erased.webhook
        self.health.probe("erasures", partial(_unfinished, house, erased))
        self._applier = Applier(inbox, mirror, calls, clockwork.nudge)
        self._applying = Loop("webhooks applied", self._applier.run, 30, self.health)
        self._following = Loop("call-back list", self._follow, 30, self.health)
        self._indexing = Loop("search index", lambda: search.catch_up(mirror), 60, self.health)
        self._summing = Loop("report sums", self._sum, 60, self.health)
        self._following_up = Loop(
            "accepted deletions", lambda: followup.follow_up(self.parts), followup.EVERY_SECONDS, self.health
        )
        self._steady = sessions.Steady(house)
        self._ticking = Loop("call timers", self._tick, 1, self.health)
        self._schedules = Schedules(self.parts)
        self._exporting = Loop("scheduled exports", self._schedules.run, EVERY_SECONDS, self.health)
        self._preparer = Preparer(self.parts)
        self._preparing = Loop("prepared exports", self._preparer.run, LOOK_SECONDS, self.health)
        self._preparer.wake = self._preparing.wake
        self._sending = Loop("exports under way", give_back_stalled, LOOK_SECONDS, self.health)
        self._promoting = Loop(
            "promoted fields",
            lambda: promoted.settle(house, mirror, lambda: self._stopped),
            3600,
            self.health,
        )
        self._alerting = alert_loops(self.parts)
        self._pruning = Loop("housekeeping", lambda: mirror.write(changes.prune), 3600, self.health)
        self._rotation = Rotation(settings, self.health)
        self._backing_up = Loop(
            rotation.NAME,
            self._rotation.look,
            rotation.LOOK_SECONDS,
            self.health,
            again=rotation.LOOK_SECONDS,
        )
        self._keeper = Keeper(settings, mirror, house, inbox, calls, self.health, held)
        self._expiring = Loop(retention.NAME, self._keeper.run, retention.EVERY_SECONDS, self.health)
        self._stopping = threading.Lock()
        self._stopped = False
        self.site = make_site(self.parts)
        self.application: WSGIApplication = with_receiver(self.parts, self.site)
        self.commands: Mapping[str, Handler] = {
            **house_commands.handlers(house, mirror.path),
            **promoted.handlers(house, mirror),
            **sync_commands(self.parts),
            **upkeep_commands.handlers(inbox, self._applier),
            **holding.handlers(house, mirror, held),
            **erasing.handler(self.parts, erased, held, self._preparer.drop_all),
        }
        self.site.extensions[JOBS] = Jobs(commands=self.commands)
        self.site.extensions[PREPARED] = self._preparer
        self.site.extensions[WAKE] = self._exporting.wake
        _watch_databases(self.parts)
        self.health.probe("schedules of exports", self._schedules.trouble)

    @property
    def loops(self) -> tuple[Loop, ...]:
        """What runs again and again while the product does."""
        loops = [self._applying, self._following, self._indexing, self._following_up]
        loops += [self._ticking, self._pruning, self._summing, *self._alerting]
        loops += [self._exporting, self._preparing, self._sending, self._promoting]
        if self.parts.settings.backup.every_hours:
            loops.append(self._backing_up)
        if self._keeper.wanted:
            loops.append(self._expiring)
        return tuple(loops)

    def start(self) -> None:
        """Start what works on its own: applying webhooks, timers, followers, the clockwork."""
        link = setup_links.first_run_link(self.parts.house, setup_links.base_url(self.parts.settings))
        if link is not None:
            print(f"Set up the first administrator: {link}", file=sys.stderr, flush=True)
        for loop in self.loops:
            loop.start()
        self.parts.clockwork.start()

    def close_streams(self) -> None:
        self.parts.hub.close()

    def stop(self) -> None:
        """End jobs, then writers; what is queued for them becomes durable. Safe to call twice."""
        with self._stopping:
            if self._stopped:
                return
            self._stopped = True
            self.parts.hub.close()
            self._applier.stop()
            self._rotation.stop()
            self._keeper.stop()
            self.parts.platform.close()
            self.parts.clockwork.stop(timeout=2.0)
            self._schedules.stop()
            self._preparer.stop()
            for loop in self.loops:
                loop.stop()
            self.parts.inbox.close()
            self.parts.mirror.close()
            self.parts.house.close()

    def _announce(self, announced: list[Change]) -> None:
        self.parts.hub.publish(announced)
        self._following.wake()
        self._indexing.wake()

    def _stored(self) -> None:
        self.health.fact("last webhook", clock.stamp())
        self._applying.wake()

    def _fetch(self, kind: Kind, record_id: int) -> Path:
        return recordings.fetch_file(self.parts, kind, record_id)

    def _follow(self) -> None:
        house, mirror = self.parts.house, self.parts.mirror
        with house.read() as connection:
            before = callbacks.look(connection)
        callbacks.follow(house, mirror, self.parts.settings.calls.callback_seconds)
        with house.read() as connection:
            after = callbacks.look(connection)
        if after != before:
            # The change that led here was announced before the list knew of it.
            mirror.write(lambda tx: tx.announce("callback", 0))

    def _sum(self) -> None:
        mirror, settings = self.parts.mirror, self.parts.settings
        zone, level = ZoneInfo(settings.dashboard.timezone), settings.calls.service_level_seconds
        if summary.catch_up(mirror, zone, level):
            self._summing.wake()
        elif (day := summary.prove(mirror, zone, level)) is not None:
            log.error("the kept sums of %s were not those of its calls; they are made anew", day)
            self._summing.wake()

    def _tick(self) -> None:
        now = clock.unix()
        self._steady.look()
        self.parts.mirror.write(lambda tx: self.parts.calls.tick(tx, now))


def build(settings: Settings) -> Product:
    """The product for `settings`; nothing runs before its `start()`. Raises SwitchroomError."""
    return Product(settings)


def with_receiver(parts: House, site: Flask) -> WSGIApplication:
    """The product's application: webhooks to the receiver, everything else to `site`.

    The receiver bounds nothing: it reads no body before it knows the secret.
    """
    receiver = security.TrustedProxies(
        Receiver(parts.inbox, parts.settings.webhooks, HookSecrets(parts.settings)),
        parts.settings.server.trusted_proxies,
    )
    others = Bodies(site)

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        chosen = receiver if environ["PATH_INFO"].startswith(PREFIX) else others
        return chosen(environ, start_response)

    return application


def make_site(parts: House) -> Flask:
    """Every route but the receiver's: health, login, pages, stream, exports, facade."""
    settings = parts.settings
    app = Flask("switchroom", template_folder=str(ROOT / "templates"), static_folder=str(ROOT / "static"))
    app.extensions[EXTENSION] = parts
    security.install(app, settings.server.trusted_proxies)
    watch = guard.install(
        app,
        parts.house,
        public_url=settings.server.public_url,
        agents_see=settings.dashboard.agents_see,
        open_to_all=OPEN_TO_ALL,
    )
    app.register_blueprint(health_routes.make_blueprint(parts))
    app.register_blueprint(login.make_login(parts.house))
    app.register_blueprint(
        make_stream(parts.hub, present, BLOCKING_THREADS // 2, viewer=watch.viewer, beat=beat)
    )
    app.register_blueprint(export_routes.make_blueprint(parts))
    pages.register(app)
    app.register_blueprint(make_facade(parts, partial(recordings.open_file, parts)))
    return app


def rules(settings: Settings) -> Rules:
    """How calls are judged."""
    return Rules(short=settings.calls.short_seconds, live_interval=settings.sync.live_interval)


def _watch_databases(parts: House) -> None:
    """Events can't be stored, or pages served, without these: `/readyz` is 503 when one is gone. One that
    tells nobody what it committed only degrades."""
    for database in (parts.inbox.database, parts.mirror, parts.house):
        parts.health.probe(database.name, partial(_trouble, database), essential=True)
        parts.health.probe(f"listeners of {database.name}", partial(getattr, database, "deaf"))


def _unfinished(house: Database, erased: Erased) -> str | None:
    with house.read() as connection:
        broken = [one.id for one in erasures.all_of(connection) if one.done_at is None]
    if broken:
        return f"erasure {broken[-1]} was broken off: repeat `switchroom erase NUMBER --yes`"
    if erased and not erased.has_key:
        return "data_dir/erasure-key is missing: what comes late of erased numbers is not known; restore it"
    return None


def _trouble(database: Database) -> str | None:
    return None if database.healthy else "its writer is gone"
