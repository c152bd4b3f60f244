"""Shorthand for declarations: fields of one type, usual operations, resources without fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from integration.catalogue.shapes import (
    Field,
    FieldType,
    Meaning,
    Method,
    Module,
    Operation,
    Resource,
    ResponseKind,
)


def make_fields(
    field_type: FieldType,
    names: str,
    *,
    observed: FieldType | None = None,
    documented: bool = True,
    item_only: bool = False,
) -> tuple[Field, ...]:
    """Create fields of one type.

    `names`: space-separated list of `name` or `name:meaning`.
    """
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
    Field(
        "filter", "array", "JSON text: [{property, operator, value}], all must match; [] matches every record"
    ),
    Field("group_by", "string", "a property of the resource"),
    Field("sort", "string", "a property of the resource", documented=False),
    Field("dir", "string", "ASC or DESC", documented=False),
)
"""Query parameters of every GET of a collection.

They select paging, filter, grouping and, undocumented, sorting.
"""

_Fields = tuple[Field, ...]
_Statuses = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ModuleOperations:
    """Operations of one module of the specification, with their usual statuses."""

    module: Module

    def list(
        self, path: str, about: str, resource: str | None = None, query: _Fields = COLLECTION_QUERY
    ) -> Operation:
        """GET of a collection."""
        return Operation(self.module, "GET", path, "collection", about, resource, query=query)

    def list_codes(self, path: str, about: str, resource: str) -> Operation:
        """GET of the dictionaries of a collection."""
        return Operation(self.module, "GET", path, "dictionary", about, resource, errors=())

    def read(
        self, path: str, about: str, resource: str | None = None, errors: _Statuses = (401, 403, 404)
    ) -> Operation:
        """GET of one record."""
        return Operation(self.module, "GET", path, "item", about, resource, errors=errors)

    def download(
        self, path: str, about: str, resource: str | None = None, errors: _Statuses = (401, 403, 404)
    ) -> Operation:
        """GET of a file."""
        return Operation(self.module, "GET", path, "file", about, resource, errors=errors)

    def create(
        self, path: str, about: str, resource: str | None, body: _Fields, errors: _Statuses = (400, 401)
    ) -> Operation:
        """POST of one record."""
        return Operation(
            self.module, "POST", path, "item", about, resource, success=(201,), errors=errors, body=body
        )

    def change(
        self,
        path: str,
        about: str,
        resource: str,
        body: _Fields,
        success: _Statuses = (200,),
        errors: _Statuses = (400, 401, 403, 404),
    ) -> Operation:
        """PATCH of one record."""
        return Operation(
            self.module, "PATCH", path, "item", about, resource, success=success, errors=errors, body=body
        )

    def change_many(self, path: str, about: str, resource: str, body: _Fields) -> Operation:
        """PATCH of a collection.

        The body is an array of objects, each with the id of its record.
        """
        errors = (400, 401, 403, 404)
        return Operation(
            self.module, "PATCH", path, "unknown", about, resource, errors=errors, body=body, is_bulk=True
        )

    def delete(
        self,
        path: str,
        about: str,
        resource: str | None = None,
        success: _Statuses = (204,),
        errors: _Statuses = (401, 403, 404),
    ) -> Operation:
        """DELETE of one record, of records or of a collection."""
        return Operation(self.module, "DELETE", path, "none", about, resource, success=success, errors=errors)

    def public(
        self,
        method: Method,
        path: str,
        about: str,
        body: _Fields | None = None,
        response_kind: ResponseKind = "unknown",
        errors: _Statuses = (400,),
    ) -> Operation:
        """Operation that needs no credentials."""
        return Operation(
            self.module, method, path, response_kind, about, errors=errors, body=body, is_public=True
        )


FIELDS_UNKNOWN = "The specification does not show the fields."
EXAMPLES_UNRELATED = "The examples in the specification show another resource."


def make_bare_resource(name: str, collection: str, title: str, about: str) -> Resource:
    """Declare a collection whose fields the specification does not show."""
    return Resource(
        name, collection, title, fields=(), key=None, item=False, about=f"{about} Stored as received."
    )


def make_dictionary_resource(collection: str, resource_name: str, title: str) -> Resource:
    """Declare `/<collection>/dictionaries`, the codes of the resource `resource_name`."""
    name, path = f"{resource_name}_dictionary", f"{collection}/dictionaries"
    return make_bare_resource(name, path, title, FIELDS_UNKNOWN)
