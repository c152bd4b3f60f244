"""Derived columns of exports, computed from the fields of a record.

They contain the local time of a UTC time, h:mm:ss of seconds, the name of an id, the label of a code, the
currency of a cost, and the file of a recording. Names follow one rule in every collection: `created_at` has
`created_local`, `duration` has `duration_hms`, `user_id` has `user_name`, `users` has `users_names`, `type`
has `type_label`. A documented field of the same name takes precedence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from integration.catalogue import RESOURCES, field_labels
from integration.catalogue.field_meanings import is_secret
from integration.catalogue.shapes import Field, Relation, Resource
from integration.mirror.query.filter_sql import get_value_kind
from integration.mirror.records.dictionaries import Labels
from integration.mirror.sync_state.media_files import FILE_STATE_LABELS

ColumnKind = Literal[
    "text", "json", "time", "utc", "local", "number", "decimal", "boolean", "any", "duration", "secret"
]
"""Type of a column's cells.

`time` is UTC text, converted to the zone of the export if it has one. `utc` is written as stored. `local` is
written with the offset of its zone. `duration` is seconds, written as h:mm:ss. `json` is a list or an object
as JSON text. Because of schema drift any of them may contain other text."""

DerivedKind = Literal["text", "local", "duration", "number"]

MEDIA_COLLECTIONS = {"monitors": ("recording", "recordings"), "voicemessages": ("voicemail", "voicemail")}
"""By collection with files in the archive: kind in table `media`, folder in URLs of the dashboard."""
_TITLE_FIELDS = ("name", "title", "company", "description", "filename", "label", "e164")


@dataclass(frozen=True, slots=True)
class DerivedColumn:
    """A column computed by `sql`.

    `values` and `:base`, the URL of the dashboard, are bound in it.
    """

    name: str
    kind: DerivedKind
    sql: str
    values: Mapping[str, Any] = field(default_factory=dict)


def is_utc_time(resource: Resource, resource_field: Field) -> bool:
    """Return whether the field is a UTC time.

    The specification types some of them as plain text.
    """
    kind = get_value_kind(resource_field, resource)
    return kind == "time" or (resource_field.name.endswith("_at") and kind == "text")


def use_one_zone(resource: Resource, columns: Sequence[str], zone: str) -> tuple[str, ...]:
    """Return `columns` with each time once.

    It is local, or UTC if `zone` is UTC.
    """
    local_names = {
        resource_field.name: local_name
        for resource_field in resource.fields
        if is_utc_time(resource, resource_field) and _has_derived_columns(resource_field)
        if resource.field(local_name := _name_local_time(resource_field.name)) is None
    }
    if zone == "UTC":
        duplicates = {local_names[name] for name in columns if name in local_names}
        return tuple(name for name in columns if name not in duplicates)
    return tuple(dict.fromkeys(local_names.get(name, name) for name in columns))


def _name_local_time(name: str) -> str:
    return f"{name.removesuffix('_at')}_local"


def derive_columns(resource: Resource, labels: Labels) -> dict[str, DerivedColumn]:
    """Return derived columns by name, in the order of source fields.

    `labels` has the labels of codes from the platform's dictionaries.
    """
    columns: dict[str, DerivedColumn] = {}
    for index, resource_field in enumerate(resource.fields):
        if _has_derived_columns(resource_field):
            columns |= {
                column.name: column for column in _derive_from_field(resource, resource_field, labels, index)
            }
    columns |= {column.name: column for column in _derive_from_record(resource)}
    return {name: column for name, column in columns.items() if resource.field(name) is None}


def _has_derived_columns(resource_field: Field) -> bool:
    return not resource_field.item_only and not is_secret(resource_field.name)


def _derive_from_field(
    resource: Resource, resource_field: Field, labels: Labels, field_index: int
) -> Iterator[DerivedColumn]:
    name, cell = resource_field.name, f'"{resource.table}"."{resource_field.name}"'
    if is_utc_time(resource, resource_field):
        yield DerivedColumn(_name_local_time(name), "local", cell)
    if resource_field.meaning == "duration":
        yield DerivedColumn(f"{name}_hms", "duration", cell)
    code_labels = {**field_labels.parse_codes(resource_field, name), **labels.get(name, {})}
    if code_labels:
        # Labels are data of the platform: bound as values, never part of the SQL.
        bound_values = {
            f"label{field_index}_{label_index}_{suffix}": text
            for label_index, pair in enumerate(code_labels.items())
            for suffix, text in zip("cw", pair, strict=True)
        }
        names = list(bound_values)
        cases = " ".join(
            f"WHEN :{code} THEN :{word}" for code, word in zip(names[::2], names[1::2], strict=True)
        )
        yield DerivedColumn(
            f"{name}_label", "text", f"CASE CAST({cell} AS TEXT) {cases} ELSE {cell} END", bound_values
        )
    relation = next((candidate for candidate in resource.relations if candidate.name == name), None)
    target = next(
        (
            candidate
            for candidate in RESOURCES
            if relation and candidate.collection == relation.target_collection and candidate.is_listed
        ),
        None,
    )
    if relation is not None and target is not None and target.collection != "calls":
        yield _derive_name(relation, target, cell)


def _derive_name(relation: Relation, target: Resource, cell: str) -> DerivedColumn:
    """Build the column with the names of related records.

    The field is an id, or a list of ids or of objects with ids.
    """
    field_names = {target_field.name for target_field in target.fields}
    titles = [f'named."{name}"' for name in _TITLE_FIELDS if name in field_names]
    if {"first_name", "last_name"} <= field_names:
        person = "coalesce(named.first_name, '') || ' ' || coalesce(named.last_name, '')"
        titles.insert(0, f"nullif(trim({person}), '')")
    title = f"coalesce({', '.join([*titles, 'NULL', 'NULL'])})"
    if not relation.is_list:
        name = f"{relation.name.removesuffix('_id')}_name"
        return DerivedColumn(
            name, "text", f'(SELECT {title} FROM "{target.table}" AS named WHERE named.id = {cell})'
        )
    item_id = "CASE item.type WHEN 'object' THEN json_extract(item.value, '$.id') ELSE item.value END"
    sql = (
        f"CASE WHEN json_valid({cell}) THEN (SELECT group_concat({title}, '; ') FROM json_each({cell})"
        f' AS item JOIN "{target.table}" AS named ON named.id = {item_id}) END'
    )
    return DerivedColumn(f"{relation.name}_names", "text", sql)


def _derive_from_record(resource: Resource) -> Iterator[DerivedColumn]:
    table = f'"{resource.table}"'
    cost_columns = [f'{table}."{field.name}"' for field in resource.fields if field.meaning == "cost"]
    if cost_columns:
        has_cost = f"coalesce({', '.join([*cost_columns, 'NULL'])}) IS NOT NULL"
        yield DerivedColumn(
            "currency", "text", f"CASE WHEN {has_cost} THEN (SELECT currency_iso FROM me LIMIT 1) END"
        )
    if resource.field("live_id"):
        call_id_query = f"SELECT call_id FROM _legs WHERE leg_id = {table}.live_id"
        yield DerivedColumn("call_id", "number", f"({call_id_query})")
        yield DerivedColumn("call_link", "text", f":base || '/calls/' || {table}.live_id")
    if resource.collection in MEDIA_COLLECTIONS:
        kind, folder = MEDIA_COLLECTIONS[resource.collection]
        state = f"FROM media WHERE media.kind = '{kind}' AND media.record_id = {table}.id"
        yield DerivedColumn("file", "text", f"(SELECT path {state} AND state = 'have')")
        yield DerivedColumn("file_state", "text", f"(SELECT state {state})")
        cases = " ".join(f"WHEN '{code}' THEN '{label}'" for code, label in FILE_STATE_LABELS.items())
        yield DerivedColumn("file_state_label", "text", f"(SELECT CASE state {cases} ELSE state END {state})")
        yield DerivedColumn("link", "text", f":base || '/{folder}/' || {table}.id || '.mp3'")
    elif resource.collection == "cdrs":
        source = f"FROM monitors WHERE monitors.live_id = {table}.live_id"
        yield from derive_recordings(source, "1")


def derive_recordings(source: str, condition: str) -> tuple[DerivedColumn, DerivedColumn]:
    """Build the columns of files and links of recordings.

    `source` ('FROM … WHERE …') selects the recordings.

    Several files or links in one cell are separated by spaces.
    """
    path = (
        "(SELECT path FROM media WHERE media.kind = 'recording' AND media.record_id = monitors.id"
        " AND media.state = 'have')"
    )
    link = ":base || '/recordings/' || monitors.id || '.mp3'"

    def concatenate(cell: str) -> str:
        return f"CASE WHEN {condition} THEN (SELECT group_concat({cell}, ' ') {source}) END"

    return DerivedColumn("recording_files", "text", concatenate(path)), DerivedColumn(
        "recording_links", "text", concatenate(link)
    )
