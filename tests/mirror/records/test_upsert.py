"""Upsert of records: exact values, precedence of the newer read, and hooks."""

from __future__ import annotations

import json

import pytest

from integration.catalogue import get_resource
from integration.core.json_records import JsonRecord, read_item, read_page, read_record
from integration.mirror.records import single_record
from integration.mirror.records.upsert import delete_rows, replace_all, store_item, upsert
from integration.mirror.schema import open_mirror
from tests.support.fake_exchange import FIXTURES

EARLY, LATE = "2026-09-02 09:00:00", "2026-09-02 10:00:00"


@pytest.fixture
def mirror(tmp_path):
    database = open_mirror(tmp_path / "mirror.db")
    yield database
    database.close()


def document(**values):
    return JsonRecord(json.dumps(values, separators=(",", ":")), values)


def store(mirror, name, *documents, requested_at=EARLY, source="sync"):
    return mirror.write(
        lambda tx: upsert(tx, get_resource(name), documents, source=source, requested_at=requested_at)
    )


def row(mirror, table, key, key_name="id"):
    with mirror.read() as connection:
        found = connection.execute(f"SELECT * FROM {table} WHERE {key_name} = ?", (key,)).fetchone()
    return dict(found) if found is not None else None


def test_only_lone_surrogates_of_a_text_are_escaped(mirror):
    text = '{"id":1,"metadata":{"score":1},"number":12345678901234567890,"title":"\ud83d \U0001f600"}'
    store(mirror, "monitors", JsonRecord(text, read_record(text).values))
    assert row(mirror, "monitors", 1)["_doc"] == text.replace("\ud83d", "\\ud83d")


@pytest.mark.parametrize(
    ("sample", "name"),
    [
        ("cdrs-list", "cdrs"),
        ("monitors-list", "monitors"),
        ("sms-list", "sms"),
        ("voicemessages-list", "voicemessages"),
        ("users-list", "users"),
        ("faxes-list", "faxes"),
        ("queues-include-users", "queues"),
    ],
)
def test_samples_of_the_platform_are_stored_exactly(mirror, sample, name):
    body = (FIXTURES / f"response-{sample}-200.json").read_bytes()
    store(mirror, name, *read_page(body).records)
    for record in json.loads(body)["data"]:
        stored = row(mirror, get_resource(name).table, record["id"])
        assert list(json.loads(stored["_doc"]).items()) == list(record.items())
        assert stored["_source"] == "sync"
        for key, value in record.items():
            if isinstance(value, list | dict):
                assert json.loads(stored[key]) == value
            else:
                assert stored[key] == value
                assert isinstance(stored[key], type(value)) or isinstance(value, bool)


@pytest.mark.parametrize("number", ["+442079460001", "00442079460001", "0", "", None, 442079460001])
def test_telephone_numbers_keep_plus_zeros_and_type(mirror, number):
    store(mirror, "cdrs", document(id=1, src=number))
    stored = row(mirror, "cdrs", 1)["src"]
    assert stored == number
    assert type(stored) is type(number)


def test_a_value_of_another_type_is_stored_unchanged(mirror):
    store(mirror, "cdrs", document(id=1, duration="18", dst={"number": "1"}, charge=None, brand_new=[1, 2]))
    stored = row(mirror, "cdrs", 1)
    assert (stored["duration"], stored["dst"], stored["charge"]) == ("18", '{"number":"1"}', None)
    assert json.loads(stored["_doc"])["brand_new"] == [1, 2]


def test_the_result_lists_inserted_and_updated_keys_and_counts_unchanged_rows(mirror):
    first = store(mirror, "cdrs", document(id=1, src="a"), document(id=2, src="b"))
    second = store(mirror, "cdrs", document(id=1, src="a"), document(id=2, src="c"), requested_at=LATE)
    assert (first.inserted, first.updated, first.unchanged) == ([1, 2], [], 0)
    assert (second.inserted, second.updated, second.unchanged) == ([], [2], 1)
    stored = row(mirror, "cdrs", 1)
    assert (stored["_first_seen"], stored["_last_seen"]) == (EARLY, LATE)
    assert row(mirror, "cdrs", 2)["_first_seen"] == EARLY


def test_a_record_requested_before_the_last_read_is_ignored(mirror):
    store(mirror, "contacts", document(id=1, first_name="new"), requested_at=LATE, source="write")
    late = store(mirror, "contacts", document(id=1, first_name="old"), requested_at=EARLY)
    assert (late.outdated, late.updated) == (1, [])
    assert row(mirror, "contacts", 1)["first_name"] == "new"


@pytest.mark.parametrize("requested_at", [EARLY, LATE])
def test_only_a_page_requested_after_the_second_of_a_deletion_restores_the_record(mirror, requested_at):
    """Stored times have a resolution of 1 s: equal times are ambiguous."""
    store(mirror, "contacts", document(id=1, first_name="a"))
    mirror.write(lambda tx: single_record.mark_missing(tx, get_resource("contacts"), [1], LATE))
    for name in ("a", "changed"):
        assert (
            store(mirror, "contacts", document(id=1, first_name=name), requested_at=requested_at).outdated
            == 1
        )
    assert row(mirror, "contacts", 1)["_missing_since"] == LATE
    store(mirror, "contacts", document(id=1), requested_at="2026-09-02 10:00:01")
    assert row(mirror, "contacts", 1)["_missing_since"] is None
    mirror.write(lambda tx: delete_rows(tx, get_resource("contacts"), [1]))
    assert row(mirror, "contacts", 1) is None


@pytest.mark.parametrize("key", [None, "", "abc", 1.5, True, [1], {"a": 1}, "007", 2**63, -(2**70)])
def test_a_record_without_a_usable_key_is_flagged_and_kept(mirror, key):
    outcome = store(mirror, "cdrs", document(id=key, src="x"))
    assert (outcome.flagged, outcome.inserted) == (1, [])
    with mirror.read() as connection:
        (flagged,) = connection.execute("SELECT table_name, doc FROM _flagged").fetchall()
    assert (flagged["table_name"], json.loads(flagged["doc"])["src"]) == ("cdrs", "x")


@pytest.mark.parametrize("odd", [2**70, "\ud800", {"a": [1]}])
def test_a_value_that_sqlite_cannot_store_does_not_affect_other_records(mirror, odd):
    texts = [document(id=1, src="a"), document(id=2, src=odd), document(id=3, src="c")]
    outcome = store(mirror, "cdrs", *texts)
    assert outcome.inserted == [1, 2, 3]
    assert [row(mirror, "cdrs", number)["src"] for number in (1, 3)] == ["a", "c"]
    assert isinstance(row(mirror, "cdrs", 2)["src"], str)
    assert json.loads(row(mirror, "cdrs", 2)["_doc"])["src"] == odd


@pytest.mark.parametrize("key", [7, "7", 7.0])
def test_an_id_as_integer_text_or_float_is_one_row(mirror, key):
    store(mirror, "cdrs", document(id=7, src="a"))
    store(mirror, "cdrs", document(id=key, src="b"), requested_at=LATE)
    with mirror.read() as connection:
        assert [tuple(found) for found in connection.execute("SELECT id, src FROM cdrs")] == [(7, "b")]
    store(mirror, "ddis", document(id="0042", e164="442079460001"))
    assert row(mirror, "ddis", "0042")["id"] == "0042", "its type in the specification is text"


def test_sip_credentials_are_never_stored(mirror):
    item = read_item((FIXTURES / "response-me-200.json").read_bytes())
    store(mirror, "me", item)
    mirror.write(lambda tx: store_item(tx, get_resource("me"), item, source="sync", requested_at=LATE))
    mirror.close()
    assert b"invented-sip-secret" not in b"".join(
        path.read_bytes() for path in mirror.path.parent.iterdir() if path.name.startswith("mirror.db")
    )


def test_hooks_run_in_the_same_transaction(mirror):
    seen = []
    mirror.hooks["cdrs"] = [lambda tx, outcome: seen.append([d.values["id"] for d in outcome.changed])]
    store(mirror, "cdrs", document(id=1), document(id=2))
    store(mirror, "cdrs", document(id=1), document(id=2, src="new"), requested_at=LATE)
    assert seen == [[1, 2], [2]]

    def fail(tx, outcome):
        raise RuntimeError("no")

    mirror.hooks["cdrs"] = [fail]
    with pytest.raises(RuntimeError):
        store(mirror, "cdrs", document(id=3))
    assert row(mirror, "cdrs", 3) is None


def test_a_collection_without_keys_is_replaced_completely(mirror):
    raw = get_resource("callmeback/visitors")
    for documents in ([document(a=1), document(a=1)], [document(b=2)]):
        mirror.write(lambda tx, d=documents: replace_all(tx, raw, d, source="sync", requested_at=EARLY))
    with mirror.read() as connection:
        assert [found[0] for found in connection.execute(f"SELECT _doc FROM {raw.table}")] == ['{"b":2}']


def test_history_that_is_read_from_the_newest_record_on_fills_its_pages(mirror):
    for newest in range(2000, 0, -100):
        store(mirror, "cdrs", *(document(id=newest - n, clid="x" * 900) for n in range(100)))

    def count_pages(connection):
        return connection.execute("PRAGMA page_count").fetchone()[0]

    used = mirror.run_exclusive(count_pages)
    mirror.run_exclusive(lambda connection: connection.execute("VACUUM"))
    assert used < 1.2 * mirror.run_exclusive(count_pages)
