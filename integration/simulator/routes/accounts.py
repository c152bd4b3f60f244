"""Routes of sign-ups with e-mail, code and number, and of the deletion of the account.

The specification shows no bodies of sign-ups; they are invented. Status: new → (PATCH `code`) → confirmed →
(PATCH `number`) → completed. Requests for a completed registration return 403. A sign-up creates no second
account in the simulator.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from flask import Flask, Response

from integration.core import clock
from integration.simulator.context import get_current_user, get_simulator_context, get_world
from integration.simulator.http import bodies
from integration.simulator.http.responses import (
    ErrorResponse,
    make_item_response,
    make_json_response,
    make_list_response,
    make_no_content_response,
    make_validation_error,
)
from integration.simulator.records import numbers
from integration.simulator.records.authentication import make_code, print_mail
from integration.simulator.records.people import CUSTOMER_ID, make_secret

_NAMES = {"first_name": bodies.non_empty_text, "last_name": bodies.non_empty_text, "company": bodies.text}
_NEW_FORM = bodies.Form({"email": bodies.email, **_NAMES}, ("email", "first_name", "last_name"))
_CHANGE_FORM = bodies.Form({"code": bodies.text, "number": bodies.phone_digits, **_NAMES})
_HASH = re.compile(r"[0-9a-f]{40}")
_MAX_CODES = 6


@dataclass(slots=True)
class Registration:
    """Sign-up and its last code, of `sent_codes`."""

    record: dict[str, Any]
    code: str = ""
    sent_codes: int = 0

    def make_response(self) -> Response:
        return make_item_response(self.record, path=f"/registrations/{self.record['hash']}")

    def send_code(self) -> None:
        if self.sent_codes >= _MAX_CODES:
            raise ErrorResponse(403, "Access denied")
        self.sent_codes += 1
        self.code = make_code(get_simulator_context().registration_rng)
        print_mail(f"registration code for {self.record['email']} is {self.code}")


def _find_open_registration(hash_: str) -> Registration:
    """Return an open registration. Raises ErrorResponse."""
    if not _HASH.fullmatch(hash_):
        raise make_validation_error("hash")
    registration: Registration | None = get_simulator_context().registrations.get(hash_)
    if registration is None:
        raise ErrorResponse(404, "Resource not found")
    if registration.record["status"] == "completed":
        raise ErrorResponse(403, "Access denied")
    return registration


def add_routes(app: Flask) -> None:
    @app.delete("/customers/<key>")
    def delete_account(key: str) -> Response:
        """Close the account: all tokens are revoked and logins are refused."""
        if not get_current_user().is_root or key != str(CUSTOMER_ID):
            raise ErrorResponse(403, "Access denied")
        get_simulator_context().login_service.close_account()
        get_simulator_context().traffic_generator.stop()
        return make_no_content_response()

    @app.post("/registrations")
    def register() -> Response:
        fields, context = _NEW_FORM.read(bodies.read_object()), get_simulator_context()
        if any(person.email == fields["email"] for person in get_world().people):
            entry = {"code": "CU1001", "field": "email", "message": "This e-mail address is already in use."}
            raise ErrorResponse(400, "Validation error", [entry])
        hash_ = make_secret(context.registration_rng)
        record = {"hash": hash_, "status": "new", "number": None, "created_at": clock.utc_text(), **fields}
        registration = context.registrations[hash_] = Registration(record)
        registration.send_code()
        return registration.make_response()

    @app.get("/registrations/<hash_>")
    def read_registration(hash_: str) -> Response:
        return _find_open_registration(hash_).make_response()

    @app.patch("/registrations/<hash_>")
    def change_registration(hash_: str) -> Response:
        registration = _find_open_registration(hash_)
        record, fields = registration.record, _CHANGE_FORM.read(bodies.read_object(), is_change=True)
        code, number = fields.pop("code", None), fields.pop("number", None)
        if code not in (None, registration.code):
            raise make_validation_error("code")
        is_confirmed = code is not None or record["status"] == "confirmed"
        if number is not None and (not is_confirmed or number not in _list_free_numbers(number)):
            raise make_validation_error("number")
        record.update(fields)
        if is_confirmed:
            record["status"] = "confirmed"
        if number is not None:
            record.update(number=number, status="completed")
        return registration.make_response()

    @app.post("/registrations/<hash_>/resend")
    def resend(hash_: str) -> Response:
        _find_open_registration(hash_).send_code()
        return make_json_response({"message": "The code has been sent."})

    @app.get("/registrations/<hash_>/numbers/<area>")
    def list_numbers(hash_: str, area: str) -> Response:
        _find_open_registration(hash_)
        free_numbers = _list_free_numbers(area) if area.isdigit() else []
        if not free_numbers:
            raise ErrorResponse(404, "Resource not found")
        return make_list_response({"e164": number, "areacode": area} for number in free_numbers)


def _list_free_numbers(area: str) -> list[str]:
    """List available numbers of an area.

    `area`: London ('20', '020', '4420…') or a US area code.
    """
    area_code = area.removeprefix("44").removeprefix("0").removeprefix("1")
    if area_code.startswith("20") and not area_code.startswith("202"):
        return [numbers.make_london_number(n) for n in range(180, 190)]
    american_numbers = map(numbers.make_american_number, range(480))
    return [number for number in american_numbers if number[1:4] == area_code[:3]][-10:]
