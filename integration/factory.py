"""Composition root: builds the application from its services."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import IO, TYPE_CHECKING
from zoneinfo import ZoneInfo

from flask import Flask

from integration import __version__, app_schema
from integration.access import commands as access_commands
from integration.access import session_ends, sessions, setup_links
from integration.access.audit_syslog import SyslogCopy
from integration.access.authenticator import Authenticator
from integration.access.login import mailer
from integration.alerts import evaluate as alert_evaluation
from integration.app_schema import open_app_db
from integration.context import AppContext
from integration.core import clock, installation
from integration.core.consumer import Consumer
from integration.core.errors import StorageError
from integration.core.health import Health
from integration.core.scheduler import Scheduler
from integration.dashboard.site.background_jobs import EXTENSION as BACKGROUND_JOBS
from integration.dashboard.site.background_jobs import BackgroundJobs
from integration.events import commands as event_commands
from integration.events import deliveries, delivery_log, feed, subscriptions
from integration.events.deliveries import Deliveries
from integration.exports.jobs import ExportRun
from integration.exports.query import CHECK_SECONDS as STREAM_CHECK_SECONDS
from integration.exports.query import close_stalled_streams
from integration.exports.runner import ExportRunner
from integration.inbox import losses, replay
from integration.inbox import store as inbox_store
from integration.inbox.apply import Applier
from integration.inbox.store import Inbox
from integration.live.hub import Hub
from integration.maintenance import content_repair, database_checks, rotation, upgrade
from integration.maintenance.rotation import BackupRotation
from integration.mirror import hooks, zone_offsets
from integration.mirror import migrations as mirror_migrations
from integration.mirror.calls.store import CallStore
from integration.mirror.derived import rebuild
from integration.mirror.derived.declaration import make_rules
from integration.mirror.privacy import retention_rules
from integration.mirror.privacy.erasure_gate import ErasureGate
from integration.mirror.privacy.held_records import HeldRecords
from integration.mirror.records import change_log
from integration.mirror.schema import open_mirror
from integration.mirror.sync_state.media_files import MediaKind
from integration.outbound.exchange import Exchange
from integration.platform_api.client import Platform
from integration.privacy import erase, erasures, holds, retention
from integration.privacy.holds import refresh_held
from integration.privacy.retention import RetentionJob
from integration.settings.base_url import find_base_url, find_local_url
from integration.settings.data_dir_secrets import find_webhook_url, load_erasure_key
from integration.settings.model import Settings
from integration.sqlite.transaction import Change, Transaction
from integration.sync import commands as sync_commands
from integration.sync import jobs
from integration.sync.files import download, scrub
from integration.sync.jobs import SyncJobs
from integration.sync.reading import call_assembly, verify_coverage
from integration.sync.writing import crm_on_platform, deletion_poller, text_back_sending
from integration.sync.writing.crm_on_platform import CrmOnPlatform
from integration.web.metrics import groups
from integration.web.metrics.listener import MetricsListener
from integration.web.metrics.registry import Metrics
from integration.workspace import app_changes, opening_hours, opt_outs, text_back
from integration.workspace.callback_following import mark_unlisted_calls, update_and_announce

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

log = logging.getLogger(__name__)

DERIVED_CONSUMER = "derived tables"
"""Name of the consumer that computes what is due, and of its health check."""
MAX_PENDING_EVENTS = 20_000
"""Events that a waiting request can be behind. Beyond it ends early, which must not show events of others."""
JOB_STOP_SECONDS = 2.5
"""Seconds that jobs have to end when the product stops; less than `server.worker.STOP_SECONDS`."""
COMMAND_MODULES = (
    access_commands,
    content_repair,
    erase,
    event_commands,
    holds,
    replay,
    scrub,
    sync_commands,
    verify_coverage,
)
"""Modules with handlers of commands. Their import fills the registry of `core/commands.py`."""


MIGRATIONS = {
    "house.db": app_schema.MIGRATIONS,
    "mirror.db": mirror_migrations.MIGRATIONS,
    "inbox.db": inbox_store.MIGRATIONS,
}
"""Migration steps of the three databases, for the upgrade of data_dir."""


class Product:
    """Running product: services, jobs and WSGI application.

    No job runs before `start()`. `on_broken(error)` is called once if the disk of a database fails.
    `on_damaged(reason)` is called once if a database is damaged that the next start can rebuild.
    `exchange` sends the requests to the platform; None for HTTP to `platform.base_url`. `early_inbox` is an
    inbox.db that is open already. Raises SwitchroomError.
    """

    def __init__(
        self,
        settings: Settings,
        on_broken: Callable[[BaseException], None] | None = None,
        exchange: Exchange | None = None,
        on_damaged: Callable[[str], None] | None = None,
        early_inbox: Inbox | None = None,
    ) -> None:
        data_dir = settings.storage.data_dir
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        upgrade.prepare_data_dir(data_dir, MIGRATIONS, _print_line)
        self.health = Health()
        self.health.set_fact("version", __version__)
        self.health.set_fact("commit", installation.find_commit())
        rules = make_rules(settings)
        call_store = CallStore(rules)
        app_db = open_app_db(data_dir / "house.db", on_broken=on_broken)
        opening_hours.seed(app_db, settings.calls.usual_hours)
        with app_db.read() as app_connection:
            opening_hours.load_rules(app_connection, rules)
        self._syslog_copy = SyslogCopy(app_db, settings.audit.syslog, self.health)
        mirror_db = open_mirror(
            data_dir / "mirror.db",
            on_commit=self._publish_changes,
            on_broken=on_broken,
            on_damaged=on_damaged,
            is_open=lambda line, utc_text: rules.counting.hours.is_open_at(line, utc_text),
        )
        zone_offsets.update(mirror_db, ZoneInfo(settings.dashboard.timezone))
        rebuild.install(mirror_db, rules)
        change_log.follow_file(mirror_db)
        try:
            mark_unlisted_calls(app_db, mirror_db)
            opt_outs.mark_unlisted_messages(app_db, mirror_db)
        except StorageError as error:  # Pages work on a full disk too.
            log.warning("call-backs and opt-outs are not compared with the mirror at this start: %s", error)
        app_changes.follow_file(app_db, mirror_db)
        deliveries.follow_epoch(mirror_db, app_db)
        self.health.provide_fact("due", partial(rebuild.describe_due, mirror_db))
        inbox = losses.open_inbox(
            data_dir, mirror_db, self.health, self._handle_stored_webhook, on_broken, on_damaged, early_inbox
        )
        with mirror_db.read() as connection:
            epoch = change_log.get_epoch(connection)
        live_hub = Hub(lambda number: change_log.since(mirror_db, number), epoch)
        event_hub = Hub(lambda _: None, epoch, max_pending=MAX_PENDING_EVENTS)
        platform = Platform(
            settings.platform, requests_per_minute=settings.sync.max_requests_per_minute, exchange=exchange
        )
        self.scheduler = Scheduler(self.health, ignored_errors=jobs.IGNORED_ERRORS)
        sync_jobs = SyncJobs(settings, mirror_db, platform, call_store, self.health, self.scheduler)
        applier = Applier(inbox, mirror_db, call_store, sync_jobs.nudge)
        held_records = HeldRecords()
        erasure_gate = ErasureGate(load_erasure_key(data_dir, create=False), held_records)
        export_runner = ExportRunner(
            settings, mirror_db, app_db, self.scheduler, self.health, self._write_digest
        )
        self._deliveries = Deliveries(settings, mirror_db, app_db, self.health)
        self.context = AppContext(
            settings,
            mirror_db,
            platform,
            self.health,
            call_store,
            app_db,
            inbox,
            self.scheduler,
            sync_jobs,
            rules.phone_numbers,
            rules,
            live_hub,
            event_hub,
            Authenticator(settings, mirror_db, app_db, platform),
            applier,
            held_records,
            erasure_gate,
            self._fetch_file,
            export_runner,
            self._deliveries,
        )
        hooks.register_hooks(mirror_db)
        app_db.hooks[session_ends.HOOK] = [
            lambda tx, _: tx.after_commit(live_hub.wake),
            lambda tx, _: tx.after_commit(event_hub.wake),
        ]
        with app_db.read() as app_connection, mirror_db.read() as mirror_connection:
            refresh_held(app_connection, mirror_connection, held_records)
            erasures.load_gate(app_connection, erasure_gate)
        retention_rules.install_gates(
            mirror_db, retention_rules.RetentionLimits(settings.retention), held_records, erasure_gate
        )
        erasure_gate.install(mirror_db)
        inbox.redact = erasure_gate.filter_webhook
        self.health.probe("erasures", partial(erasures.find_problem, app_db, erasure_gate))
        self._webhook_consumer = Consumer("webhooks applied", applier.run, self.health)
        self._callback_consumer = Consumer("call-back list", self._update_callbacks, self.health)
        self._newest_app_change = 0
        app_db.before_commit = self._follow_app_changes
        self._derived_consumer = Consumer(DERIVED_CONSUMER, self._rebuild_derived, self.health)
        self.consumers = (
            self._webhook_consumer,
            self._callback_consumer,
            self._derived_consumer,
            self._deliveries.consumer,
        )
        self._clock_watch = sessions.ClockWatch(app_db)
        self.backup_rotation = BackupRotation(settings, self.health)
        self.retention_job = RetentionJob(self.context)
        self._stop_lock = threading.Lock()
        self._stopped = False
        self.metrics = Metrics()
        groups.add_groups(self.metrics, self.context, self.backup_rotation)
        self.metrics_listener = (
            MetricsListener(self.metrics, settings.server.metrics_listen)
            if settings.server.metrics_listen
            else None
        )
        database_checks.register(self.context)
        self.health.probe("text back rules", partial(text_back.describe_pause, app_db))
        self.health.probe("schedules of exports", export_runner.describe_failures)
        self.health.probe("receivers of outgoing webhooks", partial(subscriptions.describe_disabled, app_db))

    @cached_property
    def site(self) -> Flask:
        """Flask application, built on first use: commands need no routes."""
        # Importing the pages takes a sixth of the start of a command.
        from integration.web_app import make_site

        site = make_site(self.context, self.metrics)
        site.extensions[BACKGROUND_JOBS] = BackgroundJobs()
        return site

    @cached_property
    def application(self) -> WSGIApplication:
        from integration.web_app import make_dispatcher

        return make_dispatcher(self.context, self.site, self.metrics)

    def start(self) -> None:
        """Start the consumers and the scheduler."""
        if self.metrics_listener is not None:
            self.metrics_listener.start()
        for consumer in self.consumers:
            consumer.start()
        self._schedule_jobs()
        self.scheduler.start()

    def describe_start(self) -> list[str]:
        """Return lines for the end of a start: links of the first login, and the URL for webhooks."""
        settings = self.context.settings
        # The public address often does not respond yet at the first start.
        base_urls = dict.fromkeys((find_base_url(settings), find_local_url(settings)))
        labels = ("Set up the first administrator", "Or on this computer")
        links = setup_links.create_first_run_link(self.context.app_db, list(base_urls))
        lines = [f"{label}: {link}" for label, link in zip(labels, links, strict=False)]
        # A journal would keep the secret in the URL.
        webhook_url = find_webhook_url(settings) if sys.stderr.isatty() else "see Settings › Connection"
        return [*lines, f"Webhook URL: {webhook_url}"]

    def _schedule_jobs(self) -> None:
        context = self.context
        context.sync_jobs.schedule()
        alert_evaluation.schedule_jobs(context)
        mailer.schedule_job(context)
        text_back_sending.schedule_job(context)
        every = partial(self.scheduler.every, is_watched=True, retries=True)
        every("call timers", 1, self._update_call_timers, executor="timers")
        every("exports under way", STREAM_CHECK_SECONDS, close_stalled_streams, executor="timers")
        every(
            "accepted deletions",
            deletion_poller.POLL_SECONDS,
            deletion_poller.poll_due,
            context,
            executor="sync",
        )
        if context.settings.dashboard.crm_on_platform:
            # Not watched: during an outage its requests wait.
            self.scheduler.every(
                "CRM addresses",
                crm_on_platform.INTERVAL_SECONDS,
                CrmOnPlatform(context).run,
                executor="maintenance",
            )
        context.export_runner.schedule()
        database_checks.schedule(context)
        every("housekeeping", 3600, self._prune_logs, executor="maintenance")
        if context.settings.backup.every_hours:
            # A failed backup is not retried earlier, because each attempt copies all databases.
            self.scheduler.every(
                rotation.HEALTH_NAME,
                rotation.CHECK_SECONDS,
                self.backup_rotation.run_if_due,
                executor="maintenance",
                is_watched=True,
            )
        if self.retention_job.is_needed:
            every(
                retention.JOB_NAME,
                retention.INTERVAL_SECONDS,
                self.retention_job.run,
                executor="maintenance",
            )

    def close_streams(self) -> None:
        self.context.live_hub.close()
        self.context.event_hub.close()

    def stop(self) -> None:
        """End jobs, then writers. Queued writes become durable. Safe to call twice."""
        with self._stop_lock:
            if self._stopped:
                return
            self._stopped = True
            self.close_streams()
            if self.metrics_listener is not None:
                self.metrics_listener.stop()
            self.context.applier.stop()
            self.backup_rotation.stop()
            self.retention_job.stop()
            self.scheduler.stopping.set()
            self.context.platform.close()
            self.scheduler.stop(JOB_STOP_SECONDS)
            self.context.export_runner.stop()
            self._deliveries.stop()
            for consumer in self.consumers:
                consumer.stop()
            self.context.inbox.close()
            # Without the record, the next start of the computer sets a new epoch.
            with suppress(StorageError):
                self.context.mirror_db.write(change_log.record_clean_stop)
            self.context.mirror_db.close()
            self.context.app_db.close()
            self._syslog_copy.close()

    def _write_digest(self, run: ExportRun, incomplete_reason: str | None, file: IO[bytes]) -> int:
        # It needs the pages' templates: see `site`.
        from integration.dashboard.calls.digest import write_digest

        return write_digest(self.site, run, incomplete_reason, file)

    def _publish_changes(self, committed_changes: list[Change]) -> None:
        self.context.live_hub.publish(
            [change for change in committed_changes if change.topic != change_log.HIDDEN_TOPIC]
        )
        self.context.event_hub.publish(
            [change for change in committed_changes if feed.is_event(change, feed.KINDS)]
        )
        self._callback_consumer.wake()
        self._derived_consumer.wake()
        self._deliveries.consumer.wake()

    def _handle_stored_webhook(self) -> None:
        self.health.set_fact("last webhook", clock.utc_text())
        self._webhook_consumer.wake()

    def _fetch_file(self, kind: MediaKind, record_id: int) -> Path:
        return download.fetch(self.context, kind, record_id)

    def _update_callbacks(self) -> None:
        seconds = self.context.settings.calls.callback_seconds
        update_and_announce(self.context.app_db, self.context.mirror_db, seconds)
        app_changes.announce(self.context.app_db, self.context.mirror_db)

    def _follow_app_changes(self, tx: Transaction) -> None:
        newest = app_changes.get_newest(tx.connection)
        if newest != self._newest_app_change:
            self._newest_app_change = newest
            tx.after_commit(self._callback_consumer.wake)

    def _rebuild_derived(self) -> None:
        def should_continue() -> bool:
            self.health.beat(DERIVED_CONSUMER)
            return not self.scheduler.stopping.is_set()

        call_assembly.rebuild_all(self.context, should_continue)

    def _prune_logs(self) -> None:
        settings = self.context.settings.events
        while self.context.mirror_db.write(lambda tx: change_log.prune(tx, settings.keep_changes)):
            pass
        oldest = clock.utc_text(clock.now() - timedelta(days=settings.log_days))
        self.context.app_db.write(lambda tx: delivery_log.delete_before(tx, oldest))

    def _update_call_timers(self) -> None:
        now = clock.unix()
        self._clock_watch.check()
        self.context.mirror_db.write(lambda tx: self.context.call_store.evaluate_due_calls(tx, now))


def _print_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
