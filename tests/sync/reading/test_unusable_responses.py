"""Unusable responses: repeated requests and the search for the malformed record."""

from __future__ import annotations

import pytest

from integration.core.commands import Progress
from integration.core.errors import UnusableBody
from integration.sync import commands

ONE_TIME_FAULTS = (
    "malformed=json*1@/cdrs",
    "html*1@/cdrs",
    "truncate*1@/cdrs",
    "no-length*1@/cdrs",
    "double-row*1@/cdrs",
    "short-page*1@/cdrs",
    "shuffle*1@/cdrs",
    "status=500*1@/monitors",
    "status=503/1*1@/users",
    "status=429/1*1@/sms",
    "malformed=headers*1@/contacts",
    "hang=0.2*1@/queues",
    "empty*1@/voicemessages",
    "expire-token*1@/ringgroups",
)


def sync_full(simulated) -> dict:
    progress = Progress(lambda _facts: None, lambda: True)
    return commands.sync(simulated.context, {"full": True, "files": False}, progress)


def test_a_full_sync_survives_a_dozen_one_time_faults(simulated):
    simulated.faults(",".join(ONE_TIME_FAULTS))
    result = sync_full(simulated)
    assert {row["collection"]: row["error"] for row in result["rows"] if row["error"]} == {}
    assert result["complete"] is True
    assert simulated.ids("cdrs") == sorted(simulated.records("cdrs"))
    assert simulated.ids("voicemessages") == sorted(simulated.records("voicemessages"))


@pytest.fixture
def spoil(simulated, monkeypatch):
    """Make each page of CDRs with one of the given records unusable."""

    def spoil(*ids: int) -> None:
        fetch_page = simulated.context.platform.page

        def page(collection, **options):
            found = fetch_page(collection, **options)
            if any(record.values["id"] in ids for record in found.records if collection == "cdrs"):
                raise UnusableBody("malformed JSON near character 7")
            return found

        monkeypatch.setattr(simulated.context.platform, "page", page)

    return spoil


@pytest.mark.parametrize(
    "positions",
    [
        (3, 4, 30),
        pytest.param((0,), marks=pytest.mark.exhaustive),
        pytest.param((17,), marks=pytest.mark.exhaustive),
        pytest.param((-1,), marks=pytest.mark.exhaustive),
    ],
)
def test_all_records_but_the_unreadable_ones_are_stored_and_these_are_named(simulated, spoil, positions):
    ids = sorted(simulated.records("cdrs"))
    unreadable_ids = [ids[position] for position in positions]
    spoil(*unreadable_ids)
    result = sync_full(simulated)
    row = next(row for row in result["rows"] if row["collection"] == "cdrs")
    assert simulated.ids("cdrs") == [number for number in ids if number not in unreadable_ids]
    assert "is unreadable: malformed JSON near character 7" in row["error"]
    assert (f"and {len(positions) - 1} more records" in row["error"]) == (len(positions) > 1)
    assert simulated.state("cdrs").last_error == row["error"]
    assert (row["complete"], result["complete"]) == (False, False)


def test_a_history_whose_only_record_is_unreadable_does_not_end_the_sync(simulated, spoil):
    only, *others = sorted(simulated.records("cdrs"))
    for number in others:
        del simulated.records("cdrs")[number]
    spoil(only)
    result = sync_full(simulated)
    errors = {row["collection"]: row["error"] for row in result["rows"] if row["error"]}
    assert list(errors) == ["cdrs"]
    assert "/cdrs: the first record of its page is unreadable" in errors["cdrs"]


@pytest.mark.exhaustive
def test_an_error_names_the_record_before_the_unreadable_one(simulated, spoil):
    newest, unreadable = sorted(simulated.records("cdrs"))[:-3:-1]
    spoil(unreadable)
    row = next(row for row in sync_full(simulated)["rows"] if row["collection"] == "cdrs")
    assert f"/cdrs: the record after {newest} of its page is unreadable" in row["error"]


@pytest.mark.exhaustive
def test_an_unreadable_record_is_not_called_missing(simulated, spoil):
    sync_full(simulated)
    ids = sorted(simulated.records("cdrs"))
    spoil(ids[5])
    sync_full(simulated)
    assert simulated.rows("SELECT id FROM cdrs WHERE _missing_since IS NOT NULL") == []


@pytest.mark.exhaustive
def test_a_platform_that_returns_only_web_pages_ends_the_sync_of_a_collection(simulated):
    simulated.faults("html@/cdrs")
    result = sync_full(simulated)
    row = next(row for row in result["rows"] if row["collection"] == "cdrs")
    assert row["error"] == "the platform returned a web page instead of data"
    assert simulated.count_requests("/v1.2/voipstudio/cdrs") < 40
