"""Health checks of the process for /readyz, /metrics and the System page.

A component calls `beat(name)` regularly. `watch(name, seconds)` sets its limit between heartbeats; beyond the
limit a watchdog marks the component as stalled. Components call `ok(name)` or `fail(name, error)` after each
attempt. A component without which events cannot be stored or pages cannot be served is `essential`; a failure
of any other only degrades the status.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from integration.core import clock

log = logging.getLogger(__name__)

State = Literal["waiting", "ok", "failing", "stalled"]

TICK_SECONDS = 1.0
"""Seconds between two checks of the watchdog."""


@dataclass(slots=True)
class _Component:
    state: State = "waiting"
    error: str | None = None
    failures: int = 0
    last_beat: float | None = None
    last_ok_at: str | None = None
    last_failure_at: str | None = None
    silence_limit: float | None = None
    watched_since: float = 0.0
    essential: bool = False
    is_stall_logged: bool = False
    """True if the current stall is logged."""

    def seconds_silent(self, now: float) -> float:
        """Return seconds since the last heartbeat or `watch`, whichever was later."""
        return now - max(self.last_beat or 0.0, self.watched_since)


class Health:
    """Health checks and facts of the process. Thread-safe.

    `start()` runs the watchdog. Without the watchdog stalled components are still marked in each report.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._components: dict[str, _Component] = {}
        self._probes: dict[str, tuple[Callable[[], str | None], bool]] = {}
        self._facts: dict[str, Any] = {}
        self._fact_sources: dict[str, Callable[[], Any]] = {}
        self._stopping = threading.Event()
        self._watchdog: threading.Thread | None = None

    # --- reported by components --------------------------------------------------------------------

    def watch(self, name: str, limit_seconds: float | None = None, *, essential: bool = False) -> None:
        """Add a component that must beat every `limit_seconds`; None sets no limit."""
        with self._lock:
            component = self._components.setdefault(name, _Component())
            component.silence_limit = limit_seconds
            component.essential = essential
            component.watched_since = clock.monotonic()

    def unwatch(self, name: str) -> None:
        """Remove a component that ended normally."""
        with self._lock:
            self._components.pop(name, None)

    def beat(self, name: str) -> None:
        """Record a heartbeat of `name`.

        The result of its last attempt is unchanged.
        """
        with self._lock:
            component = self._components.setdefault(name, _Component())
            component.last_beat = clock.monotonic()
            if component.state in ("waiting", "stalled"):
                component.state, component.is_stall_logged = "failing" if component.error else "ok", False

    def ok(self, name: str) -> None:
        """Record a successful attempt of `name`, and a heartbeat."""
        with self._lock:
            component = self._components.setdefault(name, _Component())
            component.state, component.error, component.failures = "ok", None, 0
            component.is_stall_logged = False
            component.last_beat = clock.monotonic()
            component.last_ok_at = clock.utc_text()

    def fail(self, name: str, error: object) -> None:
        """Record a failed attempt of `name`, and a heartbeat.

        `error` must not contain secrets.
        """
        with self._lock:
            component = self._components.setdefault(name, _Component())
            component.state, component.error = "failing", str(error) or type(error).__name__
            component.failures += 1
            component.is_stall_logged = False
            component.last_beat = clock.monotonic()
            component.last_failure_at = clock.utc_text()

    def probe(self, name: str, check: Callable[[], str | None], *, essential: bool = False) -> None:
        """Call `check()` for each report.

        It returns the error, None without one, and must not block.
        """
        with self._lock:
            self._probes[name] = (check, essential)

    def set_fact(self, name: str, value: object) -> None:
        """Show a value in reports, such as the version."""
        with self._lock:
            self._facts[name] = value

    def provide_fact(self, name: str, read: Callable[[], Any]) -> None:
        """Show the value of `read()` in each report.

        None omits the fact. `read` must not block.
        """
        with self._lock:
            self._fact_sources[name] = read

    # --- requested by pages ------------------------------------------------------------------------

    def report(self, *, with_read_facts: bool = True) -> dict[str, Any]:
        """Return the state of all components. `with_read_facts`: with the facts of `provide_fact`.

        `{"status": "ok"|"degraded"|"unready", "checks": {name: {state, error, failures, seconds_since_beat,
        last_ok_at, last_failure_at, essential}}, "facts": {…}}`; `state` is `waiting` (no heartbeat yet),
        `ok`, `failing` or `stalled` (heartbeat overdue). `unready` means that an essential component is
        failing or stalled.
        """
        checks = self.list_checks()
        with self._lock:
            facts, sources = dict(self._facts), dict(self._fact_sources)
        for name, read in sources.items() if with_read_facts else ():
            value = _read_fact(read)
            if value is not None:
                facts[name] = value
        return {"status": _get_status(checks), "checks": checks, "facts": facts}

    def list_checks(self) -> dict[str, dict[str, Any]]:
        """Return the checks of `report()`. To read all facts as well takes 0.2 s during an initial sync."""
        with self._lock:
            now = clock.monotonic()
            self._mark_stalled(now)
            checks = {
                name: self._describe(component, now) for name, component in sorted(self._components.items())
            }
            probes = dict(self._probes)
        for name, (check, essential) in probes.items():
            problem = _run_probe(check)
            checks[name] = {
                "state": "ok" if problem is None else "failing",
                "error": problem,
                "failures": int(problem is not None),
                "seconds_since_beat": 0.0,
                "last_ok_at": None,
                "last_failure_at": None,
                "essential": essential,
            }
        return checks

    @property
    def status(self) -> str:
        """The status of `report()`."""
        return _get_status(self.list_checks())

    # --- the watchdog ------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the watchdog. Each stall is logged once."""
        self._watchdog = threading.Thread(target=self._run, name="health watchdog", daemon=True)
        self._watchdog.start()

    def stop(self) -> None:
        """End the watchdog. Safe to call twice, and without `start()`."""
        self._stopping.set()
        if self._watchdog is not None:
            self._watchdog.join()

    def _run(self) -> None:
        while not self._stopping.wait(TICK_SECONDS):
            with self._lock:
                now = clock.monotonic()
                silent = [
                    (name, component.seconds_silent(now))
                    for name, component in self._mark_stalled(now)
                    if not component.is_stall_logged
                ]
                for name, _ in silent:
                    self._components[name].is_stall_logged = True
            for name, seconds in silent:
                log.error("%s has stalled: no heartbeat for %.0f s", name, seconds)

    def _mark_stalled(self, now: float) -> list[tuple[str, _Component]]:
        """Mark the components whose heartbeat is overdue as stalled, and return them."""
        silent = [
            (name, component)
            for name, component in self._components.items()
            if component.silence_limit is not None and component.seconds_silent(now) > component.silence_limit
        ]
        for _, component in silent:
            component.state = "stalled"
        return silent

    @staticmethod
    def _describe(component: _Component, now: float) -> dict[str, Any]:
        return {
            "state": component.state,
            "error": component.error,
            "failures": component.failures,
            "seconds_since_beat": None
            if component.last_beat is None
            else round(now - component.last_beat, 1),
            "last_ok_at": component.last_ok_at,
            "last_failure_at": component.last_failure_at,
            "essential": component.essential,
        }


def _get_status(checks: Mapping[str, Mapping[str, Any]]) -> str:
    failed_checks = [check for check in checks.values() if check["state"] in ("failing", "stalled")]
    if any(check["essential"] for check in failed_checks):
        return "unready"
    return "degraded" if failed_checks else "ok"


def _read_fact(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception as error:  # noqa: BLE001 — a report without one fact is better than none
        return f"cannot be read: {type(error).__name__}: {error}"


def _run_probe(check: Callable[[], str | None]) -> str | None:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 — an exception of a probe counts as its failure
        return f"{type(error).__name__}: {error}"
