"""What is always asked of the platform, and its last answer for when it is away."""

from __future__ import annotations

import logging

from flask import Response

from integration.core import clock
from integration.core.api_responses import Stop, whole
from integration.core.errors import StorageError
from integration.facade import pass_through as passing
from integration.facade.request import Asked
from integration.mirror.records import response_cache as answers
from integration.mirror.records.masking import masked

log = logging.getLogger(__name__)

FRESH_SECONDS = 86400.0
"""A dictionary says what codes mean: it is asked for again after a day."""


def read(asked: Asked) -> Response:
    """Raises Stop 502 or 504 where the platform gives no answer and never gave one."""
    target = f"{asked.target}?{asked.query}" if asked.query else asked.target
    lasts = asked.caller.narrowed is None and not _is_live(asked.path)
    with asked.house.mirror.read() as connection:
        known = answers.find(connection, target) if lasts else None
    dictionary = asked.path.endswith("/dictionaries")
    if known is not None and dictionary and not asked.wants_fresh and _age(known) < FRESH_SECONDS:
        return _again(asked, known)
    asked_at = clock.stamp()
    try:
        said = passing.get_answered(asked)
    except Stop:
        if known is None or asked.wants_fresh:
            raise
        return _again(asked, known)
    if lasts and said.status == 200:
        kind = said.headers.get("Content-Type", "application/json")
        try:
            asked.house.mirror.write(lambda tx: answers.keep(tx, target, said.body, kind, asked_at))
        except StorageError as error:
            log.warning("the answer to %s could not be kept: %s", asked.path, error)
    return passing.answer(asked, said)


def _is_live(path: str) -> bool:
    """Yesterday's live calls are no answer."""
    return path.startswith("/calls/") or path.endswith("/calls")


def _age(known: answers.Kept) -> float:
    moment = clock.parse_stamp(known.asked_at)
    return (clock.now() - moment).total_seconds() if moment else FRESH_SECONDS


def _again(asked: Asked, known: answers.Kept) -> Response:
    body = masked(known.body) if asked.caller.local and "json" in known.content_type.lower() else known.body
    headers = {"X-Mirror-Age": str(max(0, int(_age(known)))), "X-Mirror-Complete": "true"}
    return whole(body, content_type=known.content_type, headers=headers)
