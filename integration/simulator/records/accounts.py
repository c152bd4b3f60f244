"""Users and accounts that come and go: sign-ups, deleting a user, deleting everything."""

from __future__ import annotations

from flask import Flask, Response

from integration.simulator.http import bodies
from integration.simulator.http.responses import Answered, caller, item, listing, machine, no_content, reply
from integration.simulator.records import registrations
from integration.simulator.records.people import CUSTOMER_ID
from integration.simulator.routes.reads import open_record


def add_routes(app: Flask) -> None:
    _add_registrations(app)

    @app.delete("/users/<key>")
    def drop_user(key: str) -> Response:
        parts = machine()
        world = parts.world
        with world.lock:
            record = open_record("users", key, write=True)
            person = world.account.person(record["id"])
            assert person is not None
            if person is world.account.admin:
                # Who made the account stays as long as it.
                raise Answered(403, "Access denied")
            world.account.remove(person)
            world.collections["users"].remove(record)
            world.refresh_lines()
            parts.doorman.forget(person)
        return no_content()

    @app.delete("/customers/<key>")
    def drop_account(key: str) -> Response:
        """From now on nobody can log in, and no token does."""
        if not caller().is_root or key != str(CUSTOMER_ID):
            raise Answered(403, "Access denied")
        machine().doorman.close()
        machine().bustle.stop()
        return no_content()


def _add_registrations(app: Flask) -> None:
    @app.post("/registrations")
    def register() -> Response:
        record = machine().registrations.begin(bodies.sent())
        return item(record, path=f"/registrations/{record['hash']}")

    @app.get("/registrations/<hash_>")
    def registration(hash_: str) -> Response:
        return item(machine().registrations.open(hash_).record, path=f"/registrations/{hash_}")

    @app.patch("/registrations/<hash_>")
    def change_registration(hash_: str) -> Response:
        return item(machine().registrations.change(hash_, bodies.sent()), path=f"/registrations/{hash_}")

    @app.post("/registrations/<hash_>/resend")
    def resend(hash_: str) -> Response:
        machine().registrations.resend(hash_)
        return reply({"message": "The code has been sent."})

    @app.get("/registrations/<hash_>/numbers/<area>")
    def numbers(hash_: str, area: str) -> Response:
        machine().registrations.open(hash_)
        found = registrations.free_numbers(area) if area.isdigit() else []
        if not found:
            raise Answered(404, "Resource not found")
        return listing({"e164": number, "areacode": area} for number in found)
