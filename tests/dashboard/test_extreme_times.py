"""Times that no time zone can show: pages, exports and reports show them as received."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from integration.catalogue import RESOURCES
from integration.dashboard.account.sections import SECTIONS
from integration.exports.formats import FORMATS
from integration.mirror.query.filter_sql import get_value_kind
from integration.workspace.callback_following import update_from_mirror
from tests.support.application import TestApp, running_app
from tests.support.page_text import call_ids, text
from tests.support.people import CALLER

FIRST, LAST = "0001-01-01 00:00:00", "9999-12-31 23:59:59"
PAGES = (
    "/", "/live", "/calls?range=all", "/calls?from=1970-01-01&to=8999-12-31", "/missed",
    "/missed?state=closed", "/recordings", "/voicemail", "/messages", "/messages/faxes", "/reports",
    "/reports?range=year", "/reports/missed", "/reports/labels", "/reports/summary", "/contacts",
    "/contacts/5", "/notifications", "/system", "/privacy", "/privacy/retention", "/calls/1/beside",
    f"/messages?with={CALLER}", f"/palette?q={CALLER}", f"/calls?range=all&q={CALLER}",
    "/calls?range=all&outcome=missed", "/privacy/audit?from=0001-01-01&to=9999-12-31",
    "/exports/cdrs.csv?from=0001-01-01&to=0001-01-01",
    "/exports/cdrs.csv?from=9999-12-31&to=9999-12-31",
    *(
        f"/exports/{name}.csv?tz={{zone}}&{limit}={end}"
        for name in ("cdrs", "call-history")
        for limit in ("from", "to")
        for end in ("0001-01-02", "9999-12-30")
    ),
)  # fmt: skip


def fill(app: TestApp) -> dict[str, list[str]]:
    """Store two records in each collection with times, one at each end of the calendar.

    Returns the time fields of each collection.
    """
    time_fields: dict[str, list[str]] = {}
    for resource in RESOURCES:
        if not resource.is_listed or resource.key is None:
            continue
        names = [field.name for field in resource.fields if get_value_kind(field, resource) == "time"]
        if names:
            time_fields[resource.collection] = names
            app.put(
                resource.collection,
                *(
                    {"id": number, **({"live_id": number} if resource.collection == "cdrs" else {}),
                     "src": CALLER, "dst": "442079460002", "type": "I", "duration": 9, "billsec": 0,
                     **dict.fromkeys(names, moment)}
                    for number, moment in ((1, FIRST), (2, LAST))
                ),
            )  # fmt: skip
    return time_fields


@pytest.mark.exhaustive
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC"])
def test_pages_exports_and_reports_have_times_beyond_the_calendar_of_the_zone(
    tmp_path: Path, zone: str
) -> None:
    """At the ends of the calendar a conversion to the zone is in year 0 or 10000."""
    with running_app(tmp_path / "data", dashboard__timezone=zone) as app:
        time_fields = fill(app)
        assert {"cdrs", "monitors", "voicemessages", "sms", "faxes", "chats"} <= time_fields.keys()
        app.put("contacts", {"id": 5, "first_name": "Cleo", "tel": CALLER})
        update_from_mirror(app.app_db, app.mirror_db, 30)
        browser = app.log_in()
        pages = [(path, browser.get(path.format(zone=zone))) for path in PAGES]
        assert [(path, page.status_code) for path, page in pages if page.status_code != 200] == []
        calls = browser.get("/calls?range=all")
        assert sorted(call_ids(calls)) == [1, 2]
        # The conversion of one end fails; it is shown as received.
        unshown = {"Europe/Berlin": [LAST], "Asia/Kolkata": [LAST], "America/New_York": [FIRST], "UTC": []}
        assert [moment for moment in (FIRST, LAST) if moment in text(calls)] == unshown[zone]
        for collection in time_fields.keys() & SECTIONS.keys():
            for path in (f"/account/{collection}", f"/account/{collection}/1", f"/account/{collection}/2"):
                page = browser.get(path)
                assert page.status_code == 200, path
        for collection in (*time_fields, "call-history"):
            for suffix in FORMATS if collection in ("monitors", "voicemessages") else set(FORMATS) - {"zip"}:
                export = browser.get(f"/exports/{collection}.{suffix}?tz={zone}")
                assert export.status_code == 200, (collection, suffix, export.text[:200])
        columns = "calldate,calldate_local"
        rows = list(
            csv.reader(browser.get(f"/exports/cdrs.csv?columns={columns}&tz={zone}").text.splitlines())
        )
        for row, moment in zip(rows[1:], (FIRST, LAST), strict=True):
            assert (row == [moment, moment]) == (moment in unshown[zone]), row


def test_an_unexpected_error_of_a_page_is_logged_and_no_missing_page(
    app: TestApp, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    browser = app.log_in()

    for error in (OverflowError, ValueError, LookupError, KeyError, UnicodeError):

        def fail(*_: object, raised: type[Exception] = error) -> str:
            raise raised("cannot show this time")

        monkeypatch.setattr("integration.dashboard.calls.history.describe_filters", fail)
        caplog.clear()
        page = browser.get("/calls")
        assert page.status_code == 500, error
        assert "This page could not be built" in page.text
        assert "cannot show this time" in caplog.text, error


def test_an_id_beyond_64_bits_is_no_page(app: TestApp) -> None:
    browser = app.log_in()
    for path in (
        "/calls/{}", "/calls/{}/beside", "/contacts/{}", "/account/cdrs/{}", "/system/events/{}",
        "/exports/prepared/{}", "/recordings/{}.mp3", "/voicemail/{}.mp3",
    ):  # fmt: skip
        for number in (2**63, 10**30):
            assert browser.get(path.format(number)).status_code == 404, path
            assert browser.post(f"/missed/{number}/close").status_code == 404


def test_a_number_beyond_64_bits_in_a_parameter_is_no_error(app: TestApp) -> None:
    browser, statuses = app.log_in(), {}
    for path in (
        "/calls?person={}", "/calls?before={}", "/calls?min={}", "/calls?q={}", "/palette?q={}",
        "/dial?item={}", "/missed?done={}", "/missed?page={}", "/recordings?before={}",
        "/messages?with={}", "/messages?before={}", "/messages/faxes?before={}", "/contacts?page={}",
        "/contacts?after={}", "/privacy/audit?before={}", "/system/alerts?before={}",
        "/system/webhooks?before={}", "/system/journal?before={}", "/account/cdrs?page={}",
        '/account/cdrs?filter=[{{"property":"id","operator":"eq","value":{}}}]',
    ):  # fmt: skip
        for number in (2**63, 10**30):
            for value in (number, f"2026-07-01 10:00:00.{number}", f"2026-07-01 10:00:00-{number}"):
                statuses[path.format(value)] = browser.get(path.format(value)).status_code
    assert {path: status for path, status in statuses.items() if status >= 500} == {}
