"""Sign-ups: e-mail, code, number. Nothing of their bodies is shown; all of it is this simulator's choice.

new → (PATCH `code`) → confirmed → (PATCH `number`) → completed. Codes are printed on standard error. A
completed registration is closed: 403. It makes no second account in the simulator.
"""

from __future__ import annotations

import random
import re
import sys
from dataclasses import dataclass, field
from typing import Any

from integration.core import clock
from integration.simulator.http.bodies import Form, digits, email, filled, text
from integration.simulator.http.responses import Answered, invalid
from integration.simulator.records import numbers
from integration.simulator.records.people import Account, secret

Record = dict[str, Any]

NEW = Form(
    {"email": email, "first_name": filled, "last_name": filled, "company": text, "password": filled},
    ("email", "first_name", "last_name"),
)
CHANGE = Form({"code": text, "number": digits, "first_name": filled, "last_name": filled, "company": text})
_HASH = re.compile(r"[0-9a-f]{40}")
_RESENDS = 5


@dataclass(slots=True)
class Registration:
    record: Record
    code: str
    resends: int = 0


@dataclass(slots=True)
class Desk:
    """All registrations, by hash."""

    account: Account
    rng: random.Random
    found: dict[str, Registration] = field(default_factory=dict)

    def begin(self, body: Record) -> Record:
        fields = NEW.read(body)
        if any(person.email == fields["email"] for person in self.account.people):
            entry = {"code": "CU1001", "field": "email", "message": "This e-mail address is already in use."}
            raise Answered(400, "Validation error", [entry])
        fields.pop("password", None)
        hash_ = secret(self.rng)
        record = {"hash": hash_, "status": "new", "number": None, "created_at": clock.stamp(), **fields}
        self.found[hash_] = Registration(record, "")
        self._send_code(self.found[hash_])
        return record

    def open(self, hash_: str) -> Registration:
        """The registration. Raises Answered: 400 for no hash, 404 unknown, 403 completed."""
        if not _HASH.fullmatch(hash_):
            raise invalid("hash")
        registration = self.found.get(hash_)
        if registration is None:
            raise Answered(404, "Resource not found")
        if registration.record["status"] == "completed":
            raise Answered(403, "Access denied")
        return registration

    def change(self, hash_: str, body: Record) -> Record:
        registration = self.open(hash_)
        fields, record = CHANGE.read(body, change=True), registration.record
        code, number = fields.pop("code", None), fields.pop("number", None)
        if code is not None and code != registration.code:
            raise invalid("code")
        confirmed = code is not None or record["status"] == "confirmed"
        if number is not None and (not confirmed or number not in free_numbers(number)):
            raise invalid("number")
        record.update(fields)
        if confirmed:
            record["status"] = "confirmed"
        if number is not None:
            record.update(number=number, status="completed")
        return record

    def resend(self, hash_: str) -> None:
        registration = self.open(hash_)
        if registration.resends >= _RESENDS:
            raise Answered(403, "Access denied")
        registration.resends += 1
        self._send_code(registration)

    def _send_code(self, registration: Registration) -> None:
        registration.code = f"{self.rng.randrange(10**6):06d}"
        told = f"Simulator: registration code for {registration.record['email']} is {registration.code}"
        print(told, file=sys.stderr, flush=True)


def free_numbers(area: str) -> list[str]:
    """Numbers that can be had in an area: London ('20', '020', '4420…') or an American area code."""
    plain = area.removeprefix("44").removeprefix("0").removeprefix("1")
    if plain.startswith("20") and not plain.startswith("202"):
        return [numbers.london(n) for n in range(180, 190)]
    return [number for number in map(numbers.american, range(480)) if number[1:4] == plain[:3]][-10:]
