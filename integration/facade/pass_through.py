"""Asking the platform on the caller's behalf, and passing on what it says."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
from flask import Response

from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.api_responses import JSON, no_answer, whole
from integration.core.errors import PlatformBroken, PlatformError, StorageError
from integration.core.json_records import Document, read_item, read_page
from integration.facade.request import Asked
from integration.mirror.records.masking import masked
from integration.mirror.records.upsert import put_item, upsert
from integration.outbound.exchange import Answer
from integration.platform_api.budget import PEOPLE
from integration.platform_api.login import Secret
from integration.sqlite.transaction import Transaction

log = logging.getLogger(__name__)

_PASSED = ("Content-Disposition", "Location", "Retry-After", "ETag", "Last-Modified")


class Nobody(Secret):
    """For what needs no credentials: neither ours nor a caller's go along."""

    __slots__ = ()

    def headers(self) -> dict[str, str]:
        return {}


NOBODY = Nobody("", "")


def get(asked: Asked) -> Answer:
    """The platform's answer to this GET, any status. Raises Stop 502 or 504 for none."""
    try:
        return asked.house.platform.get(
            asked.target, asked.query or None, who=PEOPLE, credentials=asked.caller.credentials, check=False
        )
    except PlatformError as error:
        raise no_answer(error) from error


def get_answered(asked: Asked) -> Answer:
    """As `get`, but a 5xx of a read is no answer: it becomes our 502."""
    said = get(asked)
    if said.status >= 500:
        raise no_answer(PlatformError(f"status {said.status}", status=said.status))
    return said


def answer(asked: Asked, said: Answer) -> Response:
    """What the platform said, as it said it; without secrets for a local key."""
    body, kind = said.body, said.headers.get("Content-Type", JSON)
    if asked.caller.local and "json" in kind.lower():
        body = masked(body)
    return whole(body, said.status, content_type=kind, headers=_passed(said.headers))


def _passed(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: headers[name] for name in _PASSED if name in headers}


def through(asked: Asked) -> Response:
    """Ask the platform and pass on what it says, a file while it comes. Raises Stop 502 or 504 for no answer,
    to who reads from here for a 5xx as well."""
    house = asked.house
    try:
        said = house.platform.through(
            asked.target,
            asked.query or None,
            folder=house.settings.storage.data_dir,
            credentials=asked.caller.credentials,
        )
    except PlatformError as error:
        raise no_answer(error) from error
    except OSError as error:
        log.warning("%s is passed on in one piece: %s", asked.path, error)
        said = get(asked)
    if isinstance(said, Answer):
        if said.status >= 500 and asked.caller.from_mirror:
            raise no_answer(PlatformError(f"status {said.status}", status=said.status))
        return answer(asked, said)

    def body() -> Iterator[bytes]:
        try:
            yield from said.pieces()
        except (PlatformError, OSError) as error:
            # Short of its Content-Length: that is how a reader sees that it is not whole.
            log.warning("%s ended early: %s", asked.path, error)

    response = Response(body(), said.status, _passed(said.headers), content_type=said.headers["Content-Type"])
    response.content_length = said.size
    response.call_on_close(said.close)
    return response


def read_through(asked: Asked, resource: Resource) -> Response:
    """Ask the platform and pass its answer on; what it told of a mirrored collection is kept."""
    asked_at = clock.stamp()
    said = get_answered(asked)
    if said.status == 200 and asked.caller.from_mirror and _is_plain(asked):
        keep(asked, resource, said.body, asked_at)
    return answer(asked, said)


def keep(asked: Asked, resource: Resource, body: bytes, asked_at: str) -> None:
    """Put the records of an answer into the mirror, source `read`. An unreadable one is only passed on."""
    operation = asked.operation
    single = operation is not None and operation.answer == "item"
    try:
        documents = [read_item(body)] if single else read_page(body).documents
    except PlatformBroken:
        return
    if resource.key is None:
        return

    def work(tx: Transaction) -> None:
        if single:
            put_item(tx, resource, documents[0], source="read", asked_at=asked_at)
        else:
            upsert(tx, resource, documents, source="read", asked_at=asked_at)

    try:
        asked.house.mirror.write(work)
    except StorageError as error:
        # The answer is good all the same; the next walk brings what could not be kept.
        log.warning("an answer read through could not be kept: %s", error)


def _is_plain(asked: Asked) -> bool:
    """An answer shaped by include, fields or group_by does not show records as they are."""
    return not any(name in ("include", "group_by") or name.startswith("fields") for name in asked.args)


def record_in(body: bytes) -> Document | None:
    """The one record in `{data: {...}, links}`; None for anything else."""
    try:
        parsed: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(parsed, dict) or not isinstance(parsed.get("data"), dict):
        return None
    return read_item(body)
