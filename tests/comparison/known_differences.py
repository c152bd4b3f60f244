"""Comparisons that fail today, each with the reason."""

from __future__ import annotations

_SUBRESOURCES = (
    "/users/1/chatmsgs", "/users/2/chatmsgs", "/users/1/audio", "/cdrs/1/notes",
)  # fmt: skip
_RELATED_RECORDS = (
    "/users/1/cdrs-cdrs", "/users/1/contacts-contacts", "/users/1/calls-calls",
    "/users/1/smsthreads/447700900101/442079460002-sms", "/users/1/sms/threads/447700900101/442079460002-sms",
    "/contacts/1/cdrs-cdrs", "/calls/1/monitors-monitors",
)  # fmt: skip
_UNREACHABLE = "paths below a record are requested from the platform"
_NUMBERS = "included numbers are invented from the list of numbers"
_CHANGES = "test_changes.py::test_"

KNOWN_DIFFERENCES: dict[str, str] = {
    **{
        f"{_CHANGES}subresource_equals_the_platform[{path}-unreachable]": _UNREACHABLE
        for path in _SUBRESOURCES
    },
    **{
        f"{_CHANGES}related_records_equal_the_platform[{case}-unreachable]": _UNREACHABLE
        for case in _RELATED_RECORDS
    },
    **{
        f"{_CHANGES}included_members_equal_the_platform[{collection}-ddis-e164,name-unreachable]": _NUMBERS
        for collection in ("queues", "ringgroups")
    },
}
"""Reason by test, such as 'test_operations.py::test_x[GET /calls]'.

These tests are expected to fail. One that passes fails the suite: remove its entry.
"""
