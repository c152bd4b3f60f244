from __future__ import annotations

import pytest

from integration.core.commands import Unfinished
from integration.core.errors import ConfigurationError
from integration.sync import commands
from integration.sync.plan import FILES_OF, PLAN
from integration.sync.reading import full_sync


class Told:
    """A progress that wants the work to end after so many reports; None: never."""

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
    """Does the command as the process that writes does it."""
    return lambda progress=None, **arguments: commands.sync(simulated.context, arguments, progress or Told())


def test_a_first_pass_brings_everything_and_its_files(simulated, sync):
    told = Told()
    result = sync(told)
    assert [row["collection"] for row in result["rows"]] == list(PLAN)
    assert result["complete"] is True
    assert all(row["error"] is None for row in result["rows"])
    expected = sum(len(simulated.records(name)) for name in FILES_OF)
    assert result["files"] == {"fetched": expected, "have": expected, "waiting": 0, "error": None}
    cdrs = next(row for row in result["rows"] if row["collection"] == "cdrs")
    assert cdrs["rows"] == cdrs["read"] == cdrs["new"] == len(simulated.records("cdrs"))
    assert {"collection": "cdrs", "done": cdrs["rows"], "total": cdrs["rows"]} in told.facts


def test_a_request_that_is_cut_since_the_process_ends_is_left_for_its_successor(simulated, sync):
    class Ending(Told):
        def __call__(self, **facts):
            super().__call__(**facts)
            if len(self.facts) == 1:
                self.ends_after = 1
                simulated.context.platform.close()

    told = Ending(2)
    with pytest.raises(Unfinished) as caught:
        sync(told, resources=["cdrs"], full=True)
    assert caught.value.arguments["resources"] == ["cdrs"]
    assert (simulated.state("cdrs").failures, simulated.state("cdrs").last_error) == (0, None)


def test_a_second_pass_reads_only_what_is_new_unless_all_is_asked_for(simulated, sync):
    sync(files=False)
    made = simulated.play("plain_answered")
    again = sync(resources=["cdrs"], files=False)["rows"][0]
    assert again["new"] == len(made["cdr_ids"])
    assert again["read"] < len(simulated.records("cdrs"))
    assert sync(resources=["cdrs"], files=False, full=True)["rows"][0]["read"] == len(
        simulated.records("cdrs")
    )


def test_collections_are_named_by_path_or_table_and_files_go_with_theirs(simulated, sync):
    result = sync(resources=["/cdrs", "cdr", "sms"])
    assert [row["collection"] for row in result["rows"]] == ["cdrs", "sms"]
    assert result["files"] is None
    assert sync(resources=["voicemessages"])["files"]["have"] == len(simulated.records("voicemessages"))
    assert list(simulated.data_dir.glob("recordings")) == []


def test_every_unknown_name_is_told_at_once():
    with pytest.raises(ConfigurationError) as caught:
        commands.resolve_collections(["cdrz", "cdrs", "callmeback/buttons", "nonsense"])
    cdrz, buttons, nonsense = caught.value.mistakes
    assert "did you mean" in cdrz
    assert "callmeback/buttons is not mirrored" in buttons
    assert "nonsense" in nonsense


@pytest.mark.exhaustive
def test_what_fails_is_told_and_the_rest_is_done(simulated, sync):
    simulated.faults("status=403@/sms,wrong-file=html@/voicemessages/*.mp3")
    result = sync()
    rows = {row["collection"]: row for row in result["rows"]}
    assert result["complete"] is False
    assert rows["sms"]["error"]
    assert not rows["sms"]["complete"]
    assert rows["cdrs"]["complete"]
    assert result["files"]["waiting"] == len(simulated.records("voicemessages"))
    assert result["files"]["error"]


def test_a_file_that_fails_once_is_tried_again_in_the_same_pass(simulated, sync):
    simulated.faults("wrong-file=zero*1@/voicemessages/*.mp3")
    assert sync(resources=["voicemessages"])["complete"] is True


@pytest.mark.parametrize("ends_after", [1, 4, 9, 14, 25])
def test_work_that_is_handed_on_loses_nothing_and_does_nothing_twice(
    simulated, sync, monkeypatch, ends_after
):
    """As when a starting `serve` takes over: the rest is asked of it, and its result is the result."""
    monkeypatch.setattr(full_sync, "page_limit", lambda failures: 20)
    with pytest.raises(Unfinished) as caught:
        sync(Told(ends_after), full=True, resources=["users", "cdrs", "monitors"])
    result = sync(**caught.value.arguments)
    assert result["complete"] is True
    assert [row["collection"] for row in result["rows"] if row["collection"] in ("users", "cdrs")] == [
        "users",
        "cdrs",
    ]
    assert simulated.ids("cdrs") == sorted(simulated.records("cdrs"))
    assert result["files"]["have"] == len(simulated.records("monitors"))


def test_a_walk_that_is_handed_on_goes_on_where_it_was(simulated, sync, monkeypatch):
    monkeypatch.setattr(full_sync, "page_limit", lambda failures: 20)
    with pytest.raises(Unfinished) as caught:
        sync(Told(3), full=True, files=False, resources=["cdrs"])
    done = len(simulated.ids("cdrs"))
    assert 0 < done < len(simulated.records("cdrs"))
    row = sync(**caught.value.arguments)["rows"][0]
    assert row["read"] == len(simulated.records("cdrs")) - done
