"""Privacy: what is stored about a number, legal hold and erasure."""

from __future__ import annotations

import json
import re
import threading

import pytest

from integration.access import audit
from integration.core import clock
from integration.privacy import erase, erasures, final_check
from tests.support.application import Browser, TestApp, running_app
from tests.support.applications.filled_data_dir import THEIRS, FilledDataDir
from tests.support.harness import wait_for
from tests.support.page_text import text
from tests.support.people import ALICE

NUMBER = "07700 900123"


@pytest.fixture
def app(place: FilledDataDir):
    with running_app(place.data_dir) as app:
        yield app


def find(client: Browser, number: str = NUMBER) -> str:
    """Search for a number.

    Returns the text of the page with the report.
    """
    client.post("/privacy/find", number=number)
    wait_for(lambda: "as of" in text(client.get("/privacy")), "the report")
    return text(client.get("/privacy"))


def audited(app: TestApp) -> list[tuple[str, str, str]]:
    return [(entry.who, entry.what, entry.about) for entry in audit.list_newest(app.app_db)]


def test_the_page_shows_all_data_of_a_number_in_any_notation(app):
    client = app.log_in()
    app.put("cdrs/calltracking", {"id": 90, "src": THEIRS})
    for written in (NUMBER, f"+{THEIRS}", "0044 7700 900 123"):
        page = find(client, written)
        assert NUMBER in page
        for counted in ("Calls 1", "CDRs 2", "Recordings 2", "Voicemail messages 1", "SMS 1", "Faxes 1",
                        "Contacts 1", "Call-back items 1", "Notes 1"):  # fmt: skip
            assert counted in page, counted
        assert "cdrs_" not in page
        assert "Tracked call records 1" in page
        client.post("/privacy/clear")
        assert NUMBER not in text(client.get("/privacy"))
    assert "No data of this number is stored." in find(client, "07700 900999")
    # Another administrator sees no report of this one.
    assert "07700 900999" not in text(app.log_in(ALICE.as_user(5)).get("/privacy"))


@pytest.mark.parametrize("number", ["", "Ann", "12"])
def test_an_invalid_number_is_refused(shared_app, number):
    answer = shared_app.log_in().post("/privacy/find", number=number)
    assert answer.status_code == 400
    assert "isn’t a phone number" in text(answer)


def test_an_erasure_removes_the_number_and_is_listed_with_what_it_erased(app, place):
    (place.data_dir / "exports").mkdir()
    (place.data_dir / "exports" / "month.csv").write_text(f"+{THEIRS}\n")
    client = app.log_in()
    assert "Search for the number first" in text(client.post("/privacy/erase", number=NUMBER))
    find(client)
    refused = client.post("/privacy/erase", number="07700 900124")
    assert refused.status_code == 400
    assert "The numbers differ. Nothing was erased." in text(refused)
    assert place.find_texts("Ann Example")
    client.post("/privacy/erase", number="+44 7700 900123")
    wait_for(lambda: "Erasure 1 is complete" in text(client.get("/privacy")), "the end of the erasure")
    assert NUMBER not in text(client.get("/privacy"))
    assert "No data of this number is stored." in find(client)
    # The same entries as those of the command, by the user.
    assert ("alice@example.com", "number erased", "erasure 1") in audited(app)
    assert not any("900123" in entry[2] for entry in audited(app))

    page = text(client.get("/privacy/erasures"))
    assert re.search(r"Complete \d+ records, files and log entries Show what was erased Erased Count ", page)
    assert "CDRs 2" in page
    assert "Delivered exports with the number, not erased: 1 exports/month.csv" in page
    assert "Under legal hold" not in page
    assert "900123" not in page


def test_a_hold_prevents_the_erasure_until_it_is_released(app):
    client = app.log_in()
    find(client)
    page = client.post("/privacy/holds", what=f"+{THEIRS}", reason="claim 17")
    assert f"{NUMBER} is now under legal hold" in text(page)
    assert "claim 17" in text(page)
    wait_for(lambda: "is under legal hold. Nothing was erased" in text(client.get("/privacy")), "the refusal")
    assert "to confirm" not in text(client.get("/privacy"))
    client.post("/privacy/erase", number=NUMBER)
    wait_for(
        lambda: ("alice@example.com", "erasure refused", "a number") in audited(app), "the refused erasure"
    )
    twice = client.post("/privacy/holds", what=NUMBER, reason="twice")
    assert f"{NUMBER} is already under legal hold" in text(twice)
    assert client.post("/privacy/holds", what=NUMBER, reason=" ").status_code == 400
    assert f"{NUMBER} is no longer under legal hold" in text(client.post("/privacy/holds/1/release"))
    assert ("alice@example.com", "legal hold released", f"number +{THEIRS}") in audited(app)
    addresses = {one.what: one.address for one in audit.list_newest(app.app_db)}
    for action in ("legal hold set", "erasure refused", "legal hold released"):
        assert addresses[action] == "127.0.0.1"
    assert "No legal holds" in text(client.get("/privacy/holds"))


def test_an_erasure_is_announced_before_it_has_a_row_and_to_owners_of_deleted_files(shared_app):
    client = shared_app.log_in()
    with erasures.running:
        page = text(client.get("/privacy/erasures"))
        assert "An erasure is running. It is finding the data of the number." in page
        assert "No erasures yet" not in page
    assert "No files yet" in text(client.get("/exports"))
    values = (clock.utc_text(), json.dumps({"calls": 2, erasures.REMOVED_EXPORTS: 1}))
    shared_app.app_db.write(
        lambda tx: tx.execute(
            "INSERT INTO erasures (at, who, digests, lengths, done_at, removed)"
            " VALUES (?1, 'x', '[]', '[]', ?1, ?2)",
            values,
        )
    )
    page = text(client.get("/exports"))
    assert "The prepared files were deleted at" in page
    assert "because a telephone number was erased. Request them again." in page


def test_pages_show_a_running_erasure_as_running_and_no_second_search(app, monkeypatch):
    client, release = app.log_in(), threading.Event()
    find(client)
    monkeypatch.setattr(final_check, "find_places", lambda *_: release.wait(20) and [])
    client.post("/privacy/erase", number=NUMBER)
    wait_for(lambda: "Running" in text(client.get("/privacy/erasures")), "the erasure")
    assert "Erase the number again" not in text(client.get("/privacy/erasures"))
    assert "was interrupted" not in text(client.get("/system"))
    page = text(client.get("/privacy"))
    assert "by Alice" in page
    assert "Erase permanently" not in page
    release.set()
    wait_for(lambda: "Complete" in text(client.get("/privacy/erasures")), "the end of the erasure")
    release.clear()
    monkeypatch.setattr(erase, "list_backups", lambda *_: release.wait(20) and [])
    client.post("/privacy/find", number="07700 900999")
    refused = client.post("/privacy/find", number="07700 900998")
    release.set()
    assert refused.status_code == 409
    assert "Another number is still being searched for." in text(refused)
    assert 'value="07700 900998"' in refused.text
    wait_for(lambda: "07700 900999 as of" in text(client.get("/privacy")), "the report")
