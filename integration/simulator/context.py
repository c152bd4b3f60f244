"""Simulator context: services of one simulator, and the current user."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import cast

from flask import g

from integration.simulator.calls.traffic import RunningCall, Traffic
from integration.simulator.calls.traffic_generator import TrafficGenerator
from integration.simulator.calls.webhooks import WebhookSender
from integration.simulator.calls.world import World
from integration.simulator.http.faults import ActiveFaults
from integration.simulator.records.authentication import LoginService, Token
from integration.simulator.records.people import Person
from integration.simulator.records.record_fields import Record

_LOG_SIZE = 20_000


@dataclass(slots=True)
class SimulatorContext:
    """Services and state of one simulator.

    `request_log`: received requests, newest last, at most _LOG_SIZE.
    `played_calls`: calls on demand, newest last.
    `registrations`: sign-ups by hash.
    `outage_until`: end of a simulated outage, monotonic seconds.
    """

    world: World
    login_service: LoginService
    faults: ActiveFaults
    webhook_sender: WebhookSender
    traffic: Traffic
    traffic_generator: TrafficGenerator
    registrations: dict[str, Record] = field(default_factory=dict)
    request_log: deque[Record] = field(default_factory=lambda: deque(maxlen=_LOG_SIZE))
    played_calls: deque[RunningCall] = field(default_factory=lambda: deque(maxlen=500))
    outage_until: float = 0.0


def get_simulator_context() -> SimulatorContext:
    return cast("SimulatorContext", g.simulator_context)


def get_world() -> World:
    return get_simulator_context().world


def get_current_user() -> Person:
    return cast("Token", g.token).person
