"""Shorthand for the rows: many fields of one type in one line, and the query every collection takes."""

from __future__ import annotations

from typing import cast

from integration.catalogue.shapes import Field, FieldType, Meaning, Resource


def make_fields(
    field_type: FieldType,
    names: str,
    *,
    observed: FieldType | None = None,
    documented: bool = True,
    item_only: bool = False,
) -> tuple[Field, ...]:
    """Make one Field for each entry of a blank-separated list, in its order: `name` or `name:meaning`."""
    fields = []
    for entry in names.split():
        name, _, meaning = entry.partition(":")
        fields.append(
            Field(
                name,
                field_type,
                observed=observed,
                documented=documented,
                item_only=item_only,
                meaning=cast("Meaning | None", meaning or None),
            )
        )
    return tuple(fields)


COLLECTION_QUERY = (
    Field("page", "integer", "page number, from 1"),
    Field("limit", "integer", "records per page, at most 5000"),
    Field("filter", "array", "JSON text: [{property, operator, value}], all must match; [] is no filter"),
    Field("group_by", "string", "a property of the resource"),
    Field("sort", "string", "a property of the resource (observed.md §3)", documented=False),
    Field("dir", "string", "ASC or DESC (observed.md §3)", documented=False),
)
"""What every GET of a collection takes: pager, filter, grouping and, as observed, sorting."""


def make_dictionary_resource(collection: str, resource_name: str, title: str) -> Resource:
    """What `/<collection>/dictionaries` lists: the codes of the resource `resource_name`. Its records aren't
    shown."""
    return Resource(
        name=f"{resource_name}_dictionary",
        collection=f"{collection}/dictionaries",
        title=title,
        fields=(),
        key=None,
        item=False,
        about="Fields not shown. Kept as received.",
    )
