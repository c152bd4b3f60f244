"""Secret fields in masking, filters, text search and the write log."""

from __future__ import annotations

import json

import orjson
import pytest

from integration.catalogue import OPERATIONS, RESOURCES, get_resource
from integration.catalogue.field_meanings import SECRET_NAMES, SECRET_PREFIX, is_secret
from integration.core.json_records import JsonRecord
from integration.mirror.query import text_search
from integration.mirror.query.filter_sql import SqlBuilder
from integration.mirror.query.filters import Search
from integration.mirror.records import masking
from integration.mirror.records.upsert import remove_sip_credentials, upsert
from integration.mirror.schema import open_mirror
from integration.sync.writing import write_log

SECRETS = sorted(SECRET_NAMES | {SECRET_PREFIX, f"{SECRET_PREFIX}word", f"{SECRET_PREFIX}phrase"})
CONTACTS = get_resource("contacts")
IN_REQUESTS = {"code", "nonce", "device_fingerprint"}
"""Secrets of login requests. Records use such names for other things, such as the codes of a dictionary."""


def sent_fields():
    return {field for row in OPERATIONS for field in (*row.query, *(row.body or ()))}


@pytest.fixture
def connection(tmp_path):
    """A connection to a mirror of one contact.

    The contact has every secret, at the top of its record and nested.
    """
    mirror = open_mirror(tmp_path / "mirror.db")
    secrets = dict.fromkeys(SECRETS, "canary")
    record = {"id": 1, **secrets, "phones": [secrets]}
    document = JsonRecord(json.dumps(record), record)
    mirror.write(
        lambda tx: upsert(tx, CONTACTS, [document], source="sync", requested_at="2026-07-01 12:00:00")
    )
    with mirror.read() as connection:
        yield connection
    mirror.close()


def test_exactly_the_fields_with_a_secret_name_have_the_meaning_secret():
    fields = [(row.name, field) for row in RESOURCES for field in row.fields]
    assert [
        (name, field.name) for name, field in fields if (field.meaning == "secret") != is_secret(field.name)
    ] == []


def test_secrets_of_requests_have_secret_names_except_those_of_logins():
    secret = {field.name for field in sent_fields() if field.meaning == "secret"}
    assert {name for name in secret if not is_secret(name)} == IN_REQUESTS


@pytest.mark.parametrize("name", SECRETS)
def test_masking_hides_each_secret(name):
    body = orjson.dumps({"data": [{"id": 1, "below": {name: "canary"}}]})
    assert orjson.loads(masking.mask_json(body)) == {"data": [{"id": 1, "below": {name: None}}]}


@pytest.mark.parametrize(("text", "count"), [("canary", 0), ("1", 1)])
def test_text_search_skips_secrets(connection, text, count):
    binder = SqlBuilder(CONTACTS, connection)
    where = text_search.build_search_condition(
        binder, Search(text_search.parse_search_groups(text, None), include_items=False), ()
    )
    found = connection.execute(f"SELECT count(*) FROM contacts WHERE {where}", binder.values).fetchone()
    assert found[0] == count


@pytest.mark.parametrize("name", sorted({*SECRETS, *IN_REQUESTS}))
def test_the_write_log_redacts_each_secret(name):
    assert (
        write_log.redact_body(orjson.dumps({"below": [{name: "canary"}]}))
        == f'{{"below":[{{"{name}":"***"}}]}}'
    )


def test_the_write_log_redacts_the_secrets_of_all_operations():
    names = {field.name for field in sent_fields() if field.meaning == "secret"}
    assert "canary" not in str(write_log.redact_body(orjson.dumps(dict.fromkeys(names, "canary"))))


def test_no_secret_of_me_is_stored():
    me = get_resource("me")
    record = {field.name: "canary" for field in me.fields if field.meaning == "secret"} | {
        "sip_username": "canary"
    }
    assert remove_sip_credentials(me, JsonRecord(json.dumps(record), record)).values == {}
