"""Received SMS that can contain a stop word.

The opt-out list is in house.db. `workspace/opt_outs` follows what is due.
"""

from __future__ import annotations

from integration.mirror.derived.declaration import ALL_TIMES, Derived, Source

VERSION = 1
"""Increased when messages have another effect on the list."""

RECEIVED_MESSAGES = Derived(
    "replies",
    "Opt-outs of text messages",
    "messages",
    keys=(
        "SELECT created_at FROM sms WHERE created_at",
        "SELECT at FROM _sms_events WHERE sms_id IS NULL AND at",
    ),
    all_keys=ALL_TIMES,
    tables=(),
    sources=(
        # The comparison with '' excludes a time that is no text.
        Source(
            "sms",
            ("created_at", '"from"', "message", "type"),
            "{row}.created_at",
            "{row}.created_at > '' AND {row}.type IS NOT 'O'",
        ),
        Source("_sms_events", ("at", "sender", "text"), "{row}.at"),
    ),
    compute=None,
    describe_rules=lambda _rules: VERSION,
)
