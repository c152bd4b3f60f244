"""Collections and records from the mirror (interface.md §4)."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

import orjson
from flask import Response

from integration.access import user_scope as narrowing
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.api_responses import Stop, whole
from integration.facade import includes
from integration.facade import pass_through as passing
from integration.facade.request import Asked
from integration.mirror.query import query
from integration.mirror.query.filters import Condition
from integration.mirror.query.query import Query
from integration.mirror.records import schema_drift as drift
from integration.mirror.records import single_record as records
from integration.mirror.records.masking import hidden_of, masked
from integration.mirror.records.single_record import Standing, Stored

QUERY_SECONDS = 2.0
"""A query that takes longer is cut (promise S12)."""


def collection(asked: Asked, resource: Resource) -> Response:
    """`{data: [...], total}`. Read through where the collection was never read completely; from what the
    mirror has when the platform then doesn't answer."""
    question = _question(asked, resource)
    if asked.wants_fresh:
        return passing.read_through(asked, resource)
    with asked.house.mirror.read(seconds=QUERY_SECONDS) as connection:
        standing = records.standing(connection, resource)
        if asked.caller.narrowed is not None:
            narrowing.check_known(connection, resource)
        if standing.complete or asked.caller.narrowed is not None:
            found = _page(asked, question, connection, standing)
            if found is not None:
                return found
    try:
        return passing.read_through(asked, resource)
    except Stop as no_answer:
        with asked.house.mirror.read(seconds=QUERY_SECONDS) as connection:
            standing = records.standing(connection, resource)
            if not standing.complete and records.is_empty(connection, resource):
                raise
            found = _page(asked, question, connection, standing, anyway=True)
            if found is None:
                raise no_answer from None
            return found


def dictionary(asked: Asked, resource: Resource) -> Response | None:
    """`{data: [...], total}`; None where the mirror can't tell.

    What a dictionary looks like is not shown. An object of codes is mirrored as one record, so that a single
    record may have been either form; several came as a list.
    """
    question = _question(asked, resource)
    if asked.wants_fresh:
        return None
    with asked.house.mirror.read(seconds=QUERY_SECONDS) as connection:
        standing = records.standing(connection, resource)
        if not standing.complete or Query(resource).total(connection) < 2:
            return None
        return _page(asked, question, connection, standing)


def item(asked: Asked, resource: Resource) -> Response:
    """`{data, links}`. A record of a complete collection that isn't here doesn't exist."""
    if resource.table == "me":
        return me(asked, resource)
    by, key = _key(asked, resource)
    # A call that began a moment ago may not have been heard of: no webhook, no poll yet.
    live = resource.table == "calls"
    if asked.wants_fresh and resource.table != "me":
        return passing.read_through(asked, resource)
    with asked.house.mirror.read(seconds=QUERY_SECONDS) as connection:
        standing = records.standing(connection, resource)
        found = records.stored(connection, resource, key, by=by)
    shaped = any(relation.includable for relation in resource.relations) and "include" in asked.args
    told = found is not None and (found.item is not None or not _is_richer(resource))
    if found is not None and told and not found.missing and not shaped:
        return _item(asked, resource, found, standing, key)
    unknown = Stop(404, f"There is no {resource.title} {key}.")
    gone = standing.complete and (found is None or found.missing)
    if gone and not live:
        raise unknown
    try:
        passed = passing.read_through(asked, resource)
    except Stop as no_answer:
        if found is None or found.missing:
            raise unknown if gone else no_answer from None
        return _item(asked, resource, found, standing, key)
    if asked.caller.narrowed is not None:
        _check_own(asked, resource, key)
    return passed


def me(asked: Asked, resource: Resource) -> Response:
    """A platform credential's own /me; for a local key the configured account's, without any `sip_*`."""
    if not asked.caller.local:
        return passing.answer(asked, passing.get(asked))
    if asked.caller.narrowed is not None:
        raise Stop(403, "This key sees only its own user's records.")
    with asked.house.mirror.read() as connection:
        texts = Query(resource, limit=1).texts(connection)
        standing = records.standing(connection, resource)
    if texts and not asked.wants_fresh:
        return whole(_record(_public_me(texts[0])), headers=headers_of(standing))
    said = passing.get(asked)
    if said.status != 200:
        return passing.answer(asked, said)
    passing.keep(asked, resource, said.body, clock.stamp())
    document = passing.record_in(said.body)
    if document is None:
        raise Stop(502, "The platform gave no usable answer to /me.")
    return whole(_record(_public_me(document.text.encode())))


def _question(asked: Asked, resource: Resource) -> Query:
    return query.parse(
        resource,
        asked.args,
        max_limit=asked.house.settings.facade.max_limit,
        hidden=hidden_of(resource) if asked.caller.local else frozenset(),
    )


def _page(
    asked: Asked,
    question: Query,
    connection: sqlite3.Connection,
    standing: Standing,
    *,
    anyway: bool = False,
) -> Response | None:
    """The page as the mirror has it; None where an included relation can only be told by the platform
    (`anyway`: then as far as the mirror knows it)."""
    if asked.caller.narrowed is not None:
        question = question.also(narrowing.own(connection, question.resource, asked.caller.narrowed))
    masking = asked.caller.local and (
        question.include or drift.may_hide_secrets(connection, question.resource)
    )
    if not question.include and not masking:
        data = asked.shortcuts.joined(connection, question)
    else:
        texts: list[bytes] | None = asked.shortcuts.texts(connection, question)
        if question.include:
            texts = includes.included(connection, question, texts or [], anyway=anyway)
            if texts is None:
                return None
        data = b",".join(map(masked, texts or []) if masking else texts or [])
    body = b'{"data":[%b],"total":%d}' % (data, asked.shortcuts.total(connection, question))
    return whole(body, headers=headers_of(standing))


def _item(asked: Asked, resource: Resource, found: Stored, standing: Standing, key: int | str) -> Response:
    if asked.caller.narrowed is not None:
        _check_own(asked, resource, key)
    text = (found.item or found.doc).encode()
    if asked.caller.local:
        text = masked(text)
    read_at = max(found.seen, standing.read_at or "") if standing.complete else found.seen
    return whole(_record(text), headers=headers_of(Standing(standing.complete, read_at)))


def _check_own(asked: Asked, resource: Resource, key: int | str) -> None:
    """403 unless the record is the narrowed key's own user's."""
    user = asked.caller.narrowed
    assert user is not None
    with asked.house.mirror.read(seconds=QUERY_SECONDS) as connection:
        mine = Query(
            resource, (Condition(resource.key or "id", "eq", key), narrowing.own(connection, resource, user))
        )
        if mine.total(connection) == 0:
            raise Stop(403, "This key sees only its own user's records.")


def own_record(asked: Asked, resource: Resource, key: int) -> None:
    """As above for any caller: nothing to check unless the key is narrowed."""
    if asked.caller.narrowed is not None:
        _check_own(asked, resource, key)


def _key(asked: Asked, resource: Resource) -> tuple[str | None, int | str]:
    """The field and the value that the path names a record by."""
    if "e164" in asked.parameters:
        return "e164", asked.parameters["e164"].lstrip("+")
    value = int(asked.parameters["id"])
    if value >= 2**63:
        raise Stop(404, f"There is no {resource.title} {value}.")
    return None, value


def _is_richer(resource: Resource) -> bool:
    """Whether the record's own path tells more than its collection does."""
    return any(field.item_only for field in resource.fields)


def headers_of(standing: Standing) -> Mapping[str, str]:
    """What an answer from the mirror says of itself (interface.md §4)."""
    headers = {"X-Mirror-Complete": "true" if standing.complete else "false"}
    moment = clock.parse_stamp(standing.read_at)
    if moment is not None:
        headers["X-Mirror-Age"] = str(max(0, int((clock.now() - moment).total_seconds())))
    return headers


def _record(text: bytes) -> bytes:
    return b'{"data":%b,"links":{}}' % text


def _public_me(text: bytes) -> bytes:
    record = orjson.loads(text)
    return orjson.dumps({name: value for name, value in record.items() if not name.startswith("sip_")})
