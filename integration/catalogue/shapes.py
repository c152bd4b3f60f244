"""The words the catalogue is written in: Field, Relation, Resource, Operation. Frozen and self-checking.

Facts about the platform only. What *we* do with a collection or an operation is policy and stands in
`sync/plan.py` and `facade/exposure.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

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
"""Every spelling of the specification and what it means. The simulator has a table, and comparisons, of its
own on purpose: it is what these are compared with, and would share every mistake of a common one."""

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
"""What a value is beyond its type: drives format, masking, erasure, schema drift and export columns.

| Meaning | Value | Shown as | In an erased record | New values |
|---|---|---|---|---|
| phone | number of a call, a message or the account | telephone number | kept unless erased | |
| contact_phone | number in the settings of a user, contact, group or room | telephone number | removed | |
| extension | internal number | received | kept unless erased | |
| caller_id | number, with or without a name | received | kept without a name | |
| duration, seconds | a time that passed; a time that is set | h:mm:ss; s | | |
| bytes, unix_time | a size; Unix seconds | kB, MB …; time | | |
| cost | money, in the currency of the account | received | | |
| code | word or letter of a set that is nearly closed | label | kept | schema drift |
| open_code | word of an open set | received | kept | |
| choice | code of a setting or of a rating | label | removed | schema drift |
| secret | PIN, password or key | hidden | removed | |
| text | prose | with its lines | removed | |
"""

Audience = Literal["viewer", "agent", "supervisor", "admin"]
"""The lowest role of the dashboard that sees the records of a collection."""

MEANINGS: frozenset[str] = frozenset(get_args(Meaning))

_FIELD_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_PATH = re.compile(r"^(/([a-z0-9]+|\{[a-z0-9]+\}|\{[a-z]+\}\.[a-z0-9]+|[a-z]+\.[a-z0-9]+))+$")
_PARAMETER = re.compile(r"\{([a-z0-9]+)\}")


@dataclass(frozen=True, slots=True)
class Field:
    """One property of a record or of a request body.

    `type` is the type the specification gives (timestamp: 'YYYY-MM-DD HH:MM:SS' UTC). `observed` is what
    the real platform sends where that differs (docs/platform.md#4-types). `documented` is False for a field
    that only docs/platform.md names. `item_only`: stands in the record's own path, not in the collection's
    list. `codes` are those that the specification lists; without a list, codes of the initial sync are known.
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

    def __post_init__(self) -> None:
        if self.meaning is not None and self.meaning not in MEANINGS:
            raise ValueError(f"{self.name}: unknown meaning {self.meaning!r}")
        if not _FIELD_NAME.match(self.name) or self.name.startswith("__"):
            raise ValueError(f"field name {self.name!r}")

    @property
    def actual_type(self) -> FieldType:
        """The type to expect: observed where known, else documented."""
        return self.observed or self.type


@dataclass(frozen=True, slots=True)
class Relation:
    """`name` is the property (and the word for `include=`); `target_collection` the collection it refers to,
    by path without a leading slash; `is_list` says whether it is a list; `is_includable` whether `include=`
    takes it."""

    name: str
    target_collection: str
    is_list: bool = False
    is_includable: bool = False


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of record.

    `collection` is its path without a leading slash (`sms/cannedresponses`), `key` the name of its
    identifier (None: it has none), `date` its date property (docs/platform.md#3-collections), `item` whether
    the record has its own GET path, `is_listed` whether a GET without parameters lists it. `history`: its
    records report events, so that they stay visible here after the platform has deleted them. `audience` sees
    them on the Account pages and may export them. `user_key` is the field that names the platform user, or
    the user's mailbox, that a record belongs to (None: unknown). `is_shared`: every role of the audience sees
    all records, even where users are limited to their own (`dashboard.agents_see`).
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

    def __post_init__(self) -> None:
        names = [field.name for field in self.fields]
        if len(names) != len(set(names)):
            raise ValueError(f"{self.name}: a field twice")
        for field_name in (
            self.key,
            self.date,
            self.user_key,
            *(relation.name for relation in self.relations),
        ):
            if field_name is not None and field_name not in names:
                raise ValueError(f"{self.name}: {field_name!r} is not one of its fields")

    @property
    def table(self) -> str:
        """Name of its table in mirror.db."""
        return self.collection.replace("/", "_")

    @property
    def has_item_only_fields(self) -> bool:
        """Whether the record's own path returns more than the list."""
        return any(field.item_only for field in self.fields)

    def field(self, name: str) -> Field | None:
        return next((field for field in self.fields if field.name == name), None)


@dataclass(frozen=True, slots=True)
class Operation:
    """One method on one path.

    `resource` names the Resource it answers with (None where the specification shows none), `response_kind`
    the envelope, `success` and `errors` the statuses listed. `is_bulk` marks a body that is an array of
    objects. `is_public` needs no credentials. `body` is None where there is none, () where it is not shown.
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

    def __post_init__(self) -> None:
        if not _PATH.match(self.path):
            raise ValueError(f"path {self.path!r}")
        if not self.success:
            raise ValueError(f"{self.method} {self.path}: no success status")

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names in braces, in order: '/users/{id}/sms/threads/{from}/{to}' → id, from, to."""
        return tuple(_PARAMETER.findall(self.path))

    @property
    def name(self) -> str:
        """'GET /cdrs/{id}', its name in lists and documents."""
        return f"{self.method} {self.path}"
