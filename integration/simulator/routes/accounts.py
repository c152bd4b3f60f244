"""Routes of sign-ups and of the deletion of the account."""

from __future__ import annotations

from typing import Any

from flask import Flask, Response

from integration.simulator.context import get_current_user, get_simulator_context
from integration.simulator.http import bodies
from integration.simulator.http.responses import (
    ErrorResponse,
    make_item_response,
    make_json_response,
    make_list_response,
    make_no_content_response,
)
from integration.simulator.records import registrations
from integration.simulator.records.people import CUSTOMER_ID


def add_routes(app: Flask) -> None:
    _add_registration_routes(app)

    @app.delete("/customers/<key>")
    def delete_account(key: str) -> Response:
        """Close the account: all tokens are revoked and logins are refused."""
        if not get_current_user().is_root or key != str(CUSTOMER_ID):
            raise ErrorResponse(403, "Access denied")
        get_simulator_context().login_service.close_account()
        get_simulator_context().traffic_generator.stop()
        return make_no_content_response()


def _add_registration_routes(app: Flask) -> None:
    def make_response(record: dict[str, Any]) -> Response:
        return make_item_response(record, path=f"/registrations/{record['hash']}")

    @app.post("/registrations")
    def register() -> Response:
        return make_response(get_simulator_context().registrations.create(bodies.read_object()))

    @app.get("/registrations/<hash_>")
    def read_registration(hash_: str) -> Response:
        return make_response(get_simulator_context().registrations.get_open(hash_).record)

    @app.patch("/registrations/<hash_>")
    def change_registration(hash_: str) -> Response:
        return make_response(get_simulator_context().registrations.change(hash_, bodies.read_object()))

    @app.post("/registrations/<hash_>/resend")
    def resend(hash_: str) -> Response:
        get_simulator_context().registrations.resend(hash_)
        return make_json_response({"message": "The code has been sent."})

    @app.get("/registrations/<hash_>/numbers/<area>")
    def list_numbers(hash_: str, area: str) -> Response:
        get_simulator_context().registrations.get_open(hash_)
        free_numbers = registrations.list_free_numbers(area) if area.isdigit() else []
        if not free_numbers:
            raise ErrorResponse(404, "Resource not found")
        return make_list_response({"e164": number, "areacode": area} for number in free_numbers)
