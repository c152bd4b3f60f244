"""Agreement of all answers with the platform after incremental syncs of history."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.comparison.account import OWN_PATHS, Account, sync, write_compact
from tests.comparison.record_fields import DATES
from tests.comparison.test_changes import (
    ADDED,
    BEFORE,
    CREDENTIAL,
    HISTORY,
    READ,
    UNREAD,
    change,
    make_record,
)
from tests.support.applications.shared_app import SharedApp, running_shared_app

pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedApp]:
    """An application whose clock only moves on, because its request budget follows the clock."""
    folder = tmp_path_factory.mktemp("history")
    with running_shared_app(folder, sync__max_requests_per_minute="6000000") as app:
        app.clock.freeze(BEFORE)
        yield app


@pytest.mark.parametrize("collection", sorted(HISTORY))
def test_incremental_sync_finds_added_and_changed_records(app: SharedApp, collection: str) -> None:
    account = Account(app.platform)
    account.lists[collection] = [make_record(collection, READ), make_record(collection, UNREAD)]
    sync(app, collection)
    app.clock.advance(seconds=60)
    date = {name: "2026-09-02 12:00:30" for name in make_record(collection, ADDED) if name in DATES}
    account.lists[collection].append({**make_record(collection, ADDED), **date})
    sync(app, collection)
    check_history(app, account, collection)
    app.clock.advance(seconds=60)
    account.lists[collection][-1] = change(account.lists[collection][-1])
    sync(app, collection)
    check_history(app, account, collection)


def check_history(app: SharedApp, account: Account, collection: str) -> None:
    """Compare list and last record with the platform."""
    records = account.lists[collection]
    data = app.get(f"/{collection}", CREDENTIAL).data
    assert data == b'{"data":' + write_compact(records) + b',"total":3}'
    if collection in OWN_PATHS:
        assert app.get(f"/{collection}/{ADDED}", CREDENTIAL).json["data"] == records[-1]
