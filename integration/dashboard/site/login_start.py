"""Start of a session after the password, and after the second factor."""

from __future__ import annotations

from urllib.parse import urlencode

from flask import Response, request

from integration.access import audit, browser, sessions
from integration.access.login import devices, mail_queue, mailer, second_factor
from integration.access.people import Person
from integration.context import app_context
from integration.core import tokens
from integration.dashboard.site import formats
from integration.dashboard.site.after_redirect import redirect_to
from integration.dashboard.site.tabs import find_start_page
from integration.mirror.page_queries import history
from integration.sqlite.transaction import Transaction


def start_login(person: Person, target: str, action: str) -> Response:
    """Log in a user with a correct password, or request the code.

    `target`: path of the page after the login. `action`: entry of the audit log.
    """
    app_db = app_context().app_db
    with app_db.read() as connection:
        has_factor = second_factor.has_factor(connection, person.id)
    if not has_factor:
        return start_session(person, target, action)
    token = sessions.create(
        app_db,
        person.id,
        address=request.remote_addr or "",
        agent=request.headers.get("User-Agent", ""),
        replaced_token=browser.browser_token(request),
    )
    audit.record(app_db, person.email, action, result="code required", address=request.remote_addr or "")
    response = redirect_to("/login/code?" + urlencode({"next": target}))
    browser.put_cookie(response, token, logged_in=True)
    return response


def start_session(person: Person, target: str, action: str, *, has_factor: bool = False) -> Response:
    """Start a complete session in this browser and redirect to `target`.

    `has_factor`: the user has just entered the code.
    """
    response = redirect_to(find_start_page(person) if target == "/" else target)
    put_session(response, person, action, has_factor=has_factor)
    return response


def put_session(
    response: Response, person: Person, action: str, *, has_factor: bool, notifies: bool = True
) -> str:
    """Start a session as `start_session` does, with another response. Returns its token.

    `notifies`: send the user a notice of a new device.
    """
    context = app_context()
    address, agent = request.remote_addr or "", request.headers.get("User-Agent", "")
    token, device_token = tokens.new(), tokens.new()
    # Read here, because `work` runs on the writer thread.
    old_token, old_device_token = browser.browser_token(request), browser.device_token(request)
    client_text = describe_client()

    def work(tx: Transaction) -> None:
        is_new = devices.record_login(tx, person.id, old_device_token, device_token)
        if is_new and notifies:
            mail_queue.add_notice(tx, person.id, "new device", client_text)
        sessions.insert(
            tx,
            token,
            person.id,
            address=address,
            agent=agent,
            replaced_token=old_token,
            has_factor=has_factor,
        )
        audit.record(tx, person.email, action, address=address)

    context.app_db.write(work)
    send_mails()
    browser.put_cookie(response, token, logged_in=True)
    browser.put_device_cookie(response, device_token)
    return token


def describe_client() -> str:
    """Return browser and address of this request for a notice."""
    agent = devices.describe_agent(request.headers.get("User-Agent", ""))
    return f"Browser: {agent}. Address: {request.remote_addr or formats.NOTHING}."


def find_device_id(email: str) -> int | None:
    """Return the id of this browser if it is a known device."""
    return devices.find_id(app_context().app_db, browser.device_token(request), email)


def send_mails() -> None:
    """Start sending the queued e-mails about logins."""
    app_context().scheduler.nudge(mailer.JOB_NAME)


def list_user_texts(person: Person | None, email: str = "") -> list[str]:
    """Return texts about a user, of which no password may consist."""
    texts = [person.email if person else email]
    if person is not None and person.platform_user_id is not None:
        with app_context().mirror_db.read() as connection:
            texts += [
                user["name"]
                for user in history.list_users(connection)
                if user["id"] == person.platform_user_id
            ]
    return texts
