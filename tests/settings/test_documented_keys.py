"""Documented keys and defaults, listed here by hand."""

from __future__ import annotations

from typing import Any

from integration.settings.manual import to_toml
from integration.settings.model import Settings
from integration.settings.sources import iterate_keys

REQUIRED = "required"
DOCUMENTED: dict[str, dict[str, Any]] = {
    "platform": {
        "base_url": REQUIRED,
        "user_id": None,
        "api_key": None,
        "email": None,
        "password": None,
        "ca_file": None,
        "timeout": 30,
        "max_concurrency": 4,
    },
    "server": {
        "host": "127.0.0.1",
        "port": 8000,
        "public_url": None,
        "tls_cert": None,
        "tls_key": None,
        "trusted_proxies": [],
        "metrics_listen": None,
    },
    "storage": {"data_dir": "data", "keep_before_restore_days": 7},
    "audit": {"syslog": None},
    "webhooks": {"secret": None, "username": None, "password": None, "allow_from": []},
    "sync": {
        "recent_interval": 60,
        "full_interval": 86400,
        "overlap": 3600,
        "live_interval": 15,
        "max_requests_per_minute": 600,
        "on_platform_delete": "keep",
    },
    "recordings": {"download": True, "max_gb": 0},
    "voicemail": {"download": True},
    "faxes": {"download": True},
    "calls": {
        "ring_seconds": [20, 40],
        "hold_seconds": [60, 120],
        "talk_seconds": [600, 1800],
        "short_seconds": 5,
        "service_level_seconds": 20,
        "service_level_target": 80,
        "missed_target": 10,
        "callback_seconds": 15,
        "pickup_code": "",
        "usual_hours": ["Mon-Fri 08:00-18:00"],
        "outcomes": [],
    },
    "smtp": dict.fromkeys(("host", "port", "user", "password", "from", "starttls")),
    "backup": {"every_hours": 24, "keep": 7, "dest": None},
    "exports": {"folder": None, "keep_days": 7, "max_gb": 10},
    "outgoing": {"allow_hosts": []},
    "facade": {
        "base_paths": ["/v1.1", "/v1.2"],
        "writes": True,
        "destructive": False,
        "platform_credentials": True,
        "offline_grace": 86400,
        "max_limit": 5000,
        "session_idle": 900,
        "public_docs": False,
        "gzip": False,
        "cors_origins": [],
    },
    "dashboard": {"timezone": "UTC", "country": None, "agents_see": "all", "second_factor": []},
    "retention": {
        f"{kind}_days": 0
        for kind in (
            *("cdrs", "recordings", "transcripts", "sms", "voicemail"),
            *("faxes", "chats", "inbox", "audit", "logs"),
        )
    },
    "alerts": {"urls": [], "events": []},
    "log": {"level": "info", "format": "text"},
}


def test_the_settings_have_exactly_the_documented_keys_and_defaults() -> None:
    found: dict[str, dict[str, Any]] = {section: {} for section in Settings.model_fields}
    for section, key, info in iterate_keys(Settings):
        found[section][key] = REQUIRED if info.is_required() else info.default
    assert {section: list(table) for section, table in found.items()} == {
        section: list(table) for section, table in DOCUMENTED.items()
    }
    for section, table in DOCUMENTED.items():
        for key, default in table.items():
            value = found[section][key]
            expected = tuple(default) if isinstance(default, list) else default
            assert (None if value is None else to_toml(value)) == (
                None if expected is None else to_toml(expected)
            ), f"{section}.{key}"
