"""The threads of the alerts: one looks, each channel has one that sends."""

from __future__ import annotations

from integration.alerts.evaluate import Watch
from integration.alerts.notification_log import Channel
from integration.alerts.send import Sender
from integration.context import House
from integration.core.consumer import Loop

LOOK_SECONDS = 5.0
SEND_SECONDS = 30.0
CHANNELS: dict[Channel, str] = {
    "email": "alerts by e-mail",
    "post": "alerts by HTTP",
    "apprise": "alerts by Apprise",
}


def alert_loops(parts: House) -> tuple[Loop, ...]:
    """Not started yet."""
    senders = [
        Loop(name, Sender(parts, channel).run, SEND_SECONDS, parts.health)
        for channel, name in CHANNELS.items()
        if channel != "apprise" or parts.settings.alerts.urls
    ]

    def wake() -> None:
        for sender in senders:
            sender.wake()

    return (Loop("alert rules", Watch(parts, wake).round, LOOK_SECONDS, parts.health), *senders)
