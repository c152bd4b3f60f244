"""Sign-ups with e-mail, code and number.

The specification shows no bodies; they are invented.

Status: new → (PATCH `code`) → confirmed → (PATCH `number`) → completed. Codes are printed on standard error.
Requests for a completed registration return 403. A sign-up creates no second account in the simulator.
"""

from __future__ import annotations

import random
import re
import sys
from dataclasses import dataclass, field
from typing import Any

from integration.core import clock
from integration.simulator.http.bodies import Form, email, non_empty_text, phone_digits, text
from integration.simulator.http.responses import ErrorResponse, make_validation_error
from integration.simulator.records import numbers
from integration.simulator.records.people import Account, make_secret

Record = dict[str, Any]

_NAMES = {"first_name": non_empty_text, "last_name": non_empty_text, "company": text}
NEW_FORM = Form({"email": email, "password": non_empty_text, **_NAMES}, ("email", "first_name", "last_name"))
CHANGE_FORM = Form({"code": text, "number": phone_digits, **_NAMES})
_HASH = re.compile(r"[0-9a-f]{40}")
_MAX_RESENDS = 5


@dataclass(slots=True)
class Registration:
    record: Record
    code: str
    resends: int = 0


@dataclass(slots=True)
class Registrations:
    """Registrations by hash."""

    account: Account
    rng: random.Random
    by_hash: dict[str, Registration] = field(default_factory=dict)

    def create(self, body: Record) -> Record:
        fields = NEW_FORM.read(body)
        if any(person.email == fields["email"] for person in self.account.people):
            entry = {"code": "CU1001", "field": "email", "message": "This e-mail address is already in use."}
            raise ErrorResponse(400, "Validation error", [entry])
        fields.pop("password", None)
        hash_ = make_secret(self.rng)
        record = {"hash": hash_, "status": "new", "number": None, "created_at": clock.utc_text(), **fields}
        self.by_hash[hash_] = Registration(record, "")
        self._send_code(self.by_hash[hash_])
        return record

    def get_open(self, hash_: str) -> Registration:
        """Return an open registration.

        Raises ErrorResponse: 400 for an invalid hash, 404 for an unknown registration, 403 for a completed
        registration.
        """
        if not _HASH.fullmatch(hash_):
            raise make_validation_error("hash")
        registration = self.by_hash.get(hash_)
        if registration is None:
            raise ErrorResponse(404, "Resource not found")
        if registration.record["status"] == "completed":
            raise ErrorResponse(403, "Access denied")
        return registration

    def change(self, hash_: str, body: Record) -> Record:
        registration = self.get_open(hash_)
        fields, record = CHANGE_FORM.read(body, is_change=True), registration.record
        code, number = fields.pop("code", None), fields.pop("number", None)
        if code is not None and code != registration.code:
            raise make_validation_error("code")
        is_confirmed = code is not None or record["status"] == "confirmed"
        if number is not None and (not is_confirmed or number not in list_free_numbers(number)):
            raise make_validation_error("number")
        record.update(fields)
        if is_confirmed:
            record["status"] = "confirmed"
        if number is not None:
            record.update(number=number, status="completed")
        return record

    def resend(self, hash_: str) -> None:
        registration = self.get_open(hash_)
        if registration.resends >= _MAX_RESENDS:
            raise ErrorResponse(403, "Access denied")
        registration.resends += 1
        self._send_code(registration)

    def _send_code(self, registration: Registration) -> None:
        registration.code = f"{self.rng.randrange(10**6):06d}"
        message = f"Simulator: registration code for {registration.record['email']} is {registration.code}"
        print(message, file=sys.stderr, flush=True)


def list_free_numbers(area: str) -> list[str]:
    """List available numbers of an area.

    `area`: London ('20', '020', '4420…') or a US area code.
    """
    area_code = area.removeprefix("44").removeprefix("0").removeprefix("1")
    if area_code.startswith("20") and not area_code.startswith("202"):
        return [numbers.make_london_number(n) for n in range(180, 190)]
    return [
        number for number in map(numbers.make_american_number, range(480)) if number[1:4] == area_code[:3]
    ][-10:]
