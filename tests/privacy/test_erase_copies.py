"""Erasure of all spellings and copies, and its last search (promise S21)."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from integration.access import audit
from integration.core import clock
from integration.core.commands import Progress
from integration.core.number_search.wide_search import CHUNK_BYTES
from integration.inbox.replay import replay
from integration.maintenance import backup
from integration.maintenance.restore import restore
from integration.privacy.file_search import search_files
from tests.support.applications.filled_data_dir import DDI, OTHER, OTHER_LEG, THEIRS, FilledDataDir, stamp


def restore_backup(place: FilledDataDir) -> Path:
    """Restore a backup.

    Returns the folder with the data before the restore.
    """
    created = backup.create(place.data_dir, place.folder / "elsewhere").path
    previous = restore(created, place.data_dir, replace=True).previous_data_dir
    assert previous is not None
    return previous


SPELLINGS = (
    "07700\u2011900123", "07700\u2013900\u2013123", "07700\u2212900123", "07700\u00b7900\u00b7123",
    "0\u200b7700900123", "07700,900,123", "07700_900_123", "07700+900123", "%2B44%207700%20900123",
    "\uff10\uff17\uff17\uff10\uff10900123",
    "\u0660\u0667\u0667\u0660\u0660\u0669\u0660\u0660\u0661\u0662\u0663",
)  # fmt: skip


def test_every_spelling_is_erased_from_webhooks_texts_and_saved_views(place: FilledDataDir) -> None:
    with place.product() as product:
        for spelling in SPELLINGS:
            for is_ascii in (True, False):
                event = {"event_name": "new.kind", "text": f"Ann Example, {spelling}", "kind": is_ascii}
                product.context.inbox.receive(json.dumps(event, ensure_ascii=is_ascii).encode()).result(30)
        for codec in ("utf-16", "utf-16-be"):
            product.context.inbox.receive(f'{{"text": "{SPELLINGS[0]}"}}'.encode(codec)).result(30)
        for number, spelling in enumerate(SPELLINGS):
            product.context.app_db.write(
                lambda tx, number=number, spelling=spelling: tx.execute(
                    "INSERT INTO views (person_id, page, name, query, shared, pinned, at)"
                    " VALUES (1, 'calls', ?, ?, 0, 0, '')",
                    (f"view {number}", f"q={spelling}&sort=at"),
                )
            )
    done = place.erase(f"+{THEIRS}", "--yes")
    assert (done.exit_code, "possibly left" in done.stderr) == (0, False)
    with place.product() as product:
        bodies = [bytes(row.body) for row in product.context.inbox.list_after(10, 100)]
        with product.context.app_db.read() as connection:
            views = {row[0] for row in connection.execute("SELECT query FROM views")}
    assert views == {"q=erased&sort=at"}
    assert {json.loads(body)["text"] for body in bodies} == {None}
    assert place.find_texts("Ann Example", *SPELLINGS) == {}


DRIFTED_FIELDS = (
    {"sender_msisdn": f"+{THEIRS}", "to_no": DDI, "body": "Ann Example writes"},
    {"from_no": {"number": f"+{THEIRS}"}, "to_no": DDI, "text": "Ann Example writes"},
    {"from": int(THEIRS), "to_no": DDI, "text": "Ann Example writes"},
    {"from_no": "0770\u20110900123", "to_no": DDI, "text": "Ann Example writes"},
)


def test_sms_events_with_other_field_names_are_erased(place: FilledDataDir) -> None:
    sms = {"event_name": "sms.received", "event_time": stamp(40)}
    with place.product() as product:
        for number, fields in enumerate(DRIFTED_FIELDS):
            event = {"id": f"drift{number}", **sms, **fields}
            product.context.inbox.receive(json.dumps(event).encode()).result(30)
        replay(product.context, {}, Progress(lambda _: None, lambda: True))
    assert place.erase(f"+{THEIRS}", "--yes").exit_code == 0
    assert place.find_texts("Ann Example", THEIRS, "0770\u20110900123", r"0770\u20110900123") == {}


def test_copies_with_the_number_are_deleted_and_other_places_are_named(place: FilledDataDir) -> None:
    data_dir = place.data_dir
    previous = restore_backup(place)
    only_files, other_account = (data_dir / f"before-restore-2026030{day}-120000" for day in (1, 2))
    shutil.copytree(previous / "recordings", only_files / "recordings")
    other_account.mkdir()
    (other_account / "house.db").write_bytes(b"another account")
    damaged, part = data_dir / "mirror.db.damaged-20260301-120000", data_dir / "restore.part"
    part.mkdir()
    for path in (damaged, part / "mirror.db"):
        shutil.copy(data_dir / "mirror.db", path)
    upgrade = data_dir / "backups" / "before-1.0.0"
    backup.copy_databases(data_dir, upgrade, "0.1.0")
    backups = [backup.create(data_dir, data_dir / folder).path for folder in ("old/mine", "backups")]
    export = data_dir / "exports" / "calls.csv"
    export.parent.mkdir()
    export.write_text(f"+{THEIRS}\n")
    kinds = {
        previous: "data before a restore",
        damaged: "damaged database",
        part: "unfinished restore",
        upgrade: "data before an upgrade",
    }
    shown = place.erase(f"+{THEIRS}").stderr
    for path, kind in kinds.items():
        assert f"deleted too with --yes ({kind}): {path.relative_to(data_dir)}\n" in shown
        assert path.exists()
    done = place.erase(f"+{THEIRS}", "--yes")
    assert done.exit_code == 0
    # The recordings of the number have no text with it: their ids show whose they are.
    for path in (*kinds, only_files):
        assert f"deleted, because it contained the number: {path.relative_to(data_dir)}\n" in done.stderr
        assert not path.exists()
    assert all(path.exists() for path in (other_account, export, *backups))
    assert "delivered export with the number: exports/calls.csv\n" in done.stderr
    for path in backups:
        for output in (shown, done.stderr):
            assert str(path.relative_to(data_dir)) in output
    kept = {"exports/calls.csv", *(str(path.relative_to(data_dir)) for path in backups)}
    for path in place.find_texts(THEIRS, "Ann Example"):
        assert path.startswith(tuple(kept)), path


@pytest.mark.parametrize("what", [f"+{OTHER}", pytest.param(str(OTHER_LEG), marks=pytest.mark.exhaustive)])
def test_a_copy_with_data_under_hold_is_kept_and_named(place: FilledDataDir, what: str) -> None:
    previous = restore_backup(place)
    place.hold(what, "--reason", "claim 17")
    done = place.erase(f"+{THEIRS}", "--yes")
    assert (done.exit_code, previous.exists()) == (1, True)
    assert f"kept, because it contains the number and data under legal hold: {previous.name}" in done.stderr
    age_by(previous, days=30)
    assert [path.name for path in run_retention(place)] != []
    place.hold(what, "--release")
    assert run_retention(place) == []


def test_the_data_before_a_restore_is_deleted_after_its_days(place: FilledDataDir) -> None:
    previous = restore_backup(place)
    assert run_retention(place) == [previous]
    previous = age_by(previous, days=8)
    assert run_retention(place, storage__keep_before_restore_days="0") == [previous]
    assert run_retention(place, storage__keep_before_restore_days="9") == [previous]
    assert run_retention(place) == []
    with place.product() as product:
        entry = audit.list_newest(product.context.app_db, 1)[0]
    assert (entry.what, entry.about) == (
        "removed by retention", f"data before a restore: {previous.name}",
    )  # fmt: skip


def test_retention_deletes_copies_after_its_shortest_limit(place: FilledDataDir) -> None:
    previous = age_by(restore_backup(place), days=3)
    damaged = place.data_dir / f"mirror.db.damaged-{clock.now() - timedelta(days=3):%Y%m%d-%H%M%S}"
    damaged.write_bytes(b"damaged")
    limits = {"retention__sms_days": "4", "retention__cdrs_days": "100"}
    assert run_retention(place, **limits) == [previous]
    assert damaged.exists()
    run_retention(place, **{**limits, "retention__sms_days": "2"})
    assert (previous.exists(), damaged.exists()) == (False, False)


def age_by(folder: Path, *, days: int) -> Path:
    """Rename the folder as if its restore was `days` earlier."""
    return folder.rename(
        folder.with_name(f"before-restore-{clock.now() - timedelta(days=days):%Y%m%d-%H%M%S}")
    )


def run_retention(place: FilledDataDir, **settings: str) -> list[Path]:
    """Run retention. Return the remaining folders before-restore-*."""
    with place.product(**settings) as product:
        assert product.retention_job.is_needed == (settings.get("storage__keep_before_restore_days") != "0")
        product.retention_job.run()
    return sorted(place.data_dir.glob("before-restore-*"))


UNCHANGEABLE_PLACES = {
    "notes.txt": b"ring 9 07700 and then 900123",
    "old/list.csv": "\uff10\uff17\uff17\uff10\uff10;900123".encode("utf-16"),
    "prepared/77.csv": THEIRS.encode(),
    "traces/cdrs/7.trace": b"INVITE sip:0011447700900123@example.com",
    "recordings/2026/03/01/99.mp3": b"ID3" + b"\0" * 200 + THEIRS.encode(),
}


def test_the_last_search_names_places_that_the_erasure_cannot_change(place: FilledDataDir) -> None:
    for path, content in UNCHANGEABLE_PLACES.items():
        file = place.data_dir / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    done = place.erase(f"+{THEIRS}", "--yes")
    assert (done.exit_code, "erasure 1: done" in done.stdout) == (1, True)
    for path in UNCHANGEABLE_PLACES:
        assert f"possibly left: {path}\n" in done.stderr


def test_the_last_search_names_table_and_key(place: FilledDataDir) -> None:
    with place.product() as product:
        hidden = f"prefix 9{THEIRS[2:]}"
        product.context.mirror_db.write(
            lambda tx: tx.execute("UPDATE sms SET message = ? WHERE id = 42", (hidden,))
        )
        audit.record(product.context.app_db, "sue", "search", hidden)
    done = place.erase(f"+{THEIRS}", "--yes")
    assert done.exit_code == 1
    assert "possibly left: mirror.db: sms 42\n" in done.stderr
    assert "possibly left: house.db: audit 2\n" in done.stderr


def test_an_id_is_found_across_two_reads_of_a_file(tmp_path: Path) -> None:
    text = str(OTHER_LEG).encode()
    paths = [tmp_path / f"mirror.db.damaged-{split}" for split in range(len(text) + 1)]
    for split, path in enumerate(paths):
        path.write_bytes(b" " * (CHUNK_BYTES - split) + text + b" 1234")
    assert search_files(paths, (), [OTHER_LEG]) == paths
    assert search_files(paths, (), [OTHER_LEG + 1]) == []


def test_a_file_that_cannot_be_searched_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        search_files([tmp_path], [f"+{THEIRS}"])
