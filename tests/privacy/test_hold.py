"""Legal holds prevent retention and erasure (promise S21)."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from integration.access import audit
from integration.core import clock
from integration.core.commands import Progress
from integration.core.errors import PlatformRefused
from integration.factory import Product
from integration.inbox import store
from integration.mirror.privacy import retention_rules
from integration.mirror.sync_state import collection_state
from integration.privacy import erasures, holds
from integration.privacy.holds import refresh_held
from integration.privacy.retention import RetentionJob
from integration.sqlite.transaction import Transaction
from integration.sync.files import download
from integration.sync.plan import PLAN
from integration.sync.reading import deletions
from integration.sync.reading.page_store import Tally
from tests.support.application import running_app
from tests.support.applications.filled_data_dir import (
    DDI,
    INNER,
    LEG,
    OTHER,
    OTHER_LEG,
    THEIRS,
    FilledDataDir,
    stamp,
)
from tests.support.people import DAVE

KINDS = ("cdrs", "recordings", "transcripts", "sms", "voicemail", "faxes", "inbox")
SHORT = {f"retention__{kind}_days": "30" for kind in KINDS}
TABLES = ("cdrs", "monitors", "voicemessages", "sms", "faxes")
DATA_OF_THEIRS = {
    "cdrs": [1, 2], "monitors": [11, 12], "voicemessages": [21], "sms": [41], "faxes": [51],
    "texts": [11, 12], "events": [1], "calls": [LEG], "files": [11, 12, 21, 51],
    "webhooks": [1, 2, 3, 7, 8, 9, 10],
}  # fmt: skip


def run_retention(place: FilledDataDir) -> dict[str, list[int]]:
    """Run retention before and after a full sync. Return what is left."""
    with place.product(**SHORT) as product:
        get_retention_job(product).run()
        place.sync(product)
        get_retention_job(product).run()
        return list_left(place, product)


def list_left(place: FilledDataDir, product: Product) -> dict[str, list[int]]:
    """Return ids by table, record ids of files, and seqs of webhooks."""
    with product.context.mirror_db.read() as connection:
        left = {
            table: [row[0] for row in connection.execute(f"SELECT id FROM {table} ORDER BY id")]
            for table in TABLES
        }
        texts = connection.execute("SELECT id FROM monitors WHERE transcript IS NOT NULL ORDER BY id")
        left["texts"] = [row[0] for row in texts]
        left["events"] = [1 for _ in connection.execute("SELECT 1 FROM _sms_events")]
        left["calls"] = [row[0] for row in connection.execute("SELECT id FROM _calls ORDER BY id")]
    left["files"] = sorted(int(path.stem) for path in place.files(product).values() if path.exists())
    left["webhooks"] = [row.seq for row in product.context.inbox.list_after(0, 100)]
    return left


def get_retention_job(product: Product) -> RetentionJob:
    return product.retention_job


@pytest.mark.parametrize(
    ("what", "kept"),
    [
        (None, {}),
        (f"+{THEIRS}", DATA_OF_THEIRS),
        ("07700 900123", DATA_OF_THEIRS),
        (str(OTHER_LEG), {
            "cdrs": [3], "monitors": [13], "texts": [13], "calls": [OTHER_LEG], "files": [13],
            "webhooks": [4, 5, 6],
        }),
    ],
)  # fmt: skip
def test_retention_and_a_full_sync_keep_held_data_and_no_other(
    place: FilledDataDir, what: str | None, kept: dict[str, list[int]]
) -> None:
    assert what is None or place.hold(what, "--reason", "claim 17").exit_code == 0
    assert {name: found for name, found in run_retention(place).items() if found} == kept


@pytest.mark.parametrize("is_running", [False, True])
def test_held_records_survive_deletion_on_the_platform_and_held_recordings_can_be_played(
    place: FilledDataDir, is_running: bool
) -> None:
    if not is_running:
        place.hold(f"+{THEIRS}", "--reason", "claim 17")
    with place.product(**SHORT, sync__on_platform_delete="delete") as product:
        if is_running:
            values = {"kind": "number", "what": f"+{THEIRS}", "reason": "claim 17"}
            holds.set_hold(product.context, values, Progress(lambda _: None, lambda: True))
        assert download.fetch(product.context, "recording", 11).name == "11.mp3"
        with pytest.raises(PlatformRefused, match="older than its retention"):
            download.fetch(product.context, "recording", 13)
        # The own path of a record can name a number that the list does not.
        item = f'{{"id":42,"cc":"{THEIRS}"}}'
        product.context.mirror_db.write(
            lambda tx: tx.execute("UPDATE sms SET _item = ? WHERE id = 42", (item,)) and None
        )
        finish_empty_full_sync(product, "sms")
        with product.context.mirror_db.read() as connection:
            assert [row[0] for row in connection.execute("SELECT id FROM sms ORDER BY id")] == [41, 42]


@pytest.mark.parametrize(
    ("kinds", "found", "kept"),
    [
        (("recordings",), "files", [12, 13, 21, 22, 51]),
        (("cdrs",), "calls", [OTHER_LEG]),
        (("inbox",), "webhooks", [2, 3, 4, 5, 6, 7, 8, 9, 10]),
    ],
)
def test_a_hold_that_is_set_during_retention_protects_the_data_that_is_left(
    place: FilledDataDir, monkeypatch: pytest.MonkeyPatch, kinds: tuple[str, ...], found: str, kept: list[int]
) -> None:
    monkeypatch.setattr(retention_rules, "BATCH_SIZE", 1)
    monkeypatch.setattr(store, "GROUP_SIZE", 1)
    with place.product(**{f"retention__{kind}_days": "30" for kind in kinds}) as product:
        numbers = [THEIRS, OTHER]

        def set_holds(_: str) -> None:
            while numbers:
                values = {"kind": "number", "what": f"+{numbers.pop()}", "reason": "claim 17"}
                holds.set_hold(product.context, values, Progress(lambda _: None, lambda: True))

        # Retention records a heartbeat after each batch.
        monkeypatch.setattr(product.health, "beat", set_holds)
        get_retention_job(product).run()
        assert list_left(place, product)[found] == kept


def test_a_held_leg_stays_held_while_the_holds_are_read_again(place: FilledDataDir) -> None:
    assert place.hold(str(LEG), "--reason", "claim 17").exit_code == 0
    found: list[bool] = []
    with place.product() as product, closing(sqlite3.connect(place.data_dir / "mirror.db")) as connection:
        held_records = product.context.held_records
        with product.context.app_db.read() as app_connection:
            refresh_held(app_connection, connection, held_records)
            connection.set_trace_callback(lambda _: found.append(INNER in held_records.legs))
            refresh_held(app_connection, connection, held_records)
    assert found == [True]


def finish_empty_full_sync(product: Product, collection: str) -> None:
    """Finish a full sync without records, with accepted deletions."""

    def finish(tx: Transaction) -> None:
        collection_state.finish_full_sync(tx, collection, 0, 0, started_at=clock.utc_text(clock.unix() + 1))
        collection_state.accept_deletions(tx, collection)

    product.context.mirror_db.write(finish)
    deletions.confirm_missing(product.context, PLAN[collection], Tally())


def test_holds_are_listed_audited_and_set_only_once(place: FilledDataDir) -> None:
    place.hold(f"+{OTHER}", "--reason", "claim 17")
    second = place.hold(f"+{OTHER}", "--reason", "claim 17")
    assert (second.exit_code, "already" in second.stderr) == (1, True)
    listed = place.hold("--list").stdout.splitlines()
    assert listed[1].split()[:2] == [f"+{OTHER}", "number"]
    assert listed[1].endswith("claim 17")
    place.hold(f"+{OTHER}", "--release")
    assert len(place.hold("--list").stdout.splitlines()) == 1
    with place.product() as product:
        entries = [(entry.what, entry.about) for entry in audit.list_newest(product.context.app_db)[:2]]
    assert entries == [
        ("legal hold released", f"number +{OTHER}"),
        ("legal hold set", f"number +{OTHER}: claim 17"),
    ]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [((DDI, "--reason", "no such call"), 1), ((f"+{OTHER}", "--release"), 1), ((f"+{OTHER}",), 2), ((), 2)],
)
def test_invalid_arguments_are_rejected(
    place: FilledDataDir, arguments: tuple[str, ...], status: int
) -> None:
    assert place.hold(*arguments).exit_code == status


def test_the_page_system_shows_holds_to_administrators_only(tmp_path) -> None:
    with running_app(tmp_path / "data") as app:
        values = {"kind": "number", "what": f"+{THEIRS}", "reason": "claim <17>"}
        holds.set_hold(app.context, values, Progress(lambda _: None, lambda: True))
        app.app_db.write(lambda tx: erasures.begin(tx, stamp(1), "command line", [b"x"], [12]))
        shown = app.log_in().get("/system").text
        assert f"+{THEIRS}" in shown
        assert "claim &lt;17&gt;" in shown
        assert "not complete yet" in shown
        assert f"+{THEIRS}" not in app.log_in(DAVE).get("/system").text
