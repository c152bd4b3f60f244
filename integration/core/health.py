"""How each part of the process is doing, for /readyz, /metrics and the System page.

A part that works on its own says `beat(name)` while it lives; `watch(name, seconds)` says how long it may
be silent, and a watchdog marks it as stalled after that. A part that tries things says `ok(name)` or
`fail(name, error)` after each try. Parts whose failure means that events can't be stored or pages can't be
served are watched as `essential`; everything else only degrades.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from integration.core import clock

log = logging.getLogger(__name__)

State = Literal["waiting", "ok", "failing", "stalled"]

TICK_SECONDS = 1.0


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
    """Whether its present silence is in the log."""

    def seconds_silent(self, now: float) -> float:
        """Seconds since it was last heard of."""
        return now - max(self.last_beat or 0.0, self.watched_since)


class Health:
    """Thread-safe. `start()` runs the watchdog; without it, silence is still seen when a report is made."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._components: dict[str, _Component] = {}
        self._probes: dict[str, tuple[Callable[[], str | None], bool]] = {}
        self._facts: dict[str, Any] = {}
        self._stopping = threading.Event()
        self._watchdog: threading.Thread | None = None

    # --- told by the parts -------------------------------------------------------------------------

    def watch(self, name: str, limit_seconds: float | None = None, *, essential: bool = False) -> None:
        """Expect `name` to beat at least every `limit_seconds`, from now; None only lists it."""
        with self._lock:
            component = self._components.setdefault(name, _Component())
            component.silence_limit = limit_seconds
            component.essential = essential
            component.watched_since = clock.monotonic()

    def unwatch(self, name: str) -> None:
        """`name` has ended as it should, and is forgotten."""
        with self._lock:
            self._components.pop(name, None)

    def beat(self, name: str) -> None:
        """`name` is alive. Says nothing about whether what it last tried went well."""
        with self._lock:
            component = self._components.setdefault(name, _Component())
            component.last_beat = clock.monotonic()
            if component.state in ("waiting", "stalled"):
                component.state, component.is_stall_logged = "failing" if component.error else "ok", False

    def ok(self, name: str) -> None:
        """`name` did what it should; also a beat."""
        with self._lock:
            component = self._components.setdefault(name, _Component())
            component.state, component.error, component.failures, component.is_stall_logged = (
                "ok",
                None,
                0,
                False,
            )
            component.last_beat = clock.monotonic()
            component.last_ok_at = clock.utc_text()

    def fail(self, name: str, error: object) -> None:
        """`name` could not do what it should, and why; also a beat. `error` must hold no secret."""
        with self._lock:
            component = self._components.setdefault(name, _Component())
            component.state, component.error = "failing", str(error) or type(error).__name__
            component.failures += 1
            component.is_stall_logged = False
            component.last_beat = clock.monotonic()
            component.last_failure_at = clock.utc_text()

    def probe(self, name: str, check: Callable[[], str | None], *, essential: bool = False) -> None:
        """Ask `check()` at each report: None for well, else what is wrong. It must be quick."""
        with self._lock:
            self._probes[name] = (check, essential)

    def set_fact(self, name: str, value: object) -> None:
        """A value for people, such as the version or the time of the last webhook; shown in reports."""
        with self._lock:
            self._facts[name] = value

    # --- asked by pages ----------------------------------------------------------------------------

    def report(self) -> dict[str, Any]:
        """How everything is.

        `{"status": "ok"|"degraded"|"unready", "checks": {name: {state, error, failures, seconds_since_beat,
        last_ok_at, last_failure_at, essential}}, "facts": {…}}`; `state` is `waiting` (not heard of yet),
        `ok`, `failing` or `stalled` (silent for longer than it may be). `unready` means that something
        essential is failing or stalled.
        """
        with self._lock:
            now = clock.monotonic()
            self._mark_stalled(now)
            checks = {
                name: self._describe(component, now) for name, component in sorted(self._components.items())
            }
            probes, facts = dict(self._probes), dict(self._facts)
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
        failed_checks = [check for check in checks.values() if check["state"] in ("failing", "stalled")]
        status = (
            "unready"
            if any(check["essential"] for check in failed_checks)
            else "degraded"
            if failed_checks
            else "ok"
        )
        return {"status": status, "checks": checks, "facts": facts}

    @property
    def is_ready(self) -> bool:
        """Whether events can be stored and pages served."""
        return bool(self.report()["status"] != "unready")

    # --- the watchdog ------------------------------------------------------------------------------

    def start(self) -> None:
        """Watch for silence, and log it once for each time it begins."""
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
                log.error("%s has been silent for %.0f s", name, seconds)

    def _mark_stalled(self, now: float) -> list[tuple[str, _Component]]:
        """The parts that are silent for longer than they may be."""
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


def _run_probe(check: Callable[[], str | None]) -> str | None:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 — a probe that fails is what it was asked about
        return f"{type(error).__name__}: {error}"
