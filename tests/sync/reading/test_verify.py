"""`verify --coverage`: the ledger proved on demand."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from integration.cli.verify import command
from integration.core.commands import Progress, Unfinished, find_handler
from integration.mirror.sync_state import completeness as ledger
from integration.sync.files import download
from integration.sync.plan import PLAN
from integration.sync.reading import verify as proof
from integration.sync.reading.full_sync import run_full_sync

CDRS = PLAN["cdrs"]


def prove(simulated, *names, wanted=lambda: True, **arguments):
    told = []
    asked = {"resources": list(names), **arguments}
    result = proof.verify_completeness(simulated.context, asked, Progress(told.append, wanted))
    return result, {one["collection"]: one for one in result["proofs"]}, told


def forget(simulated, *keys):
    simulated.mirror_db.write(
        lambda tx: tx.executemany("DELETE FROM cdrs WHERE id = ?", [(k,) for k in keys]) and None
    )


def test_every_day_is_counted_now_however_lately_it_was(simulated):
    run_full_sync(simulated.context, CDRS)
    days = {record["calldate"][:10] for record in simulated.records("cdrs").values()}
    for _ in range(2):
        simulated.clear_requests()
        result, proofs, told = prove(simulated, "cdrs", every_day=True)
        assert result["complete"]
        cdrs = proofs["cdrs"]
        assert cdrs["there"] == cdrs["here"] == len(simulated.records("cdrs"))
        assert cdrs["days"] == cdrs["agree"] == len(cdrs["every"]) >= len(days)
        assert simulated.count_requests("/cdrs") > cdrs["days"]
    assert told[-1] == {"collection": "cdrs", "done": cdrs["days"], "total": cdrs["days"]}


def test_what_is_missing_comes_back_and_is_told(simulated):
    run_full_sync(simulated.context, CDRS)
    forget(simulated, *sorted(simulated.records("cdrs"))[3:7])
    result, proofs, _ = prove(simulated, "cdrs")
    assert result["complete"]
    assert proofs["cdrs"]["came"] == 4
    assert simulated.ids("cdrs") == sorted(simulated.records("cdrs"))


def test_a_record_that_is_there_no_longer_is_settled_by_one_walk(simulated, movable_clock):
    run_full_sync(simulated.context, CDRS)
    del simulated.records("cdrs")[sorted(simulated.records("cdrs"))[9]]
    movable_clock.advance(5)
    result, proofs, _ = prove(simulated, "cdrs")
    assert result["complete"], proofs
    assert proofs["cdrs"]["here"] == len(simulated.records("cdrs"))


def test_a_record_without_a_date_is_in_no_day_and_not_overlooked(simulated, movable_clock):
    run_full_sync(simulated.context, CDRS)
    (odd,) = simulated.add_cdrs(1, calldate=None)
    forget(simulated, odd)
    simulated.mirror_db.write(lambda tx: tx.execute("UPDATE _walks SET mark = ?", (odd,)) and None)
    movable_clock.advance(5)
    result, _, _ = prove(simulated, "cdrs")
    assert result["complete"]
    assert odd in simulated.ids("cdrs")


def test_a_platform_that_counts_more_than_it_lists_leaves_a_gap(simulated, monkeypatch):
    run_full_sync(simulated.context, CDRS)
    real = simulated.context.platform.page

    def page(*args, **options):
        found = real(*args, **options)
        if options.get("limit") == 1:
            found = type(found)(found.records, found.total + 1, found.other_keys)
        return found

    monkeypatch.setattr(simulated.context.platform, "page", page)
    result, proofs, _ = prove(simulated, "cdrs")
    assert not result["complete"]
    assert proofs["cdrs"]["gaps"][0]["cause"]
    assert proofs["cdrs"]["agree"] == 0


FAILURES = ("status=500", "html", "truncate", "malformed=json", "malformed=headers")


def test_a_failed_run_proves_nothing_whatever_was_known(simulated, movable_clock):
    for name in ("cdrs", "contacts"):
        run_full_sync(simulated.context, PLAN[name])
        assert prove(simulated, name)[0]["complete"]
        for fault in FAILURES:
            simulated.faults(f"{fault}@/{name}")
            result, proofs, _ = prove(simulated, name)
            assert not result["complete"], fault
            assert proofs[name]["error"], fault
        simulated.faults("")
        movable_clock.advance(120)


def test_what_was_never_read_is_not_proved(simulated):
    result, proofs, _ = prove(simulated, "cdrs")
    assert not result["complete"]
    assert "initial sync is not complete" in proofs["cdrs"]["error"]


def test_what_the_platform_refuses_is_not_missing(simulated):
    for status in (403, 404):
        simulated.faults(f"status={status}@/contacts")
        result, proofs, _ = prove(simulated, "contacts")
        assert result["complete"]
        assert proofs["contacts"]["off"]


def test_it_goes_on_elsewhere_where_it_was(simulated):
    for name in ("cdrs", "contacts", "sms"):
        run_full_sync(simulated.context, PLAN[name])
    asked = iter([True] * 5)
    with pytest.raises(Unfinished) as early:
        prove(simulated, "contacts", "cdrs", "sms", wanted=lambda: next(asked, False))
    left = early.value.arguments
    assert left["resources"] == ["cdrs", "sms"]
    result, proofs, _ = prove(simulated, *left.pop("resources"), **left)
    assert result["complete"]
    assert list(proofs) == ["contacts", "cdrs", "sms"]


@pytest.fixture
def verify(simulated, monkeypatch):
    """`switchroom verify …` over the simulated; whoever writes is this process."""

    def carry_out(_settings, name, arguments, on_progress, _on_notice):
        return find_handler(name)(simulated.context, arguments, Progress(on_progress, lambda: True))

    monkeypatch.setattr("integration.server.run_command.run_command", carry_out)
    monkeypatch.setattr("integration.cli.verify.load", lambda *_: simulated.context.settings)
    return lambda *arguments: CliRunner().invoke(command, arguments)


def test_the_command_prints_the_ledger_and_ends_with_what_it_found(simulated, verify):
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
    simulated.faults("status=500@/cdrs")
    failed = verify("--coverage", "cdrs")
    assert failed.exit_code == 1
    assert "incomplete: cdrs" in failed.stderr


def test_the_command_reads_the_archive_and_ends_with_what_it_could_not_heal(simulated, verify):
    run_full_sync(simulated.context, PLAN["monitors"])
    download.download_due_files(simulated.context)
    assert verify("--media").exit_code == 0
    path, number = simulated.rows("SELECT path, record_id FROM media LIMIT 1")[0]
    (simulated.data_dir / path).unlink()
    healed = verify("--media")
    assert (healed.exit_code, healed.stdout) == (0, f"{path}: is missing; downloaded again\n")
    (simulated.data_dir / path).unlink()
    simulated.faults(f"status=500@/monitors/{number}.mp3")
    left = verify("--media")
    assert left.exit_code == 1
    assert "not downloaded again" in left.stdout


@pytest.mark.parametrize("arguments", [("cdrs",), ("--every-day",), ("--quick", "--media")])
def test_words_that_do_not_belong_together_are_wrong_usage(arguments):
    assert CliRunner().invoke(command, arguments).exit_code == 2


def test_readyz_knows_at_once(simulated):
    run_full_sync(simulated.context, CDRS)
    prove(simulated, "cdrs")
    fact = simulated.context.health.report()["facts"]["coverage"]
    assert fact["gaps"] == 0
    with simulated.mirror_db.read() as connection:
        assert fact["days"] == sum(line.day_count for line in ledger.list_collections(connection))
