"""`hold`: neither retention nor an erasure touches what is under it (promise S21)."""

from __future__ import annotations

import pytest

from integration.access import audit
from integration.core import clock
from integration.core.errors import PlatformRefused
from integration.factory import Product
from integration.mirror.sync_state import collection_state
from integration.privacy import erasures, holds
from integration.privacy.retention import RetentionJob
from integration.sqlite.transaction import Transaction
from integration.sync.files import download
from integration.sync.plan import PLAN
from integration.sync.reading import deletions
from integration.sync.reading.page_store import Tally
from tests.support.application import running_app
from tests.support.applications.filled_data_dir import (
    LEG,
    OTHER,
    OTHER_LEG,
    OURS,
    THEIRS,
    FilledDataDir,
    stamp,
)
from tests.support.people import DAVE

KINDS = ("cdrs", "recordings", "transcripts", "sms", "voicemail", "faxes", "inbox")
SHORT = {f"retention__{kind}_days": "30" for kind in KINDS}
TABLES = ("cdrs", "monitors", "voicemessages", "sms", "faxes")


def retained(place: FilledDataDir) -> dict[str, list[int]]:
    """What retention leaves, before a walk and after it: ids by table, files by number, webhooks by leg."""
    with place.product(**SHORT) as product:
        keeper_of(product).run()
        place.sync(product)
        keeper_of(product).run()
        with product.context.mirror_db.read() as connection:
            left = {
                table: [row[0] for row in connection.execute(f"SELECT id FROM {table} ORDER BY id")]
                for table in TABLES
            }
            texts = connection.execute("SELECT id FROM monitors WHERE transcript IS NOT NULL ORDER BY id")
            left["texts"] = [row[0] for row in texts]
            left["told"] = [1 for _ in connection.execute("SELECT 1 FROM _sms_events")]
            left["calls"] = [row[0] for row in connection.execute("SELECT id FROM _calls ORDER BY id")]
        left["files"] = sorted(int(path.stem) for path in place.files(product).values() if path.exists())
        left["webhooks"] = [row.seq for row in product.context.inbox.list_after(0, 100)]
    return left


def keeper_of(product: Product) -> RetentionJob:
    return product.retention_job


def test_without_a_hold_all_of_it_goes(place: FilledDataDir) -> None:
    assert not any(retained(place).values())


@pytest.mark.parametrize("what", [f"+{THEIRS}", "07700 900123"])
def test_a_number_is_spared_with_its_calls_and_nobody_else(place: FilledDataDir, what: str) -> None:
    assert place.hold(what, "--reason", "claim 17").exit_code == 0
    assert retained(place) == {
        "cdrs": [1, 2], "monitors": [11, 12], "voicemessages": [21], "sms": [41], "faxes": [51],
        "texts": [11, 12], "told": [1], "calls": [LEG], "files": [11, 12, 21, 51],
        "webhooks": [1, 2, 3, 7, 8, 9, 10],
    }  # fmt: skip


@pytest.mark.parametrize("by", ["retention", "walk"])
def test_what_was_said_is_spared_too(place: FilledDataDir, by: str) -> None:
    place.hold(f"+{THEIRS}", "--reason", "claim 17")
    with place.product(retention__transcripts_days="30") as product:
        keeper_of(product).run() if by == "retention" else place.sync(product)
        with product.context.mirror_db.read() as connection:
            said = connection.execute("SELECT id FROM monitors WHERE transcript IS NOT NULL ORDER BY id")
            assert [row[0] for row in said] == [11, 12]


def test_a_call_is_spared_alone(place: FilledDataDir) -> None:
    assert place.hold(str(OTHER_LEG), "--reason", "claim 18").exit_code == 0
    left = retained(place)
    assert {name: found for name, found in left.items() if found} == {
        "cdrs": [3], "monitors": [13], "texts": [13], "calls": [OTHER_LEG], "files": [13],
        "webhooks": [4, 5, 6],
    }  # fmt: skip


def test_what_is_held_plays_and_outlives_its_deletion_on_the_platform(place: FilledDataDir) -> None:
    place.hold(f"+{THEIRS}", "--reason", "claim 17")
    with place.product(**SHORT, sync__on_platform_delete="delete") as product:
        assert download.fetch(product.context, "recording", 11).name == "11.mp3"
        with pytest.raises(PlatformRefused, match="older than its retention"):
            download.fetch(product.context, "recording", 13)
        finish_empty_full_sync(product, "sms")
        with product.context.mirror_db.read() as connection:
            assert [row[0] for row in connection.execute("SELECT id FROM sms")] == [41]


def finish_empty_full_sync(product: Product, collection: str) -> None:
    """End a full sync that found no record; a user accepts the deletions."""

    def finish(tx: Transaction) -> None:
        collection_state.finish_full_sync(tx, collection, 0, 0, started_at=clock.utc_text(clock.unix() + 1))
        collection_state.accept_deletions(tx, collection)

    product.context.mirror_db.write(finish)
    deletions.confirm_missing(product.context, PLAN[collection], Tally())


@pytest.mark.parametrize("what", [f"+{THEIRS}", str(LEG)])
def test_erasing_is_refused_until_it_is_released(place: FilledDataDir, what: str) -> None:
    place.hold(what, "--reason", "claim 17")
    before = place.bytes_with(THEIRS, "Ann Example")
    for arguments in ((), ("--yes",)):
        refused = place.erase(f"+{THEIRS}", *arguments)
        assert (refused.exit_code, "under legal hold" in refused.stderr) == (1, True)
    assert place.bytes_with(THEIRS, "Ann Example") == before
    assert place.hold(what, "--release").exit_code == 0
    assert place.erase(f"+{THEIRS}", "--yes").exit_code == 0
    assert place.bytes_with(THEIRS, "Ann Example") == {}


def test_they_are_listed_and_audited_and_set_once(place: FilledDataDir) -> None:
    place.hold(f"+{OTHER}", "--reason", "claim 17")
    again = place.hold(f"+{OTHER}", "--reason", "claim 17")
    assert (again.exit_code, "already" in again.stderr) == (1, True)
    listed = place.hold("--list").stdout.splitlines()
    assert listed[1].split()[:2] == [f"+{OTHER}", "number"]
    assert listed[1].endswith("claim 17")
    place.hold(f"+{OTHER}", "--release")
    assert len(place.hold("--list").stdout.splitlines()) == 1
    with place.product() as product:
        told = [(entry.what, entry.about) for entry in audit.list_newest(product.context.app_db)[:2]]
    assert told == [
        ("legal hold released", f"number +{OTHER}"),
        ("legal hold set", f"number +{OTHER}: claim 17"),
    ]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [((OURS, "--reason", "no such call"), 1), ((f"+{OTHER}", "--release"), 1), ((f"+{OTHER}",), 2), ((), 2)],
)
def test_what_makes_no_sense_is_refused(
    place: FilledDataDir, arguments: tuple[str, ...], status: int
) -> None:
    assert place.hold(*arguments).exit_code == status


def test_system_shows_them_to_administrators(tmp_path) -> None:
    with running_app(tmp_path / "data") as app:
        holds.add(app.app_db, "number", f"+{THEIRS}", "claim <17>", "command line")
        app.app_db.write(lambda tx: erasures.begin(tx, stamp(1), "command line", [b"x"], [12]))
        shown = app.log_in().get("/system").text
        assert f"+{THEIRS}" in shown
        assert "claim &lt;17&gt;" in shown
        assert "but not all of it" in shown
        assert f"+{THEIRS}" not in app.log_in(DAVE).get("/system").text
