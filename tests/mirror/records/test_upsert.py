"""The one door for rows: stored exactly, older loses, what depends on a row changes with it."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from integration.catalogue import RESOURCES, get_resource
from integration.core.errors import NewerDatabase
from integration.core.json_records import JsonRecord, read_item, read_page
from integration.mirror.records import single_record
from integration.mirror.records.upsert import delete_rows, replace_all, store_item, upsert
from integration.mirror.schema import open_mirror

FIXTURES = Path(__file__).parents[2] / "fixtures" / "platform"
EARLY, LATE = "2026-09-02 09:00:00", "2026-09-02 10:00:00"


@pytest.fixture
def mirror(tmp_path):
    database = open_mirror(tmp_path / "mirror.db")
    yield database
    database.close()


def document(**values):
    return JsonRecord(json.dumps(values, separators=(",", ":")), values)


def store(mirror, name, *documents, asked_at=EARLY, source="sync"):
    return mirror.write(
        lambda tx: upsert(tx, get_resource(name), documents, source=source, requested_at=asked_at)
    )


def row(mirror, table, key, key_name="id"):
    with mirror.read() as connection:
        found = connection.execute(f"SELECT * FROM {table} WHERE {key_name} = ?", (key,)).fetchone()
    return dict(found) if found is not None else None


def test_every_listed_collection_has_its_table_with_every_field(mirror):
    with mirror.read() as connection:
        for listed in RESOURCES:
            columns = {column[1] for column in connection.execute(f'PRAGMA table_info("{listed.table}")')}
            if listed.is_listed:
                assert {field.name for field in listed.fields} <= columns, listed.table
                assert {"_doc", "_item", "_first_seen", "_last_seen", "_source", "_missing_since"} <= columns
            else:
                assert not columns


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
def test_the_platforms_samples_are_stored_as_they_came(mirror, sample, name):
    body = (FIXTURES / f"response-{sample}-200.json").read_bytes()
    store(mirror, name, *read_page(body).records)
    for record in json.loads(body)["data"]:
        kept = row(mirror, get_resource(name).table, record["id"])
        assert list(json.loads(kept["_doc"]).items()) == list(record.items())
        assert kept["_source"] == "sync"
        for key, value in record.items():
            if isinstance(value, list | dict):
                assert json.loads(kept[key]) == value
            else:
                assert kept[key] == value
                assert isinstance(kept[key], type(value)) or isinstance(value, bool)


@pytest.mark.parametrize("number", ["+442079460001", "00442079460001", "0", "", None, 442079460001])
def test_numbers_keep_their_plus_and_their_zeros(mirror, number):
    store(mirror, "cdrs", document(id=1, src=number))
    kept = row(mirror, "cdrs", 1)["src"]
    assert kept == number
    assert type(kept) is type(number)


def test_a_drifted_value_is_stored_as_it_came(mirror):
    store(mirror, "cdrs", document(id=1, duration="18", dst={"number": "1"}, charge=None, brand_new=[1, 2]))
    kept = row(mirror, "cdrs", 1)
    assert (kept["duration"], kept["dst"], kept["charge"]) == ("18", '{"number":"1"}', None)
    assert json.loads(kept["_doc"])["brand_new"] == [1, 2]


def test_it_tells_inserted_updated_and_unchanged_apart(mirror):
    first = store(mirror, "cdrs", document(id=1, src="a"), document(id=2, src="b"))
    again = store(mirror, "cdrs", document(id=1, src="a"), document(id=2, src="c"), asked_at=LATE)
    assert (first.inserted, first.updated, first.unchanged) == ([1, 2], [], 0)
    assert (again.inserted, again.updated, again.unchanged) == ([], [2], 1)
    kept = row(mirror, "cdrs", 1)
    assert (kept["_first_seen"], kept["_last_seen"]) == (EARLY, LATE)
    assert row(mirror, "cdrs", 2)["_first_seen"] == EARLY


def test_an_answer_asked_for_earlier_can_not_win(mirror):
    store(mirror, "contacts", document(id=1, first_name="new"), asked_at=LATE, source="write")
    late = store(mirror, "contacts", document(id=1, first_name="old"), asked_at=EARLY)
    assert (late.outdated, late.updated) == (1, [])
    assert row(mirror, "contacts", 1)["first_name"] == "new"


def test_a_record_seen_again_is_no_longer_missing(mirror):
    store(mirror, "contacts", document(id=1))
    mirror.write(lambda tx: tx.execute("UPDATE contacts SET _missing_since = ?", (EARLY,)))
    store(mirror, "contacts", document(id=1), asked_at=LATE)
    assert row(mirror, "contacts", 1)["_missing_since"] is None


@pytest.mark.parametrize("asked_at", [EARLY, LATE])
def test_a_page_that_was_on_its_way_does_not_bring_back_what_was_deleted_meanwhile(mirror, asked_at):
    """Stamps have whole seconds: a page of the same second may have been asked for before."""
    store(mirror, "contacts", document(id=1, first_name="a"))
    mirror.write(lambda tx: single_record.mark_missing(tx, get_resource("contacts"), [1], LATE))
    for name in ("a", "changed"):
        assert store(mirror, "contacts", document(id=1, first_name=name), asked_at=asked_at).outdated == 1
    assert row(mirror, "contacts", 1)["_missing_since"] == LATE


@pytest.mark.parametrize("key", [None, "", "abc", 1.5, True, [1], {"a": 1}, "007", 2**63, -(2**70)])
def test_a_record_without_a_usable_key_is_flagged_and_kept(mirror, key):
    outcome = store(mirror, "cdrs", document(id=key, src="x"))
    assert (outcome.flagged, outcome.inserted) == (1, [])
    with mirror.read() as connection:
        (flagged,) = connection.execute("SELECT table_name, doc FROM _flagged").fetchall()
    assert (flagged["table_name"], json.loads(flagged["doc"])["src"]) == ("cdrs", "x")


@pytest.mark.parametrize("odd", [2**70, "\ud800", {"a": [1]}])
def test_one_odd_value_spoils_no_record_beside_it(mirror, odd):
    texts = [document(id=1, src="a"), document(id=2, src=odd), document(id=3, src="c")]
    outcome = store(mirror, "cdrs", *texts)
    assert outcome.inserted == [1, 2, 3]
    assert [row(mirror, "cdrs", number)["src"] for number in (1, 3)] == ["a", "c"]
    assert isinstance(row(mirror, "cdrs", 2)["src"], str)
    assert json.loads(row(mirror, "cdrs", 2)["_doc"])["src"] == odd


@pytest.mark.parametrize("key", [7, "7", 7.0])
def test_one_id_in_any_spelling_is_one_row(mirror, key):
    store(mirror, "cdrs", document(id=7, src="a"))
    store(mirror, "cdrs", document(id=key, src="b"), asked_at=LATE)
    with mirror.read() as connection:
        assert [tuple(found) for found in connection.execute("SELECT id, src FROM cdrs")] == [(7, "b")]


def test_ids_that_the_specification_types_as_text_stay_text(mirror):
    store(mirror, "ddis", document(id="0042", e164="442079460001"))
    assert row(mirror, "ddis", "0042")["id"] == "0042"


def test_sip_credentials_are_never_stored(mirror):
    item = read_item((FIXTURES / "response-me-200.json").read_bytes())
    store(mirror, "me", item)
    mirror.write(lambda tx: store_item(tx, get_resource("me"), item, source="sync", requested_at=LATE))
    mirror.close()
    assert b"invented-sip-secret" not in b"".join(
        path.read_bytes() for path in mirror.path.parent.iterdir() if path.name.startswith("mirror.db")
    )


def test_a_records_own_form_stands_beside_the_listed_one(mirror):
    store(mirror, "users", document(id=1, email="ann@example.com"))
    item = document(id=1, email="ann@example.com", vm_to_email=True)
    mirror.write(lambda tx: store_item(tx, get_resource("users"), item, source="sync", requested_at=LATE))
    kept = row(mirror, "users", 1)
    assert "vm_to_email" not in json.loads(kept["_doc"])
    assert json.loads(kept["_item"])["vm_to_email"] is True


def test_hooks_run_in_the_same_transaction(mirror):
    seen = []
    mirror.hooks["cdrs"] = [lambda tx, outcome: seen.append([d.values["id"] for d in outcome.changed])]
    store(mirror, "cdrs", document(id=1), document(id=2))
    store(mirror, "cdrs", document(id=1), document(id=2, src="new"), asked_at=LATE)
    assert seen == [[1, 2], [2]]

    def fail(tx, outcome):
        raise RuntimeError("no")

    mirror.hooks["cdrs"] = [fail]
    with pytest.raises(RuntimeError):
        store(mirror, "cdrs", document(id=3))
    assert row(mirror, "cdrs", 3) is None


def test_a_collection_without_keys_is_replaced_as_a_whole(mirror):
    raw = get_resource("callmeback/visitors")
    for documents in ([document(a=1), document(a=1)], [document(b=2)]):
        mirror.write(lambda tx, d=documents: replace_all(tx, raw, d, source="sync", requested_at=EARLY))
    with mirror.read() as connection:
        assert [found[0] for found in connection.execute(f"SELECT _doc FROM {raw.table}")] == ['{"b":2}']


def test_rows_can_be_taken_out(mirror):
    store(mirror, "calls", document(id=1), document(id=2))
    mirror.write(lambda tx: delete_rows(tx, get_resource("calls"), [1]))
    assert row(mirror, "calls", 1) is None
    assert row(mirror, "calls", 2) is not None


def test_a_field_the_catalogue_has_learnt_becomes_a_column_at_the_next_start(mirror, tmp_path):
    mirror.write(lambda tx: tx.execute("DROP INDEX cdrs_noted"))
    mirror.write(lambda tx: tx.execute("ALTER TABLE cdrs DROP COLUMN nb_notes"))
    mirror.close()
    again = open_mirror(tmp_path / "mirror.db")
    store(again, "cdrs", document(id=1, nb_notes=3))
    assert row(again, "cdrs", 1)["nb_notes"] == 3
    again.close()


def test_a_newer_database_is_refused(mirror, tmp_path):
    mirror.write(
        lambda tx: tx.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
            " VALUES ('mirror', '9999 from the future', '2099')"
        )
    )
    mirror.close()
    with pytest.raises(NewerDatabase, match="newer version"):
        open_mirror(tmp_path / "mirror.db")


def test_other_tools_can_open_it_while_it_runs(mirror):
    store(mirror, "cdrs", document(id=1, src="442079460001"))
    # At the top of the file it would be imported before the mirror, and with pandas.
    import sqlite_utils

    opened = sqlite_utils.Database(sqlite3.connect(f"file:{mirror.path}?mode=ro", uri=True))
    assert opened["cdrs"].get(1)["src"] == "442079460001"
    opened.close()
