"""JSON records keep keys, order and values exactly."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.core.errors import PlatformBroken, RecordTooLarge
from integration.core.json_records import (
    MAX_RECORD_BYTES,
    read_item,
    read_page,
    read_record,
    to_column_value,
)
from tests.support.examples import example_count

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=6,
)


@example_count(20, exhaustive=100)
@given(st.lists(st.dictionaries(st.text(max_size=8), json_values, max_size=5), max_size=4))
def test_records_keep_keys_order_and_values(records):
    body = json.dumps({"data": records, "total": len(records)}).encode()
    page = read_page(body)
    assert page.total == len(records)
    assert [list(json.loads(d.text).items()) for d in page.records] == [list(r.items()) for r in records]
    assert [list(d.values) for d in page.records] == [list(r) for r in records]


def test_numbers_beyond_64_bits_and_beyond_double_precision_stay_exact():
    page = read_page(
        b'{"data":[{"id":7,"big":123456789012345678901234567890,"fine":0.12345678901234567890}],"total":1}'
    )
    (document,) = page.records
    assert "123456789012345678901234567890" in document.text
    assert "0.12345678901234567890" in document.text
    assert to_column_value(document.values["big"]) == "123456789012345678901234567890"
    assert document.values["id"] == 7


def test_a_lone_surrogate_stays_escaped():
    (document,) = read_page(b'{"data":[{"id":1,"name":"a\\ud800b"}],"total":1}').records
    assert "\\ud800" in document.text
    to_column_value(document.values["name"]).encode()


def test_a_record_of_50_000_nested_arrays_is_read():
    depth = 50_000
    body = b'{"data":[{"id":1,"deep":' + b"[" * depth + b"]" * depth + b'}],"total":1}'
    (document,) = read_page(body).records
    assert document.values["id"] == 1
    assert len(document.text) == len('{"id":1,"deep":}') + 2 * depth


def test_a_total_may_be_text_and_is_none_if_invalid_or_absent():
    assert read_page(b'{"data":[],"total":"3"}').total == 3
    assert read_page(b'{"data":[],"total":true}').total is None
    assert read_page(b'{"data":[]}').total is None


def test_an_item_is_read_with_and_without_data_wrapper():
    assert read_item(b'{"data":{"id":1},"links":{}}').values == {"id": 1}
    assert read_item(b'{"message":"Login success","user_id":1000001}').values["user_id"] == 1000001


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>busy</html>",
        b'{"data":[{"id":1}',
        b'{"data":[{"id":1}],"total":1',
        b'{"total":1}',
        b'{"data":[1,2],"total":2}',
        b'{"data":[{"id":12345678901234567890123}}',
        b"\xff\xfe{",
        rb'{"data":[{"a":"\x"}],"total":1}',
        b'{"data":[{"a":01}],"total":1}',
    ],
)
def test_a_body_that_is_not_a_page_raises_platform_broken(body):
    with pytest.raises(PlatformBroken):
        read_page(body)


def test_nested_values_become_json_text_in_columns():
    assert to_column_value([1, 2]) == "[1,2]"
    assert to_column_value({"a": None}) == '{"a":null}'
    assert to_column_value(True) == 1
    assert to_column_value("+442079460001") == "+442079460001"
    assert to_column_value("0044") == "0044"
    assert read_record('{"a":[1, 2]}').values == {"a": [1, 2]}


@pytest.mark.parametrize("body", [b'{"a":1}{"a":2}', b'{"data":[],"total":0}{}', b'{"data":[]} ]'])
def test_text_after_the_end_of_an_object_is_malformed(body):
    with pytest.raises(PlatformBroken):
        read_page(body)
    with pytest.raises(PlatformBroken):
        read_item(body)
    with pytest.raises(PlatformBroken):
        read_record(body.decode())


def test_a_page_omits_and_names_a_record_above_the_limit():
    large = {"name": "é" * MAX_RECORD_BYTES, "inner": {"id": 8}, "id": 17}
    small = [{"id": 1, "name": "}"}, {"id": 2, "data": [{"id": 3}]}]
    records = [small[0], large, small[1]]
    size = len(json.dumps(large, ensure_ascii=False, separators=(",", ":")).encode())
    for is_ascii in (True, False):
        body = json.dumps(
            {"message": "data", "total": 3, "data": records, "links": [{"self": "/"}]}, ensure_ascii=is_ascii
        ).encode()
        page = read_page(body)
        assert [json.loads(record.text) for record in page.records] == small
        assert page.total == 3
        (description,) = page.too_large
        assert description.startswith(f"record 17: it has {size:,} bytes")
    with pytest.raises(RecordTooLarge, match="bytes"):
        read_item(json.dumps({"data": large}).encode())
    with pytest.raises(RecordTooLarge):
        read_page(json.dumps({"data": large}).encode())
    with pytest.raises(PlatformBroken):
        read_page(body[:-9])
