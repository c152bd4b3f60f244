"""Notifications to the services of `alerts.urls`, by the package Apprise."""

from __future__ import annotations

import importlib
from typing import Any

from integration.core.errors import SwitchroomError


class NotificationFailed(SwitchroomError):
    """The service did not accept the notification."""


def notify(url: str, title: str, text: str) -> None:
    """Send a notification to an address of `alerts.urls`. Raises NotificationFailed."""
    try:
        # An optional package that few installations use and that is slow to import.
        apprise: Any = importlib.import_module("apprise")
    except ImportError:
        raise NotificationFailed(
            "The setting alerts.urls requires the package Apprise: pip install apprise"
        ) from None
    notifier = apprise.Apprise()
    if not notifier.add(url):
        raise NotificationFailed("Apprise does not accept this URL. Correct it in alerts.urls.")
    if not notifier.notify(title=title, body=text):
        raise NotificationFailed(
            "Apprise could not send the notification. The log has the response of the service."
        )
