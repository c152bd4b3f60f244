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
from tests.support.applications.sync_rig import CDRS


def prove(rig, *names, wanted=lambda: True, **arguments):
    told = []
    asked = {"resources": list(names), **arguments}
    result = proof.verify_completeness(rig.parts, asked, Progress(told.append, wanted))
    return result, {one["collection"]: one for one in result["proofs"]}, told


def forget(rig, *keys):
    rig.mirror_db.write(
        lambda tx: tx.executemany("DELETE FROM cdrs WHERE id = ?", [(k,) for k in keys]) and None
    )


def test_every_day_is_counted_now_however_lately_it_was(rig):
    run_full_sync(rig.parts, CDRS)
    days = {record["calldate"][:10] for record in rig.records("cdrs").values()}
    for _ in range(2):
        rig.forget_asked()
        result, proofs, told = prove(rig, "cdrs", every_day=True)
        assert result["complete"]
        cdrs = proofs["cdrs"]
        assert cdrs["there"] == cdrs["here"] == len(rig.records("cdrs"))
        assert cdrs["days"] == cdrs["agree"] == len(cdrs["every"]) >= len(days)
        assert rig.asked("/cdrs") > cdrs["days"]
    assert told[-1] == {"collection": "cdrs", "done": cdrs["days"], "total": cdrs["days"]}


def test_what_is_missing_comes_back_and_is_told(rig):
    run_full_sync(rig.parts, CDRS)
    forget(rig, *sorted(rig.records("cdrs"))[3:7])
    result, proofs, _ = prove(rig, "cdrs")
    assert result["complete"]
    assert proofs["cdrs"]["came"] == 4
    assert rig.ids("cdrs") == sorted(rig.records("cdrs"))


def test_a_record_that_is_there_no_longer_is_settled_by_one_walk(rig, later):
    run_full_sync(rig.parts, CDRS)
    del rig.records("cdrs")[sorted(rig.records("cdrs"))[9]]
    later(5)
    result, proofs, _ = prove(rig, "cdrs")
    assert result["complete"], proofs
    assert proofs["cdrs"]["here"] == len(rig.records("cdrs"))


def test_a_record_without_a_date_is_in_no_day_and_not_overlooked(rig, later):
    run_full_sync(rig.parts, CDRS)
    (odd,) = rig.add_cdrs(1, calldate=None)
    forget(rig, odd)
    rig.mirror_db.write(lambda tx: tx.execute("UPDATE _walks SET mark = ?", (odd,)) and None)
    later(5)
    result, _, _ = prove(rig, "cdrs")
    assert result["complete"]
    assert odd in rig.ids("cdrs")


def test_a_platform_that_counts_more_than_it_lists_leaves_a_gap(rig, monkeypatch):
    run_full_sync(rig.parts, CDRS)
    real = rig.platform.page

    def page(*args, **options):
        found = real(*args, **options)
        if options.get("limit") == 1:
            found = type(found)(found.records, found.total + 1, found.other_keys)
        return found

    monkeypatch.setattr(rig.platform, "page", page)
    result, proofs, _ = prove(rig, "cdrs")
    assert not result["complete"]
    assert proofs["cdrs"]["gaps"][0]["cause"]
    assert proofs["cdrs"]["agree"] == 0


FAILURES = ("status=500", "html", "truncate", "malformed=json", "malformed=headers")


def test_a_failed_run_proves_nothing_whatever_was_known(rig, later):
    for name in ("cdrs", "contacts"):
        run_full_sync(rig.parts, PLAN[name])
        assert prove(rig, name)[0]["complete"]
        for fault in FAILURES:
            rig.faults(f"{fault}@/{name}")
            result, proofs, _ = prove(rig, name)
            assert not result["complete"], fault
            assert proofs[name]["error"], fault
        rig.faults("")
        later(120)


def test_what_was_never_read_is_not_proved(rig):
    result, proofs, _ = prove(rig, "cdrs")
    assert not result["complete"]
    assert "never read" in proofs["cdrs"]["error"]


def test_what_the_platform_refuses_is_not_missing(rig):
    for status in (403, 404):
        rig.faults(f"status={status}@/contacts")
        result, proofs, _ = prove(rig, "contacts")
        assert result["complete"]
        assert proofs["contacts"]["off"]


def test_it_goes_on_elsewhere_where_it_was(rig):
    for name in ("cdrs", "contacts", "sms"):
        run_full_sync(rig.parts, PLAN[name])
    asked = iter([True] * 5)
    with pytest.raises(Unfinished) as early:
        prove(rig, "contacts", "cdrs", "sms", wanted=lambda: next(asked, False))
    left = early.value.arguments
    assert left["resources"] == ["cdrs", "sms"]
    result, proofs, _ = prove(rig, *left.pop("resources"), **left)
    assert result["complete"]
    assert list(proofs) == ["contacts", "cdrs", "sms"]


@pytest.fixture
def verify(rig, monkeypatch):
    """`switchroom verify …` over the rig; whoever writes is this process."""

    def carry_out(_settings, name, arguments, on_progress, _on_notice):
        return find_handler(name)(rig.parts, arguments, Progress(on_progress, lambda: True))

    monkeypatch.setattr("integration.server.run_command.run_command", carry_out)
    monkeypatch.setattr("integration.cli.verify.load", lambda *_: rig.settings)
    return lambda *arguments: CliRunner().invoke(command, arguments)


def test_the_command_prints_the_ledger_and_ends_with_what_it_found(rig, verify):
    first = verify("--coverage", "contacts", "cdrs")
    assert first.exit_code == 1
    assert "NOT PROVED" in first.stdout
    run_full_sync(rig.parts, CDRS)
    done = verify("--coverage", "cdrs", "--every-day")
    assert done.exit_code == 0, done.output
    head, line, *days = done.stdout.splitlines()
    count = len(rig.records("cdrs"))
    assert head.split() == ["collection", "platform", "here", "days", "agree", "came"]
    assert line.split() == ["cdrs", str(count), str(count), str(len(days)), str(len(days)), "0", "proved"]
    assert all("there and here" in day for day in days)
    rig.faults("status=500@/cdrs")
    failed = verify("--coverage", "cdrs")
    assert failed.exit_code == 1
    assert "not proved: cdrs" in failed.stderr


def test_the_command_reads_the_archive_and_ends_with_what_it_could_not_heal(rig, verify):
    run_full_sync(rig.parts, PLAN["monitors"])
    download.download_due_files(rig.parts)
    assert verify("--media").exit_code == 0
    path, number = rig.rows("SELECT path, record_id FROM media LIMIT 1")[0]
    (rig.folder / path).unlink()
    healed = verify("--media")
    assert (healed.exit_code, healed.stdout) == (0, f"{path}: is missing; fetched again\n")
    (rig.folder / path).unlink()
    rig.faults(f"status=500@/monitors/{number}.mp3")
    left = verify("--media")
    assert left.exit_code == 1
    assert "not fetched again" in left.stdout


@pytest.mark.parametrize("arguments", [("cdrs",), ("--every-day",), ("--quick", "--media")])
def test_words_that_do_not_belong_together_are_wrong_usage(arguments):
    assert CliRunner().invoke(command, arguments).exit_code == 2


def test_readyz_knows_at_once(rig):
    run_full_sync(rig.parts, CDRS)
    prove(rig, "cdrs")
    fact = rig.health.report()["facts"]["coverage"]
    assert fact["gaps"] == 0
    with rig.mirror_db.read() as connection:
        assert fact["days"] == sum(line.day_count for line in ledger.list_collections(connection))
