"""Seconds between the attempts of everything that is retried.

A tuple has the seconds after each failed attempt; that of a `RetryQueue` has the seconds before each attempt.
A range of factors varies the delays, so that many clients do not retry at the same time.
"""

from __future__ import annotations

# --- queues in tables: a restart keeps the time of the next attempt -------------------------------------

DOWNLOADS: tuple[float, ...] = (2, 10, 60, 600, 3600, 21600, 86400)
"""Downloads of recordings, voicemail and faxes (`mirror/sync_state/media_files`). The last value repeats."""
LOOKUPS: tuple[float, ...] = (2, 5, 15, 60, 300, 900, 3600, 21600, 59918)
"""RetryQueue: requests for the CDR and the recording of an ended leg (`mirror/sync_state/lookup_queue`).

Their sum is one day.
"""
DELETIONS: tuple[float, ...] = (0, 1, 5, 30, 120, 600, 3600)
"""RetryQueue: polls of a deletion that the platform accepted (`mirror/sync_state/pending_deletions`).

After the last poll, the next full sync detects the deletion.
"""
EXPORTS = (60.0, 300.0, 900.0, 3600.0, 3 * 3600.0, 6 * 3600.0)
"""Deliveries of schedules (`exports/runner`). The last value repeats."""
EXPORT_FACTORS = (0.8, 1.2)
NOTIFICATIONS = (0, 60, 300, 1800, 7200, 21600)
"""RetryQueue: notifications of alert rules (`alerts/notification_log`). After the last attempt it fails."""
EVENTS = (5.0, 60.0, 300.0, 1800.0, 7200.0, 6 * 3600.0)
"""Requests of an outgoing webhook (`events/subscriptions`). The last value repeats."""
EVENTS_DISABLED_AFTER = 3 * 86400.0
"""Seconds after the first failed request of an event after which its subscription is disabled."""
REFUSED_EVENT_ATTEMPTS = 6
"""Requests of an event that the receiver refuses with another 4xx than 408, 410, 425 and 429."""
LOGIN_EMAILS = (0, 60, 300, 1800, 7200)
"""RetryQueue: e-mails about logins and passwords (`access/login/mail_queue`)."""

# --- requests of the platform ---------------------------------------------------------------------------

MAX_REQUEST_DELAY = 20.0
"""Largest of REQUESTS. A longer Retry-After is left to the caller."""
REQUESTS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, MAX_REQUEST_DELAY)
"""One GET request (`platform_api/retry`)."""
REQUEST_FACTORS = (0.5, 1.0)
"""Also of PROBES. With a lower bound of 0 many clients would retry at once."""
PROBES = (10.0, 20.0, 40.0, 60.0)
"""Single requests while the platform is unreachable (`platform_api/circuit`). The last value repeats."""
LOGINS = (2.0, 30.0, 300.0)
"""Failed logins (`platform_api/login`). The last value repeats."""
KEYS = (5.0, 60.0, 300.0)
"""Requests with a refused API key (`platform_api/login`). The last value repeats."""
COLLECTIONS = (60.0, 120.0, 240.0, 300.0)
"""Syncs of a failing collection (`sync/collection_backoff`). The last value repeats.

The first limits the load to one attempt per minute. The last bounds the time until the sync detects that the
platform has recovered to five minutes, before COLLECTION_FACTORS.
"""
COLLECTION_FACTORS = (1.0, 1.3)
REFUSED_COLLECTION = 3600.0
"""A collection that the platform refuses with 403 or 404 (`sync/collection_backoff`)."""

# --- jobs and consumers ---------------------------------------------------------------------------------

FIRST_OF_JOBS = 1.0
"""A failed job or consumer (`core/scheduler`, `core/consumer`). Doubled each time, up to its interval."""
