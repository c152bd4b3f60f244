"""Calls that can change the call-back list.

The list is in house.db, which keeps calls that the mirror deletes. `workspace/callback_following` follows
what is due.
"""

from __future__ import annotations

from integration.mirror.derived.declaration import ALL_IDS, Derived, Source

VERSION = 1
"""Increased when calls have another effect on the list."""

CALLBACKS = Derived(
    "callbacks",
    "Call-back list",
    "calls",
    keys=("SELECT id FROM _calls WHERE id",),
    all_keys=ALL_IDS,
    tables=(),
    sources=(
        Source(
            "_calls",
            (
                "id",
                "direction",
                "outcome",
                "started_at",
                "answered_at",
                "talk_seconds",
                "party",
                "party_e164",
                "party_name",
                "our_number",
            ),
            "{row}.id",
        ),
    ),
    compute=None,
    describe_rules=lambda rules: (VERSION, rules.counting.callback_seconds),
)
