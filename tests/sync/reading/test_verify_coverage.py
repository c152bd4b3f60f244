"""`verify --coverage` and `verify --media`: verification on demand."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from integration.cli.verify import command
from integration.core.commands import Progress, Unfinished, find_handler
from integration.mirror.sync_state import completeness
from integration.sync.files import download
from integration.sync.plan import PLAN
from integration.sync.reading import verify_coverage as verification
from integration.sync.reading.full_sync import run_full_sync

CDRS = PLAN["cdrs"]


def verify_collections(simulated, *names, should_continue=lambda: True, **arguments):
    reports = []
    arguments = {"resources": list(names), **arguments}
    result = verification.verify_completeness(
        simulated.context, arguments, Progress(reports.append, should_continue)
    )
    return result, {one["collection"]: one for one in result["proofs"]}, reports


def delete_from_mirror(simulated, *keys):
    simulated.mirror_db.write(
        lambda tx: tx.executemany("DELETE FROM cdrs WHERE id = ?", [(k,) for k in keys]) and None
    )


def test_a_record_without_a_date_is_fetched(simulated, movable_clock):
    run_full_sync(simulated.context, CDRS)
    (odd,) = simulated.add_cdrs(1, calldate=None)
    delete_from_mirror(simulated, odd)
    simulated.mirror_db.write(lambda tx: tx.execute("UPDATE _walks SET mark = ?", (odd,)) and None)
    movable_clock.advance(5)
    result, _, _ = verify_collections(simulated, "cdrs")
    assert result["complete"]
    assert odd in simulated.ids("cdrs")


def test_a_platform_that_counts_more_than_it_lists_leaves_a_gap(simulated, monkeypatch):
    run_full_sync(simulated.context, CDRS)
    real = simulated.context.platform.page

    def page(*args, **options):
        found = real(*args, **options)
        if options.get("limit") == 1:
            found = type(found)(found.records, found.total + 1)
        return found

    monkeypatch.setattr(simulated.context.platform, "page", page)
    result, results, _ = verify_collections(simulated, "cdrs")
    assert not result["complete"]
    assert results["cdrs"]["gaps"][0]["cause"]
    assert results["cdrs"]["agree"] == 0
    simulated.faults("status=500@/cdrs")
    failed = verify_collections(simulated, "cdrs")[1]["cdrs"]
    assert (failed["days"], failed["agree"]) == (0, 0)
    assert len(failed["gaps"]) > 1, "gaps of earlier verifications"


def test_a_collection_that_the_platform_refuses_is_no_gap(simulated):
    for status in (403, 404):
        simulated.faults(f"status={status}@/contacts")
        result, results, _ = verify_collections(simulated, "contacts")
        assert result["complete"]
        assert results["contacts"]["off"]


def test_an_interrupted_verification_resumes_with_its_arguments(simulated):
    for name in ("cdrs", "contacts", "sms"):
        run_full_sync(simulated.context, PLAN[name])
    steps = iter([True] * 5)
    with pytest.raises(Unfinished) as early:
        verify_collections(simulated, "contacts", "cdrs", "sms", should_continue=lambda: next(steps, False))
    remaining = early.value.arguments
    assert remaining["resources"] == ["cdrs", "sms"]
    result, results, _ = verify_collections(simulated, *remaining.pop("resources"), **remaining)
    assert result["complete"]
    assert list(results) == ["contacts", "cdrs", "sms"]


@pytest.fixture
def verify(simulated, monkeypatch):
    """Run `switchroom verify …` with its handler in this process."""

    def carry_out(_settings, name, arguments, on_progress, _on_notice):
        return find_handler(name)(simulated.context, arguments, Progress(on_progress, lambda: True))

    monkeypatch.setattr("integration.server.run_command.run_command", carry_out)
    monkeypatch.setattr("integration.cli.verify.load_settings", lambda *_, **__: simulated.context.settings)
    return lambda *arguments: CliRunner().invoke(command, arguments)


def test_the_command_prints_completeness_and_fails_on_gaps(simulated, verify):
    first = verify("--coverage", "contacts", "cdrs")
    assert first.exit_code == 1
    assert "NOT VERIFIED" in first.stdout
    run_full_sync(simulated.context, CDRS)
    done = verify("--coverage", "cdrs", "--every-day")
    assert done.exit_code == 0, done.output
    head, line, *days = done.stdout.splitlines()
    count = len(simulated.records("cdrs"))
    assert head.split() == ["collection", "platform", "mirror", "days", "equal", "fetched"]
    assert line.split() == ["cdrs", str(count), str(count), str(len(days)), str(len(days)), "0", "complete"]
    assert all("on both sides" in day for day in days)
    document = json.loads(verify("--coverage", "cdrs", "--every-day", "--json").stdout)
    (collection,) = document["coverage"]
    assert (document["complete"], collection["collection"], collection["mirror"]) == (True, "cdrs", count)
    assert list(collection) == [
        *("collection", "platform", "mirror", "days", "equal_days", "fetched", "complete", "is_refused"),
        *("held_deletions", "error", "listed_days"),
    ]
    assert len(collection["listed_days"]) == collection["equal_days"] == len(days)
    assert list(collection["listed_days"][0]) == [
        *("day", "platform", "mirror", "cause", "repair", "verified_at"),
    ]
    simulated.faults("status=500@/cdrs")
    failed = verify("--coverage", "cdrs")
    assert failed.exit_code == 1
    assert "incomplete: cdrs" in failed.stderr


def test_the_command_verifies_the_archive_and_fails_on_files_that_stay_missing(simulated, verify):
    run_full_sync(simulated.context, PLAN["monitors"])
    download.download_due_files(simulated.context)
    assert verify("--media").exit_code == 0
    path, number = simulated.rows("SELECT path, record_id FROM media LIMIT 1")[0]
    (simulated.data_dir / path).unlink()
    healed = verify("--media")
    assert (healed.exit_code, healed.stdout) == (0, f"{path}: is missing; downloaded again\n")
    (simulated.data_dir / path).unlink()
    document = json.loads(verify("--media", "--json").stdout)
    assert document["complete"]
    assert document["media"]["damaged"] == [
        {"path": path, "finding": "is missing", "repaired": True, "error": None}
    ]
    (simulated.data_dir / path).unlink()
    simulated.faults(f"status=500@/monitors/{number}.mp3")
    damaged = verify("--media")
    assert damaged.exit_code == 1
    assert "not downloaded again" in damaged.stdout


@pytest.mark.parametrize("arguments", [("cdrs",), ("--every-day",), ("--quick", "--media")])
def test_options_that_exclude_each_other_are_a_usage_error(arguments):
    assert CliRunner().invoke(command, arguments).exit_code == 2


def test_a_verification_updates_the_completeness_of_readyz(simulated):
    run_full_sync(simulated.context, CDRS)
    verify_collections(simulated, "cdrs")
    fact = simulated.context.health.report()["facts"]["coverage"]
    assert fact["gaps"] == 0
    with simulated.mirror_db.read() as connection:
        assert fact["days"] == sum(line.day_count for line in completeness.list_collections(connection))
