"""Search the texts of all fields of records, without an index.

Calls have a search index (mirror/derived/search_index.py). Collections of settings are small. In large
collections the deadline of the reader cancels a slow search.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection

from integration.catalogue.field_meanings import SECRET_NAMES, SECRET_PREFIX
from integration.core.number_search.reading import read_number
from integration.mirror.page_queries.search_index import parse_search
from integration.mirror.query.filter_sql import SqlBuilder
from integration.mirror.query.filters import Search, SearchGroups
from integration.sqlite.listing import escape_like

_UNESCAPED_IN_JSON = re.compile(r"[^\"\\/\x00-\x1f]*")
"""Text that JSON serializers write unchanged or with `\\u` escapes."""


def parse_search_groups(text: str, calling_code: str | None) -> SearchGroups:
    """Parse a search text into groups of search terms.

    A number is one group of all its spellings; other texts have one group per word. `calling_code`: country
    code ('44') for numbers in national form (see `search_index.parse_search`).
    """
    text = " ".join(text.replace("\0", " ").split())[:200]
    if not text:
        return ()
    if read_number(text):
        return (_list_variants(text, calling_code),)
    return tuple(
        _list_variants(word, calling_code) if len(word) > 3 and read_number(word) else (word,)
        for word in text.split()
    )


def _list_variants(text: str, calling_code: str | None) -> tuple[str, ...]:
    terms = parse_search(text, calling_code)
    return tuple(dict.fromkeys((text, *(terms.groups[0] if terms else ()))))


def build_search_condition(builder: SqlBuilder, search: Search, hidden_fields: Collection[str]) -> str:
    """Return SQL that is true for records that contain all groups of `search`.

    Values of hidden and secret fields are excluded: searches would reveal them letter by letter.
    """
    hidden_paths = [f".{name}." for name in sorted(SECRET_NAMES | set(hidden_fields))]
    excluded_paths = builder.bind(json.dumps([f".{SECRET_PREFIX}", *hidden_paths]))
    columns = ("_doc", "_item") if search.include_items else ("_doc",)
    condition = _build_groups_condition(builder, search.groups, columns, excluded_paths)
    if builder.resource.collection == "chats":
        # The messages of chats are stored by user (mirror/records/subresources).
        message_condition = _build_groups_condition(builder, search.groups, ("_doc",), excluded_paths)
        return (
            f"({condition} OR id IN (SELECT CAST(json_extract(_doc, '$.chat_id') AS INTEGER)"
            f" FROM users_chatmsgs WHERE {message_condition}))"
        )
    return condition


def _build_groups_condition(
    builder: SqlBuilder, groups: SearchGroups, columns: tuple[str, ...], excluded_paths: str
) -> str:
    return (
        " AND ".join(
            "("
            + " OR ".join(
                _build_column_condition(builder, column, group, excluded_paths) for column in columns
            )
            + ")"
            for group in groups
        )
        or "1"
    )


def _build_column_condition(
    builder: SqlBuilder, column: str, variants: tuple[str, ...], excluded_paths: str
) -> str:
    path = "replace(replace(replace(t.fullkey, '\"', ''), '[', '.'), ']', '') || '.'"
    like_condition = " OR ".join(_build_like_condition(builder, "t.atom", spelling) for spelling in variants)
    tree_condition = (
        f"EXISTS (SELECT 1 FROM json_tree({column}) AS t WHERE t.type IN ('text', 'integer', 'real')"
        f" AND ({like_condition}) AND NOT EXISTS (SELECT 1 FROM json_each({excluded_paths}) AS h"
        f" WHERE instr({path}, h.value)))"
    )
    # Search the entire JSON text first, because it excludes most records without parsing them.
    prefilter = " OR ".join(_build_prefilter(builder, column, spelling) for spelling in variants)
    return (
        f"CASE WHEN {column} IS NULL OR NOT ({prefilter}) THEN 0 WHEN json_valid({column})"
        f" THEN {tree_condition} ELSE 0 END"
    )


def _build_like_condition(builder: SqlBuilder, expression: str, text: str) -> str:
    if not text.isascii():
        return f"folded_like({builder.bind(text.replace('%', ' '))}, CAST({expression} AS TEXT))"
    escaped = escape_like(text)
    return f"{expression} LIKE {builder.bind(f'%{escaped}%')} ESCAPE '\\'"


def _build_prefilter(builder: SqlBuilder, column: str, text: str) -> str:
    """Return SQL that is true if `column` can contain `text`.

    The JSON text can contain it with or without `\\u` escapes.
    """
    if not _UNESCAPED_IN_JSON.fullmatch(text):
        return "1"
    return f"({_build_like_condition(builder, column, text)} OR instr({column}, '\\u'))"
