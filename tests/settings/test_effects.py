"""Each setting is read outside the settings package."""

from __future__ import annotations

import ast
from pathlib import Path

import integration
from integration.mirror.calls.rules import CallRules, make_call_rules
from integration.mirror.privacy import retention_rules
from integration.settings.model import Settings
from integration.settings.sources import iterate_keys

ROOT = Path(integration.__file__).parent


def list_unread(names: set[str]) -> set[str]:
    """Return the names that are no attribute in code outside the settings."""
    unread = set(names)
    for path in ROOT.rglob("*.py"):
        if path.name.startswith("settings"):
            continue
        source = path.read_text()
        # Parsing is slow, so it is limited to files whose text can contain an unread name.
        if any(f".{name}" in source for name in unread):
            tree = ast.parse(source)
            unread -= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return unread


def test_each_key_is_read() -> None:
    # Retention reads its keys by kind. Their effects are in tests/privacy/test_retention.py.
    kinds = {kind for of in retention_rules.ROW_KINDS.values() for kind in of}
    kinds |= {"transcripts", "inbox", "audit", "logs"}
    names = {{"from": "from_"}.get(key, key) for _, key, _ in iterate_keys(Settings)}
    assert list_unread(names - {f"{kind}_days" for kind in kinds}) == set()


def test_the_rules_of_calls_come_from_the_settings() -> None:
    settings = Settings.model_validate(
        {
            "platform": {"base_url": "https://api.example.com/v1.2", "user_id": "1", "api_key": "k"},
            "calls": {"short_seconds": 9},
            "sync": {"live_interval": 7},
        }
    )
    assert make_call_rules(settings) == CallRules(short_seconds=9, live_interval=7)
