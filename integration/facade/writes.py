"""Writes: done by the platform first, noted in the mirror before the answer leaves (interface.md §4).

1. Rights and settings. 2. The body is read. 3. A repeat under the same Idempotency-Key gets the first answer.
4. A journal entry. 5. The platform is asked, once. 6. The mirror. 7. The entry is finished; the platform's
status and body are the answer.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import orjson
from flask import Request, Response

from integration.access.browser import foreign_origin
from integration.catalogue import resource
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.api_responses import JSON, Stop, no_answer, whole
from integration.core.errors import PlatformError, StorageError
from integration.core.json_records import read_page
from integration.facade import pass_through as passing
from integration.facade.exposure import EXPOSURE, Exposure
from integration.facade.request import COLLECTIONS, Asked
from integration.mirror.records import single_record as records
from integration.mirror.records import write_results as written
from integration.mirror.records.upsert import delete_rows, upsert, usable_key
from integration.mirror.sync_state import collection_state as walks
from integration.mirror.sync_state import pending_deletions as accepted
from integration.outbound.exchange import Answer
from integration.platform_api.budget import PEOPLE
from integration.sqlite.transaction import Transaction
from integration.sync.writing import write_log as journal
from integration.sync.writing.deletion_poller import look_at_once

log = logging.getLogger(__name__)

MOST_BYTES = 32 * 1024 * 1024
"""A voicemail announcement travels as base64 in its body."""

SLOW_SECONDS = 60.0
"""Total for one write: click-to-call takes 15 seconds, /leadcalls may hold its answer for a minute."""

_UNREPEATABLE = ("/apitokens",)
"""Answers that hold a secret are not kept for a repeat."""


def write(asked: Asked) -> Response:
    """One write-through. Raises Stop: 400, 403, 409, 413, 422, 502, 504."""
    _check_allowed(asked)
    check_meant(asked)
    body = _body(asked)
    key = asked.request.headers.get("Idempotency-Key")
    if key is None:
        return passing.answer(asked, _send(asked, body))
    who, target = asked.caller.who, f"{asked.target}?{asked.query}"
    first = journal.claim(asked.house.house, who, key, asked.method, target, body)
    if first is not None:
        return _repeat(first)
    try:
        answer = passing.answer(asked, _send(asked, body))
    except Stop as stop:
        answer = stop.response()
    except StorageError:
        # The platform was not asked yet.
        journal.release(asked.house.house, who, key)
        raise
    kept = b"" if asked.path.startswith(_UNREPEATABLE) else answer.get_data()
    kind = answer.content_type or JSON
    try:
        journal.settle(asked.house.house, who, key, answer.status_code, kind, kept)
    except StorageError as error:
        log.warning("a repeat of %s %s will get no answer: %s", asked.method, asked.path, error)
    return answer


def _check_allowed(asked: Asked) -> None:
    settings = asked.house.settings.facade
    if not settings.writes:
        raise Stop(403, "Writes are switched off here (facade.writes).")
    if is_destructive(asked) and not settings.destructive:
        raise Stop(403, "Deleting a whole collection or the account is switched off (facade.destructive).")


def is_destructive(asked: Asked) -> bool:
    """`DELETE` of a whole collection or of the account, known to the specification or not."""
    if asked.operation is not None:
        return EXPOSURE[asked.operation.name] is Exposure.DESTRUCTIVE
    collection = asked.path.strip("/")
    return asked.method == "DELETE" and ("/" not in collection or collection in COLLECTIONS)


def _body(asked: Asked) -> bytes | None:
    """The body, which must be JSON where there is one, and say so. Raises Stop 413, 400."""
    request = asked.request
    request.max_content_length = MOST_BYTES
    body = request.get_data(cache=False)
    if body:
        check_type(request)
    if asked.caller.narrowed is not None:
        return _from_own_user(body, asked.caller.narrowed)
    if not body:
        return None
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Stop(400, f"The body is not valid JSON: {error}") from None
    return body


def check_meant(asked: Asked) -> None:
    """A browser that was asked for Basic credentials here once sends them along with whatever another site's
    page makes it post. What such a page can't send without a preflight – any other method, a body that is
    JSON by its name, X-Auth-Token – is for CORS to allow. Raises Stop."""
    request, settings = asked.request, asked.house.settings
    if request.method != "POST" or request.is_json or "Authorization" not in request.headers:
        return
    origin = foreign_origin(request, settings.server.public_url)
    # Not "*": it means pages that bring credentials of their own.
    if origin is not None and origin not in settings.facade.cors_origins:
        raise Stop(403, f"This request was sent by {origin}; facade.cors_origins does not name it.")


def check_type(request: Request) -> None:
    """Raises Stop 400 for a body that says it is no JSON. What curl and PHP claim without being asked is
    believed to be JSON; which fields a body must have is the platform's to say, and passed on."""
    kind = request.mimetype
    if kind in ("", "application/json", "application/x-www-form-urlencoded") or kind.endswith("+json"):
        return
    wrong = {"code": "SF0010", "field": "Content-Type", "message": f"{kind} is not application/json."}
    raise Stop(400, f"Content-Type: the body must be application/json, not {kind}.", errors=[wrong])


def _from_own_user(body: bytes, user: int) -> bytes:
    """A narrowed key's calls come from its own user (interface.md §6 Identity)."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Stop(400, f"The body is not valid JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise Stop(400, "The body must be a JSON object.")
    if parsed.get("from") not in (None, user, str(user)):
        raise Stop(403, "This key's calls come from its own user.")
    return orjson.dumps({**parsed, "from": str(user)})


def _repeat(first: journal.First) -> Response:
    if not first.same:
        raise Stop(422, "This Idempotency-Key was used for another request.")
    if first.status is None:
        raise Stop(409, "The first request with this Idempotency-Key has no answer yet.")
    return whole(first.body or b"", first.status, content_type=first.content_type or JSON)


def _send(asked: Asked, body: bytes | None) -> Answer:
    """Journal, platform, mirror. Raises Stop 502 or 504 for no answer: it may have been done; StorageError
    only before the platform was asked."""
    house = asked.house
    entry = journal.begin(
        house.house,
        who=asked.caller.who,
        address=asked.request.remote_addr or "",
        method=asked.method,
        path=asked.path if not asked.path.startswith("/apitokens/") else "/apitokens/***",
        body=body,
    )
    asked_at, begun = clock.stamp(), clock.monotonic()
    try:
        said = house.platform.send(
            asked.method,
            asked.target,
            body,
            params=asked.query or None,
            who=PEOPLE,
            credentials=asked.caller.credentials,
            check=False,
            seconds=max(SLOW_SECONDS, house.settings.platform.timeout),
        )
    except PlatformError as error:
        _finish(asked, entry, None, f"no answer: {error}", clock.monotonic() - begun)
        raise no_answer(error) from error
    _finish(asked, entry, said.status, _result(said), clock.monotonic() - begun)
    if said.status < 400:
        try:
            _note(asked, said, body, asked_at)
        except (StorageError, PlatformError) as error:
            # Done is done: the caller must not repeat it. The next walk brings it into the mirror.
            log.warning("%s %s was done but not noted in the mirror: %s", asked.method, asked.path, error)
        except Exception:
            # Nor must they because of a mistake of ours.
            log.exception("%s %s was done but not noted in the mirror", asked.method, asked.path)
    return said


def _finish(asked: Asked, entry: int, status: int | None, result: str, seconds: float) -> None:
    """What was done is answered, noted or not: a client that is told 503 would do it again."""
    try:
        journal.finish(asked.house.house, entry, status=status, result=result, seconds=seconds)
    except StorageError as error:
        log.warning("the result of %s %s is not in the journal: %s", asked.method, asked.path, error)


def _result(said: Answer) -> str:
    return "done" if said.status < 400 else "refused" if said.status < 500 else "failed"


def _note(asked: Asked, said: Answer, body: bytes | None, asked_at: str) -> None:
    """Bring the mirror to what the write made."""
    target = _resource(asked)
    if target is None:
        return
    if target.key is None:
        asked.house.mirror.write(lambda tx: walks.doubt(tx, target.collection))
        return
    if asked.method == "DELETE":
        _note_deleted(asked, target, said, asked_at)
        return
    record = passing.record_in(said.body)
    if record is not None and _is_shaped(asked):
        record = asked.house.platform.item(f"/{target.collection}/{usable_key(target, record)}", who=PEOPLE)
    if record is not None:
        written.keep(asked.house.mirror, target, record, asked_at)
        return
    _reread(asked, target, _ids_in(body), asked_at)


def _resource(asked: Asked) -> Resource | None:
    """The mirrored collection that a write changes, by its path: the collection's or a record's. What lies
    below a record is another thing with other ids."""
    if asked.path == "/leadcalls":
        return resource("calls")
    parts = asked.path.strip("/").split("/")
    for length in (2, 1):
        if "/".join(parts[:length]) in COLLECTIONS:
            found = resource("/".join(parts[:length]))
            mirrored = found.listed and found.table != "me"
            return found if mirrored and len(parts) <= length + 1 else None
    return None


def _note_deleted(asked: Asked, target: Resource, said: Answer, asked_at: str) -> None:
    """204 is done. 202 was only accepted: `followup` finds out when, and looks now."""
    tail = asked.path.strip("/").removeprefix(target.collection).strip("/")
    keys = [int(part) for part in tail.split(",") if part.isdigit() and int(part) < 2**63] if tail else None

    def work(tx: Transaction) -> None:
        if said.status == 202:
            accepted.note(tx, target.collection, keys, asked_at)
        elif keys is None:
            records.mark_all_missing(tx, target, clock.stamp())
        elif target.table == "calls":
            delete_rows(tx, target, keys)
        else:
            records.mark_missing(tx, target, keys, clock.stamp())

    asked.house.mirror.write(work)
    if said.status == 202:
        look_at_once(asked.house, target.collection)


def _reread(asked: Asked, target: Resource, keys: Sequence[int], asked_at: str) -> None:
    """What a bulk PATCH changed, read again: its answer shows no records."""
    if not keys:
        if asked.method == "POST":
            asked.house.mirror.write(lambda tx: walks.doubt(tx, target.collection))
        return
    condition = [{"property": target.key, "operator": "in", "value": list(keys)}]
    said = asked.house.platform.get(
        f"/{target.collection}",
        {"filter": orjson.dumps(condition).decode(), "limit": len(keys)},
        who=PEOPLE,
        credentials=asked.caller.credentials,
    )
    documents = read_page(said.body).documents
    asked.house.mirror.write(lambda tx: upsert(tx, target, documents, source="write", asked_at=asked_at))


def _ids_in(body: bytes | None) -> list[int]:
    parsed: Any = orjson.loads(body) if body else None
    entries = parsed if isinstance(parsed, list) else []
    return [entry["id"] for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), int)]


def _is_shaped(asked: Asked) -> bool:
    return any(name == "include" or name.startswith("fields") for name in asked.args)
