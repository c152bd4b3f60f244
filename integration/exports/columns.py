"""Columns that an export makes of a record's own fields and sets beside them: the local time of a UTC one,
h:mm:ss of seconds, the name behind an id, the word for a code, the currency of a cost, a recording's file.

One rule for every collection, so that nobody has to look up what they are called: `created_at` has
`created_local`, `duration` has `duration_hms`, `user_id` has `user_name`, `users` has `users_names`, `type`
has `type_label`. A field that is really called so comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from integration.catalogue import RESOURCES
from integration.catalogue import field_labels as words_of
from integration.catalogue.shapes import Field, Relation, Resource
from integration.mirror.query.filter_sql import kind_of
from integration.mirror.records.dictionaries import Labels
from integration.mirror.records.masking import is_secret

ExtraKind = Literal["text", "local", "duration", "number"]

FILES = {"monitors": ("recording", "recordings"), "voicemessages": ("voicemail", "voicemail")}
"""Collections whose records have a file in the archive: its kind in `media`, its folder in our URLs."""
_COSTS = ("charge", "rate")
_TITLES = ("name", "title", "company", "description", "filename", "label", "e164")


@dataclass(frozen=True, slots=True)
class Extra:
    """A column that is looked up or written another way. `values` are bound in `sql`, and so is `:base`, the
    dashboard's address."""

    name: str
    kind: ExtraKind
    sql: str
    values: Mapping[str, Any] = field(default_factory=dict)


def is_moment(resource: Resource, of: Field) -> bool:
    """Whether the field is a UTC time. The specification types some as plain text."""
    kind = kind_of(of, resource)
    return kind == "time" or (of.name.endswith("_at") and kind == "text")


def made(resource: Resource, labels: Labels) -> dict[str, Extra]:
    """By name, in the order of the fields they are made of. `labels` is what dictionaries say of codes."""
    extras: dict[str, Extra] = {}
    for number, own in enumerate(resource.fields):
        if not own.item_only and not is_secret(own.name):
            extras |= {extra.name: extra for extra in _of_field(resource, own, labels, number)}
    extras |= {extra.name: extra for extra in _of_record(resource)}
    return {name: extra for name, extra in extras.items() if resource.field(name) is None}


def _of_field(resource: Resource, own: Field, labels: Labels, number: int) -> Iterator[Extra]:
    name, cell = own.name, f'"{resource.table}"."{own.name}"'
    if is_moment(resource, own):
        yield Extra(f"{name.removesuffix('_at')}_local", "local", cell)
    if name in words_of.DURATIONS:
        yield Extra(f"{name}_hms", "duration", cell)
    words = {**words_of.codes(own, name), **labels.get(name, {})}
    if words:
        # What dictionaries say is data of the platform's, never SQL.
        bound = {
            f"label{number}_{at}_{part}": text
            for at, pair in enumerate(words.items())
            for part, text in zip("cw", pair, strict=True)
        }
        names = list(bound)
        cases = " ".join(
            f"WHEN :{code} THEN :{word}" for code, word in zip(names[::2], names[1::2], strict=True)
        )
        yield Extra(f"{name}_label", "text", f"CASE CAST({cell} AS TEXT) {cases} ELSE {cell} END", bound)
    relation = next((row for row in resource.relations if row.name == name), None)
    target = next(
        (row for row in RESOURCES if relation and row.collection == relation.to and row.listed), None
    )
    if relation is not None and target is not None and target.collection != "calls":
        yield _named(relation, target, cell)


def _named(relation: Relation, target: Resource, cell: str) -> Extra:
    """The name behind an id, or the names behind a list of ids or of objects that have one."""
    known = {of.name for of in target.fields}
    titles = [f'named."{name}"' for name in _TITLES if name in known]
    if {"first_name", "last_name"} <= known:
        person = "coalesce(named.first_name, '') || ' ' || coalesce(named.last_name, '')"
        titles.insert(0, f"nullif(trim({person}), '')")
    title = f"coalesce({', '.join([*titles, 'NULL', 'NULL'])})"
    if not relation.many:
        name = f"{relation.name.removesuffix('_id')}_name"
        return Extra(name, "text", f'(SELECT {title} FROM "{target.table}" AS named WHERE named.id = {cell})')
    one = "CASE item.type WHEN 'object' THEN json_extract(item.value, '$.id') ELSE item.value END"
    sql = (
        f"CASE WHEN json_valid({cell}) THEN (SELECT group_concat({title}, '; ') FROM json_each({cell})"
        f' AS item JOIN "{target.table}" AS named ON named.id = {one}) END'
    )
    return Extra(f"{relation.name}_names", "text", sql)


def _of_record(resource: Resource) -> Iterator[Extra]:
    table = f'"{resource.table}"'
    costs = [f'{table}."{name}"' for name in _COSTS if resource.field(name)]
    if costs:
        charged = f"coalesce({', '.join([*costs, 'NULL'])}) IS NOT NULL"
        yield Extra("currency", "text", f"CASE WHEN {charged} THEN (SELECT currency_iso FROM me LIMIT 1) END")
    if resource.field("live_id"):
        found = f"SELECT call_id FROM _call_ids WHERE _call_ids.id = {table}.live_id"
        yield Extra("call_id", "number", f"({found})")
        yield Extra("call_link", "text", f":base || '/calls/' || {table}.live_id")
    if resource.collection in FILES:
        kind, folder = FILES[resource.collection]
        state = f"FROM media WHERE media.kind = '{kind}' AND media.record_id = {table}.id"
        yield Extra("file", "text", f"(SELECT path {state} AND state = 'have')")
        yield Extra("file_state", "text", f"(SELECT state {state})")
        yield Extra("link", "text", f":base || '/{folder}/' || {table}.id || '.mp3'")
    elif resource.collection == "cdrs":
        source = f"FROM monitors WHERE monitors.live_id = {table}.live_id"
        yield from recordings_of(source, "1")


def recordings_of(source: str, when: str) -> tuple[Extra, Extra]:
    """Files and links of every recording that `source` ('FROM … WHERE …') finds, one behind the other with a
    space between."""
    path = (
        "(SELECT path FROM media WHERE media.kind = 'recording' AND media.record_id = monitors.id"
        " AND media.state = 'have')"
    )
    link = ":base || '/recordings/' || monitors.id || '.mp3'"

    def all_of(cell: str) -> str:
        return f"CASE WHEN {when} THEN (SELECT group_concat({cell}, ' ') {source}) END"

    return Extra("recording_files", "text", all_of(path)), Extra("recording_links", "text", all_of(link))
