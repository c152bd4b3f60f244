"""Data classes of the catalogue: Field, Relation, Resource, Operation. Frozen.

They describe the platform only. `sync/plan.py` decides how each collection is synced, `facade/exposure.py`
how the facade exposes each operation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

FieldType = Literal["integer", "number", "string", "boolean", "array", "object", "timestamp", "any"]
Module = Literal[
    "authentication",
    "calls",
    "storage",
    "settings",
    "customer",
    "history",
    "callmeback",
    "reports",
    "registration",
]
Method = Literal["GET", "POST", "PATCH", "DELETE"]
ResponseKind = Literal["collection", "item", "message", "file", "dictionary", "none", "unknown"]

Operator = Literal["eq", "ne", "lt", "lte", "gt", "gte", "in", "like", "notlike"]

OPERATORS: dict[str, Operator] = {
    "eq": "eq",
    "=": "eq",
    "ne": "ne",
    "neq": "ne",
    "<>": "ne",
    "!=": "ne",
    "lt": "lt",
    "<": "lt",
    "lte": "lte",
    "<=": "lte",
    "gt": "gt",
    ">": "gt",
    "gte": "gte",
    ">=": "gte",
    "in": "in",
    "like": "like",
    "notlike": "notlike",
}
"""Operator by each spelling in the specification.

The simulator has a separate table and separate comparisons on purpose: tests compare both implementations,
and shared code would hide mistakes.
"""

Meaning = Literal[
    "phone",
    "contact_phone",
    "extension",
    "caller_id",
    "duration",
    "seconds",
    "bytes",
    "unix_time",
    "cost",
    "code",
    "open_code",
    "choice",
    "secret",
    "text",
]
"""Meaning of a value beyond its type.

Controls format, masking, erasure, schema drift and export columns.

| Meaning | Value | Shown as | In an erased record | New values |
|---|---|---|---|---|
| phone | number of a call, a message or the account | telephone number | kept unless erased | |
| contact_phone | number in the settings of a user, contact, group or room | telephone number | removed | |
| extension | internal number | received | kept unless erased | |
| caller_id | number, with or without a name | received | kept without a name | |
| duration, seconds | measured time; configured time | h:mm:ss; s | | |
| bytes, unix_time | a size; Unix seconds | kB, MB …; time | | |
| cost | money, in the currency of the account | received | | |
| code | word or letter of a set that is nearly closed | label | kept | schema drift |
| open_code | word of an open set | received | kept | |
| choice | code of a setting or of a rating | label | removed | schema drift |
| secret | PIN, password or key | hidden | removed | |
| text | prose | with its lines | removed | |
"""

Audience = Literal["viewer", "agent", "supervisor", "admin"]
"""Lowest dashboard role that can view the records of a collection."""

_PARAMETER = re.compile(r"\{([a-z0-9]+)\}")


@dataclass(frozen=True, slots=True)
class Field:
    """Property of a record or of a request body.

    `type`: type in the specification (timestamp: 'YYYY-MM-DD HH:MM:SS' UTC).
    `observed`: type that the real platform sends, if different (docs/platform.md#4-types).
    `documented`: False for a field that only docs/platform.md names.
    `item_only`: returned by the record's own path, but not by the collection's list.
    `codes`: codes that the specification lists. Without a list, schema drift compares with the codes found
    by the initial sync.
    `members`: names in the objects of the value, () if they are not shown or the value has no objects.
    """

    name: str
    type: FieldType
    about: str = ""
    observed: FieldType | None = None
    documented: bool = True
    item_only: bool = False
    required: bool = False
    meaning: Meaning | None = None
    codes: tuple[str, ...] = ()
    members: tuple[str, ...] = ()

    @property
    def actual_type(self) -> FieldType:
        """Observed type, or else the type in the specification."""
        return self.observed or self.type


@dataclass(frozen=True, slots=True)
class Relation:
    """Reference from a property of a record to records of a collection.

    `name`: the property, and its name in `include=`.
    `target_collection`: path of the collection, without a leading slash.
    `is_list`: the property is a list.
    `is_includable`: `include=` accepts the name.
    `reference_fields`: fields of the target whose values the property can contain, in order of comparison.
    `member_fields`: fields of an included object that belong to the relation, so that records of the target
    lack them.
    """

    name: str
    target_collection: str
    is_list: bool = False
    is_includable: bool = False
    reference_fields: tuple[str, ...] = ("id",)
    member_fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Resource:
    """Type of record with its collection.

    `collection`: path without a leading slash (`sms/cannedresponses`).
    `key`: name of the identifier; None if the records have none.
    `date`: date property (docs/platform.md#3-collections).
    `item`: each record has its own GET path.
    `is_listed`: a GET without parameters lists the records.
    `history`: the records report events, so they stay visible here after their deletion on the platform.
    `audience`: lowest role that can view the records on the Account pages and export them.
    `user_key`: field with the platform user, or the user's mailbox, to which a record belongs; None if there
    is no such field.
    `is_shared`: every role of the audience can view all records, even if users are limited to their own
    (`dashboard.agents_see`).
    """

    name: str
    collection: str
    title: str
    fields: tuple[Field, ...]
    key: str | None = "id"
    date: str | None = None
    item: bool = True
    is_listed: bool = True
    relations: tuple[Relation, ...] = ()
    about: str = ""
    history: bool = False
    audience: Audience = "supervisor"
    user_key: str | None = None
    is_shared: bool = False

    @property
    def table(self) -> str:
        """Table of the collection in mirror.db."""
        return self.collection.replace("/", "_")

    @property
    def has_item_only_fields(self) -> bool:
        """True if the record's own path returns more fields than the list."""
        return any(field.item_only for field in self.fields)

    def field(self, name: str) -> Field | None:
        return next((field for field in self.fields if field.name == name), None)


@dataclass(frozen=True, slots=True)
class Operation:
    """Method on a path.

    `resource`: name of the Resource in the response; None if the specification shows none.
    `response_kind`: envelope of the response.
    `success`, `errors`: status codes in the specification.
    `is_bulk`: the request body is an array of objects.
    `is_public`: no credentials are required.
    `body`: fields of the request body; None without a body, () if the specification does not show them.
    """

    module: Module
    method: Method
    path: str
    response_kind: ResponseKind
    about: str
    resource: str | None = None
    success: tuple[int, ...] = (200,)
    errors: tuple[int, ...] = (401,)
    query: tuple[Field, ...] = ()
    body: tuple[Field, ...] | None = None
    is_bulk: bool = False
    is_public: bool = False

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of path parameters in order: '/users/{id}/sms/threads/{from}/{to}' → id, from, to."""
        return tuple(_PARAMETER.findall(self.path))

    @property
    def can_include(self) -> bool:
        """True if the response can have included relations (docs/platform.md#3-collections)."""
        return self.response_kind in ("collection", "item") and self.resource is not None

    @property
    def name(self) -> str:
        """Name in lists and documents, such as 'GET /cdrs/{id}'."""
        return f"{self.method} {self.path}"
