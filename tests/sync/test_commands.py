from __future__ import annotations

import pytest

from integration.core.commands import Unfinished
from integration.core.errors import ConfigurationError
from integration.sync import commands
from integration.sync.plan import FILES_OF, PLAN
from integration.sync.reading import full_sync


class RecordedProgress:
    """Progress that records reports and cancels the work after `ends_after` of them."""

    def __init__(self, ends_after=None):
        self.facts = []
        self.ends_after = ends_after

    def __call__(self, **facts):
        self.facts.append(facts)

    @property
    def can_continue(self):
        return self.ends_after is None or len(self.facts) < self.ends_after


@pytest.fixture
def sync(simulated):
    """Run the command `sync` as the writer does."""
    simulated.keep_recordings(14)
    return lambda progress=None, **arguments: commands.sync(
        simulated.context, arguments, progress or RecordedProgress()
    )


def test_a_first_sync_stores_every_collection_and_its_files(simulated, sync):
    progress = RecordedProgress()
    result = sync(progress)
    assert [row["collection"] for row in result["rows"]] == list(PLAN)
    assert result["complete"] is True
    assert all(row["error"] is None for row in result["rows"])
    expected = sum(len(simulated.records(name)) for name in FILES_OF)
    assert result["files"] == {"fetched": expected, "have": expected, "waiting": 0, "error": None}
    cdrs = next(row for row in result["rows"] if row["collection"] == "cdrs")
    assert cdrs["rows"] == cdrs["read"] == cdrs["new"] == len(simulated.records("cdrs"))
    assert {"collection": "cdrs", "done": cdrs["rows"], "total": cdrs["rows"]} in progress.facts


def test_a_sync_cancelled_by_the_end_of_the_process_is_unfinished_without_failure(simulated, sync):
    class Ending(RecordedProgress):
        def __call__(self, **facts):
            super().__call__(**facts)
            if len(self.facts) == 1:
                self.ends_after = 1
                simulated.context.platform.close()

    progress = Ending(2)
    with pytest.raises(Unfinished) as caught:
        sync(progress, resources=["cdrs"], full=True)
    assert caught.value.arguments["resources"] == ["cdrs"]
    assert (simulated.state("cdrs").failures, simulated.state("cdrs").last_error) == (0, None)


def test_a_second_sync_reads_only_new_records_unless_full_is_requested(simulated, sync):
    sync(files=False)
    played = simulated.play("plain_answered")
    repeated = sync(resources=["cdrs"], files=False)["rows"][0]
    assert repeated["new"] == len(played["cdr_ids"])
    assert repeated["read"] < len(simulated.records("cdrs"))
    assert sync(resources=["cdrs"], files=False, full=True)["rows"][0]["read"] == len(
        simulated.records("cdrs")
    )


def test_a_sync_of_named_collections_downloads_only_their_files(simulated, sync):
    sync(resources=["cdrs"], files=False)
    assert simulated.rows("SELECT DISTINCT collection FROM _below") == [("cdrs",)], "their notes"
    result = sync(resources=["/cdrs", "cdr", "sms"])
    assert [row["collection"] for row in result["rows"]] == ["cdrs", "sms"]
    assert result["files"] is None
    assert sync(resources=["voicemessages"])["files"]["have"] == len(simulated.records("voicemessages"))
    assert list(simulated.data_dir.glob("recordings")) == []


def test_an_error_lists_every_unknown_collection():
    with pytest.raises(ConfigurationError) as caught:
        commands.resolve_collections(["cdrz", "cdrs", "callmeback/buttons", "nonsense"])
    cdrz, buttons, nonsense = caught.value.mistakes
    assert "did you mean" in cdrz
    assert "callmeback/buttons is not mirrored" in buttons
    assert "nonsense" in nonsense


def test_a_failed_download_is_retried_in_the_same_sync(simulated, sync):
    simulated.faults("wrong-file=zero*1@/voicemessages/*.mp3")
    assert sync(resources=["voicemessages"])["complete"] is True


def test_a_sync_whose_downloads_fail_returns_its_results(simulated, sync):
    simulated.faults("status=500@/monitors/*.mp3")
    result = sync(resources=["monitors"])
    assert result["complete"] is False
    (row,) = result["rows"]
    assert (row["complete"], row["rows"]) == (True, len(simulated.records("monitors")))
    assert (result["files"]["have"], result["files"]["waiting"]) == (0, row["rows"])
    assert "Simulated 500" in result["files"]["error"]


@pytest.mark.parametrize(
    "ends_after", [1, 9, *(pytest.param(requests, marks=pytest.mark.exhaustive) for requests in (4, 14, 25))]
)
def test_an_interrupted_sync_resumes_with_its_remaining_arguments(simulated, sync, monkeypatch, ends_after):
    """A command is interrupted like this when `serve` starts and finishes it."""
    monkeypatch.setattr(full_sync, "page_limit", lambda failures: 20)
    with pytest.raises(Unfinished) as caught:
        sync(RecordedProgress(ends_after), full=True, resources=["users", "cdrs", "monitors"])
    result = sync(**caught.value.arguments)
    assert result["complete"] is True
    assert [row["collection"] for row in result["rows"] if row["collection"] in ("users", "cdrs")] == [
        "users",
        "cdrs",
    ]
    assert simulated.ids("cdrs") == sorted(simulated.records("cdrs"))
    assert result["files"]["have"] == len(simulated.records("monitors"))


def test_a_resumed_full_sync_reads_only_the_remaining_records(simulated, sync, monkeypatch):
    monkeypatch.setattr(full_sync, "page_limit", lambda failures: 20)
    with pytest.raises(Unfinished) as caught:
        sync(RecordedProgress(3), full=True, files=False, resources=["cdrs"])
    done = len(simulated.ids("cdrs"))
    assert 0 < done < len(simulated.records("cdrs"))
    row = sync(**caught.value.arguments)["rows"][0]
    assert row["read"] == len(simulated.records("cdrs")) - done
