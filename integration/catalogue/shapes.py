"""The words the catalogue is written in: Field, Relation, Resource, Operation. Frozen and self-checking.

Facts about the platform only. What *we* do with a collection or an operation is policy and stands in
`sync/plan.py` and `facade/exposure.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Type = Literal["integer", "number", "string", "boolean", "array", "object", "timestamp", "any"]
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
Answer = Literal["collection", "item", "message", "file", "dictionary", "none", "unknown"]

_FIELD_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_PATH = re.compile(r"^(/([a-z0-9]+|\{[a-z0-9]+\}|\{[a-z]+\}\.[a-z0-9]+|[a-z]+\.[a-z0-9]+))+$")
_PARAMETER = re.compile(r"\{([a-z0-9]+)\}")


@dataclass(frozen=True, slots=True)
class Field:
    """One property of a record or of a request body.

    `type` is the type the specification gives (timestamp: 'YYYY-MM-DD HH:MM:SS' UTC). `observed` is what
    the real platform sends where that differs (observed.md §4). `documented` is False for a field that
    only observed.md knows. `item_only`: stands in the record's own path, not in the collection's list.
    """

    name: str
    type: Type
    about: str = ""
    observed: Type | None = None
    documented: bool = True
    item_only: bool = False
    required: bool = False
    secret: bool = False

    def __post_init__(self) -> None:
        if not _FIELD_NAME.match(self.name) or self.name.startswith("__"):
            raise ValueError(f"field name {self.name!r}")

    @property
    def real_type(self) -> Type:
        """The type to expect: observed where known, else documented."""
        return self.observed or self.type


@dataclass(frozen=True, slots=True)
class Relation:
    """`name` is the property (and the word for `include=`); `to` the collection it refers to, by path
    without a leading slash; `many` says whether it is a list; `includable` whether `include=` takes it."""

    name: str
    to: str
    many: bool = False
    includable: bool = False


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of record.

    `collection` is its path without a leading slash (`sms/cannedresponses`), `key` the name of its
    identifier (None: it has none), `date` its date property (observed.md §3), `item` whether the record has
    its own GET path, `listed` whether a GET without parameters lists it.
    """

    name: str
    collection: str
    title: str
    fields: tuple[Field, ...]
    key: str | None = "id"
    date: str | None = None
    item: bool = True
    listed: bool = True
    relations: tuple[Relation, ...] = ()
    about: str = ""

    def __post_init__(self) -> None:
        names = [field.name for field in self.fields]
        if len(names) != len(set(names)):
            raise ValueError(f"{self.name}: a field twice")
        for needed in (self.key, self.date, *(relation.name for relation in self.relations)):
            if needed is not None and needed not in names:
                raise ValueError(f"{self.name}: {needed!r} is not one of its fields")

    @property
    def table(self) -> str:
        """Name of its table in mirror.db (interface.md §5)."""
        return self.collection.replace("/", "_")

    def field(self, name: str) -> Field | None:
        return next((field for field in self.fields if field.name == name), None)


@dataclass(frozen=True, slots=True)
class Operation:
    """One method on one path.

    `resource` names the Resource it answers with (None where the specification shows none), `answer` the
    envelope, `success` and `errors` the statuses listed. `bulk` marks a body that is an array of objects.
    `public` needs no credentials. `body` is None where there is none, () where it is not shown.
    """

    module: Module
    method: Method
    path: str
    answer: Answer
    about: str
    resource: str | None = None
    success: tuple[int, ...] = (200,)
    errors: tuple[int, ...] = (401,)
    query: tuple[Field, ...] = ()
    body: tuple[Field, ...] | None = None
    bulk: bool = False
    public: bool = False

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
