"""Outgoing webhooks: receivers of events, their log and replay. For administrators."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from flask import Response, request

from integration.context import app_context
from integration.core import clock
from integration.core.errors import DomainError
from integration.core.ids import parse_id
from integration.dashboard.settings.page import make_blueprint, render
from integration.dashboard.site.after_redirect import redirect_to
from integration.dashboard.site.background_jobs import NO_PROGRESS, ProgressCallback, current_jobs
from integration.dashboard.site.confirmation import requires_confirmation
from integration.dashboard.site.guard import current_person
from integration.dashboard.system.work import start_job
from integration.events import commands, delivery_log, subscriptions
from integration.events.feed import CALL_KINDS, CALLBACK_KINDS, MESSAGE_KINDS
from integration.events.subscriptions import Subscription
from integration.mirror.page_queries.call_view import parse_day

PATH = "/settings/outgoing"
JOB_NAME = "replay of events"
TEST_JOB = "test of outgoing webhook "
"""Beginning of the names of jobs; the id of the webhook follows."""
PAGE_SIZE = 50


def _render_page(**values: Any) -> str:
    jobs = current_jobs().last_by_name
    with app_context().app_db.read() as connection:
        webhooks = subscriptions.list_all(connection)
        set_aside = delivery_log.list_set_aside(connection)
        before = parse_id(request.args.get("before", ""))
        log = delivery_log.list_newest(connection, PAGE_SIZE + 1, before)
    return render(
        "settings_outgoing.html",
        webhooks=webhooks,
        names={one.id: one.name for one in webhooks},
        kinds=(*CALL_KINDS, *MESSAGE_KINDS, *CALLBACK_KINDS),
        set_aside=set_aside,
        log=log[:PAGE_SIZE],
        older=log[PAGE_SIZE - 1].id if len(log) > PAGE_SIZE else None,
        replay=jobs.get(JOB_NAME),
        tests=[jobs[name] for one in webhooks if (name := f"{TEST_JOB}{one.id}") in jobs],
        **values,
    )


blueprint = make_blueprint("outgoing", PATH, _render_page)


@blueprint.post("")
@requires_confirmation()
def add() -> Response:
    form = request.form
    fields = {"url": form.get("url", ""), "kinds": form.getlist("kind")}
    name, anonymous = form.get("name", "").strip(), form.get("anonymous") == "1"
    added = _run(commands.add_subscription, name, anonymous=anonymous, **fields)
    return redirect_to(PATH, secret=added["secret"], secret_for=name)


@blueprint.post("/<int:number>/rotate")
@requires_confirmation()
def rotate(number: int) -> Response:
    name = _require(number).name
    return redirect_to(PATH, secret=_run(commands.rotate_secret, name)["secret"], secret_for=name)


@blueprint.post("/<int:number>/remove")
@requires_confirmation()
def remove(number: int) -> Response:
    _run(commands.remove_subscription, _require(number).name)
    return redirect_to(PATH, "Removed.")


@blueprint.post("/<int:number>/test")
def send_test(number: int) -> Response:
    """Send a test on a background job, which waits for a running request."""
    subscription, deliveries = _require(number), app_context().deliveries

    def work(_: ProgressCallback) -> str:
        outcome = deliveries.test(subscription)
        if outcome.error:
            raise DomainError(f"Test of “{subscription.name}” failed: {outcome.error}")
        return f"The receiver of “{subscription.name}” accepted the test with {outcome.status}."

    start_job(f"{TEST_JOB}{number}", "outgoing webhook tested", work)
    return redirect_to(PATH, anchor="log")


@blueprint.post("/<int:number>/enable")
def enable(number: int) -> Response:
    _run(commands.enable_subscription, _require(number).name)
    return redirect_to(PATH, "Saved.")


@blueprint.post("/<int:number>/skip")
def skip(number: int) -> Response:
    _run(commands.skip_event, _require(number).name)
    return redirect_to(PATH, "Saved.")


def _run(command: Any, name: str, **arguments: Any) -> dict[str, Any]:
    """Run a command of `switchroom events` for the current user. It records the action in the audit log."""
    actor = {"who": current_person().email, "address": request.remote_addr or ""}
    result: dict[str, Any] = command(app_context(), {"name": name, **actor, **arguments}, NO_PROGRESS)
    return result


@blueprint.post("/attempts/<int:attempt>/replay")
def replay_attempt(attempt: int) -> Response:
    """Send the event of an entry of the log."""
    with app_context().app_db.read() as connection:
        found = delivery_log.find_event(connection, attempt)
    if found is None:
        raise DomainError("This entry was deleted from the log.")
    return _start_replay(_require(found[0]), [attempt])


@blueprint.post("/replay")
def replay_days() -> Response:
    """Send the events of days in the display zone."""
    subscription = _require(parse_id(request.form.get("webhook", "")) or 0)
    first, last = (parse_day(request.form.get(name, "")) for name in ("from", "to"))
    if first is None or last is None:
        raise DomainError("Enter the first and the last day.")
    zone = ZoneInfo(app_context().settings.dashboard.timezone)
    since, until = clock.midnight(first, zone), clock.midnight(last + timedelta(days=1), zone)
    with app_context().app_db.read() as connection:
        attempts = delivery_log.list_first_attempts(connection, subscription.id, since, until)
    return _start_replay(subscription, attempts)


def _start_replay(subscription: Subscription, attempts: list[int]) -> Response:
    deliveries = app_context().deliveries

    def work(report_progress: ProgressCallback) -> str:
        def report(done: int) -> bool:
            report_progress(subscription.name, done, len(attempts))
            return True

        count = deliveries.replay(subscription.id, attempts, report)
        return f"{subscription.name}: {count:,} events delivered"

    start_job(JOB_NAME, "outgoing webhook replayed", work)
    return redirect_to(f"{PATH}#log")


def _require(number: int) -> Subscription:
    with app_context().app_db.read() as connection:
        subscription = subscriptions.find(connection, number)
    if subscription is None:
        raise DomainError("This outgoing webhook was removed.")
    return subscription
