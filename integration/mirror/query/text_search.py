"""Search in the text of records, wherever in them it stands.

The history's calls have an index for this (see search.py). A collection of settings needs none, and of the
big ones a reader with a deadline cuts what takes too long.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection

from integration.mirror.page_queries.search_index import wanted
from integration.mirror.query.filter_sql import Binder
from integration.mirror.records.masking import SECRET_NAMES

SIP_SECRETS = (".sip_pass", ".sip_domain.", ".sip_username.")
"""As `masking.is_secret` has them, for paths such as '.users.0.sip_password.'."""

_NUMERIC = re.compile(r"[\d\s+().\-/]+")
_AS_IN_JSON = re.compile(r"[^\"\\/\x00-\x1f]*")
"""Text that stands in JSON as it is, whoever wrote it."""

Words = tuple[tuple[str, ...], ...]


def words(text: str, calling_code: str | None) -> Words:
    """What a search box asks for: every group must be found, by any of its spellings. A number may be
    written in any way (see `search.wanted`)."""
    text = " ".join(text.replace("\0", " ").split())[:200]
    if not text:
        return ()
    if _numeric(text):
        return (_spellings(text, calling_code),)
    return tuple(
        _spellings(word, calling_code) if _numeric(word) and len(word) > 3 else (word,)
        for word in text.split()
    )


def _numeric(text: str) -> bool:
    return _NUMERIC.fullmatch(text) is not None and any(c.isdigit() for c in text)


def _spellings(text: str, calling_code: str | None) -> tuple[str, ...]:
    asked = wanted(text, calling_code)
    return tuple(dict.fromkeys((text, *(asked.groups[0] if asked else ()))))


def found(binder: Binder, groups: Words, hidden: Collection[str], *, items: bool) -> str:
    """SQL: the record's text has all `groups`. What stands under a hidden name is not looked at, nor may it
    be: a search would spell it out letter by letter."""
    unseen = [f".{name}." for name in sorted(SECRET_NAMES | set(hidden))]
    taboo = binder.bind(json.dumps([*SIP_SECRETS, *unseen]))
    return " AND ".join(
        "(" + " OR ".join(_within(binder, column, group, taboo) for column in _texts(items)) + ")"
        for group in groups
    )


def _texts(items: bool) -> tuple[str, ...]:
    return ("_doc", "_item") if items else ("_doc",)


def _within(binder: Binder, column: str, spellings: tuple[str, ...], taboo: str) -> str:
    path = "replace(replace(replace(t.fullkey, '\"', ''), '[', '.'), ']', '') || '.'"
    like = " OR ".join(_like(binder, "t.atom", spelling) for spelling in spellings)
    tree = (
        f"EXISTS (SELECT 1 FROM json_tree({column}) AS t WHERE t.type IN ('text', 'integer', 'real')"
        f" AND ({like}) AND NOT EXISTS (SELECT 1 FROM json_each({taboo}) AS h"
        f" WHERE instr({path}, h.value)))"
    )
    # Most records are ruled out by their text; only the rest are taken apart.
    rough = " OR ".join(_rough(binder, column, spelling) for spelling in spellings)
    return (
        f"CASE WHEN {column} IS NULL OR NOT ({rough}) THEN 0 WHEN json_valid({column}) THEN {tree} ELSE 0 END"
    )


def _like(binder: Binder, expression: str, text: str) -> str:
    if not text.isascii():
        return f"folded_like({binder.bind(text.replace('%', ' '))}, CAST({expression} AS TEXT))"
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"{expression} LIKE {binder.bind(f'%{escaped}%')} ESCAPE '\\'"


def _rough(binder: Binder, column: str, text: str) -> str:
    """True wherever `text` may stand in the JSON text `column`, however it is escaped there."""
    if not _AS_IN_JSON.fullmatch(text):
        return "1"
    return f"({_like(binder, column, text)} OR instr({column}, '\\u'))"
