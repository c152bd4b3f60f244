"""No setting is without effect: each key is read somewhere outside the settings themselves."""

from __future__ import annotations

import ast
from pathlib import Path

import integration
from integration.factory import make_call_rules
from integration.mirror.calls.rules import CallRules
from integration.mirror.privacy import retention_rules
from integration.settings.model import Settings
from integration.settings.sources import iterate_keys

ROOT = Path(integration.__file__).parent


def read_somewhere() -> set[str]:
    """Every attribute that code outside the settings looks at."""
    found = set()
    for path in ROOT.rglob("*.py"):
        if not path.name.startswith("settings"):
            tree = ast.parse(path.read_text())
            found |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return found


def test_every_key_is_read() -> None:
    attributes = read_somewhere()
    # By their kinds; what each does is in tests/commands/test_retention.py.
    kinds = {kind for of in retention_rules.ROW_KINDS.values() for kind in of} | {
        "transcripts",
        "inbox",
        "audit",
        "logs",
    }
    attributes |= {f"{kind}_days" for kind in kinds}
    unread = [
        f"{section}.{key}"
        for section, key, _ in iterate_keys(Settings)
        if {"from": "from_"}.get(key, key) not in attributes
    ]
    assert unread == []


def test_calls_are_judged_by_the_settings() -> None:
    settings = Settings.model_validate(
        {
            "platform": {"base_url": "https://api.example.com/v1.2", "user_id": "1", "api_key": "k"},
            "calls": {"short_seconds": 9},
            "sync": {"live_interval": 7},
        }
    )
    assert make_call_rules(settings) == CallRules(short_seconds=9, live_interval=7)
