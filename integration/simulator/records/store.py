"""Collections of records with read and write permissions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from integration.simulator.records.people import Person

Record = dict[str, Any]
AccessTest = Callable[[Record, Person], bool]


@dataclass(slots=True)
class Collection:
    """Records of a collection by key, in the order of their keys.

    `fields`: names that queries may use; `unfilterable` names are refused in filters.
    `item`: builds the form of the record's own path.
    `read_test`: checks whether a user may read a record; without it only administrators can.
    `write_test`: checks whether a user may change a record; the default is `read_test`.
    `derive`: returns the records of a collection that is a view of other collections.
    """

    name: str
    fields: Sequence[str]
    records: dict[Any, Record] = field(default_factory=dict)
    key: str = "id"
    item: Callable[[Record], Record] = dict
    read_test: AccessTest | None = None
    write_test: AccessTest | None = None
    unfilterable: frozenset[str] = frozenset()
    derive: Callable[[], Iterable[Record]] | None = None

    def add(self, record: Record) -> Record:
        self.records[record[self.key]] = record
        return record

    def remove(self, record: Record) -> None:
        self.records.pop(record[self.key], None)

    def iterate_records(self) -> Iterable[Record]:
        return self.records.values() if self.derive is None else self.derive()

    def list_visible(self, person: Person) -> Iterable[Record]:
        """List the records that `person` may read, in order."""
        if person.is_root:
            return self.iterate_records()
        is_readable = self.read_test
        return (
            []
            if is_readable is None
            else [record for record in self.iterate_records() if is_readable(record, person)]
        )

    def can_read(self, record: Record, person: Person) -> bool:
        return person.is_root or (self.read_test is not None and self.read_test(record, person))

    def can_write(self, record: Record, person: Person) -> bool:
        is_writable = self.write_test or self.read_test
        return person.is_root or (is_writable is not None and is_writable(record, person))

    def find(self, key: str) -> Record | None:
        """Return the record with the key `key`, a text from a path."""
        if self.derive is not None:
            return next((record for record in self.derive() if str(record.get(self.key)) == key), None)
        matching_record = self.records.get(key)
        if matching_record is None and key.isascii() and key.isdigit() and len(key) <= 20:
            matching_record = self.records.get(int(key))
        return matching_record


def make_owner_test(user_id_field: str) -> AccessTest:
    """Create a test that the field `user_id_field` is the person's id."""
    return lambda record, person: bool(record[user_id_field] == person.id)


def is_shared_or_owned(record: Record, person: Person) -> bool:
    """Check whether a record is shared (`user_id` null) or the person's own."""
    return record["user_id"] is None or bool(record["user_id"] == person.id)
