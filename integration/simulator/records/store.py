"""Collections of records with read and write permissions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from integration.simulator.records.people import Person
from integration.simulator.records.record_fields import Record


@dataclass(slots=True)
class Collection:
    """Records of a collection by key, in the order of their keys.

    `fields`: names that queries may use; `unfilterable` names are refused in filters.
    `owners`: fields with the id of the user who may read and change a record; without them only
    administrators can.
    `is_shared`: every user can read records without an owner.
    `can_owner_write`: the owner can change the record.
    `item`: builds the form of the record's own path.
    `derive`: returns the records of a collection that is a view of other collections.
    """

    name: str
    fields: Sequence[str]
    owners: tuple[str, ...] = ()
    is_shared: bool = False
    can_owner_write: bool = True
    key: str = "id"
    item: Callable[[Record], Record] = dict
    unfilterable: frozenset[str] = frozenset()
    derive: Callable[[], Iterable[Record]] | None = None
    records: dict[Any, Record] = field(default_factory=dict)

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
        return [record for record in self.iterate_records() if self.can_read(record, person)]

    def can_read(self, record: Record, person: Person) -> bool:
        is_unowned = self.is_shared and all(record[name] is None for name in self.owners)
        return person.is_root or is_unowned or self._is_owned(record, person)

    def can_write(self, record: Record, person: Person) -> bool:
        return person.is_root or (self.can_owner_write and self._is_owned(record, person))

    def _is_owned(self, record: Record, person: Person) -> bool:
        return any(record[name] in (person.id, str(person.id)) for name in self.owners)

    def find(self, key: str) -> Record | None:
        """Return the record with the key `key`, a text from a path."""
        if self.derive is not None:
            return next((record for record in self.derive() if str(record.get(self.key)) == key), None)
        matching_record = self.records.get(key)
        if matching_record is None and key.isascii() and key.isdigit() and len(key) <= 20:
            matching_record = self.records.get(int(key))
        return matching_record
