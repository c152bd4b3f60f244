"""Calls and messages that services with tables in house.db follow. They have no rows in mirror.db.

house.db keeps calls that the mirror deletes, so no table there is computed from the mirror alone.
"""

from __future__ import annotations

from integration.mirror.derived.declaration import ALL_TIMES, CALL_IDS, Derived, Source

CALLBACKS_VERSION = 1
"""Increased when calls have another effect on the call-back list."""
REPLIES_VERSION = 1
"""Increased when messages have another effect on the opt-out list."""

CALLBACKS = Derived(
    "callbacks",
    "Call-back list",
    "calls",
    keys=CALL_IDS,
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
    describe_rules=lambda rules: (CALLBACKS_VERSION, rules.counting.callback_seconds),
)
"""Calls that can change the call-back list, for `workspace/callback_following`."""

RECEIVED_MESSAGES = Derived(
    "replies",
    "Opt-outs of text messages",
    "messages",
    keys=(
        "SELECT created_at FROM sms WHERE created_at",
        "SELECT at FROM _sms_events WHERE sms_id IS NULL AND at",
    ),
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
    all_keys=ALL_TIMES,
    describe_rules=lambda _rules: REPLIES_VERSION,
)
"""Received SMS that can contain a stop word, for `workspace/opt_outs`."""
