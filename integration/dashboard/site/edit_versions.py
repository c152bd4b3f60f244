"""Detect changes of a record since its edit form was shown.

The platform has no versions of records. A form carries a digest of each value that it showed. Values are
compared in the form of `normalize_text`, so an untouched field is never a change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from flask import request

from integration.sync.writing.write_through import WriteResult

FIELD = "version"
"""Name of the hidden form field."""
OUTDATED = (
    "Not saved: another user changed this while you were editing. Your entries are still here. Open this"
    " page in a second window to compare them, then save again to replace the other changes."
)
"""Message of a form that is outdated."""
MAX_TEXT_LENGTH = 2000
"""Characters of an entered text of one line."""
MAX_PROSE_LENGTH = 200_000
"""Characters of an entered text of several lines, such as a transcript."""
_RECORD = "record"
"""Name of a whole record in the hidden field."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Changes of a form, compared with the stored record.

    `changed` are the fields whose value the user changed. `conflicts` are those of them that another user has
    changed to a different value since the form was shown.
    """

    changed: frozenset[str]
    conflicts: frozenset[str]


def normalize_text(text: str, *, has_lines: bool) -> str:
    """Return a stored or submitted text without the changes of browsers.

    Browsers send line breaks of a textarea as CRLF and remove them from a field of one line.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    return text if has_lines else text.replace("\n", "")


def describe_excess(label: str, text: str, *, has_lines: bool) -> str:
    """Return the message about a text that is too long, or ''."""
    limit = MAX_PROSE_LENGTH if has_lines else MAX_TEXT_LENGTH
    if len(text) <= limit:
        return ""
    return f"{label} has {len(text):,} characters. Shorten it to at most {limit:,}."


def make_version(stored: Mapping[str, str]) -> str:
    """Return the value of the hidden field for the shown values."""
    return " ".join(f"{name}:{_digest(value)}" for name, value in stored.items())


def compare(entered: Mapping[str, str], stored: Mapping[str, str]) -> Edit:
    """Compare the values of the submitted form with the stored ones.

    A field without a version counts as shown with its stored value.
    """
    shown = dict(entry.split(":", 1) for entry in request.form.get(FIELD, "").split() if ":" in entry)
    changed, conflicts = set(), set()
    for name, value in entered.items():
        stored_digest = _digest(stored.get(name, ""))
        shown_digest = shown.get(name, stored_digest)
        if _digest(value) in (shown_digest, stored_digest):
            continue
        changed.add(name)
        if stored_digest != shown_digest:
            conflicts.add(name)
    return Edit(frozenset(changed), frozenset(conflicts))


def make_record_version(stored: object) -> str:
    """Return the hidden field of a record saved as a whole.

    The repr of `stored` must contain the shown values only, and no secret.
    """
    return make_version({_RECORD: repr(stored)})


def is_outdated(entered: object, stored: object) -> bool:
    """Return whether the record changed since the form was shown."""
    return bool(compare({_RECORD: repr(entered)}, {_RECORD: repr(stored)}).conflicts)


def make_refusal(stored: Mapping[str, str]) -> WriteResult:
    """Return the result of a form with conflicts.

    `stored` has the labels of the stored values.
    """
    return WriteResult(
        409,
        "Not saved: another user changed this while you were editing. Your entries are still here. Check the"
        " marked fields, then save again.",
        {name: f"Now saved: “{value}”" if value else "Now empty" for name, value in stored.items()},
    )


def _digest(value: str) -> str:
    return hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
