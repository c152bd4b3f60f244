"""Every mirrored collection in every format: columns, derived columns and access."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from integration.access import people, sessions
from integration.access.rights import ROLES
from integration.catalogue import RESOURCES
from integration.dashboard.account.sections import SECTIONS
from tests.exports.test_presets import exporting, rows
from tests.support.application import TestApp, running_app
from tests.support.applications.shared_app import SharedApp
from tests.support.people import CAROL, Member

EVERY = [row for row in RESOURCES if row.is_listed and row.table != "me"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestApp]:
    with running_app(tmp_path_factory.mktemp("site") / "data") as app:
        for resource in EVERY:
            app.put(resource.collection, {"id": 1, "strange": "=1", "other": None})
        yield app


@pytest.fixture
def app(shared_app: SharedApp) -> TestApp:
    return shared_app


@pytest.mark.exhaustive
@pytest.mark.parametrize("resource", EVERY, ids=lambda row: row.collection)
def test_every_collection_is_exported_in_every_format(shared: TestApp, resource: Any) -> None:
    import pyarrow.parquet

    client = exporting(shared)
    (row,) = rows(client.get(f"/exports/{resource.collection}.csv").data)
    documented = [field.name for field in resource.fields if field.documented]
    assert list(row) == (documented or ["id", "strange", "other"])
    data = client.get(f"/exports/{resource.collection}.jsonl").data
    assert [json.loads(line)["strange"] for line in data.splitlines()] == ["=1"]
    page = openpyxl.load_workbook(io.BytesIO(client.get(f"/exports/{resource.table}.xlsx").data)).worksheets[
        0
    ]
    assert [cell.value for cell in page[1]] == list(row)
    parquet = client.get(f"/exports/{resource.table}.parquet").data
    assert pyarrow.parquet.read_table(io.BytesIO(parquet)).num_rows == 1


def test_derived_columns_of_a_cdr(app: TestApp) -> None:
    app.put("me", {"id": 1, "currency_iso": "GBP"})
    app.put("users", {"id": 5, "first_name": "Ann", "last_name": "Example"})
    app.put("cdrs/dictionaries", {"disposition": {"VM": "Voicemail"}})
    at = "2026-07-01 09:00:00"
    app.put("monitors", *({"id": number, "live_id": 70, "timestamp": at} for number in (31, 32)))
    app.archive("recording", 31, b"audio")
    app.put("cdrs", {
        "id": 1, "calldate": "2026-10-25 00:30:00", "duration": 3725, "billsec": 60, "user_id": "5",
        "live_id": 70, "type": "I", "disposition": "VM", "charge": 0.25,
    })  # fmt: skip
    columns = (
        "calldate,calldate_local,duration,duration_hms,billsec_hms,user_id,user_name,type,type_label,"
        "disposition,disposition_label,charge,currency,call_link,recording_files,recording_links"
    )
    (row,) = rows(exporting(app).get(f"/exports/cdrs.csv?columns={columns}").data)
    links = row.pop("call_link"), row.pop("recording_links")
    assert list(row.values()) == [
        "2026-10-25 00:30:00", "2026-10-25 01:30:00+01:00", "3725", "1:02:05", "0:01:00", "5", "Ann Example",
        "I", "inbound", "VM", "Voicemail", "0.25", "GBP", "recordings/2026/07/01/31.mp3",
    ]  # fmt: skip
    assert links[0].endswith("/calls/70")
    assert links[1].split()[1].endswith("/recordings/32.mp3")
    lines = exporting(app).get("/exports/cdrs.jsonl?columns=duration_hms,calldate_local,labels").data
    assert json.loads(lines) == {
        "duration_hms": "1:02:05",
        "calldate_local": "2026-10-25 01:30:00+01:00",
        "labels": None,
    }


def test_group_members_are_exported_with_their_names(app: TestApp) -> None:
    app.put("users", {"id": 5, "first_name": "Ann", "last_name": "Example"}, {"id": 6, "first_name": "Bob"})
    app.put("queues", {"id": 1, "users": [5, {"id": 6}, 7, "x"], "ddis": "no list"})
    (row,) = rows(exporting(app).get("/exports/queues.csv?columns=users_names,ddis_names").data)
    assert row == {"users_names": "Ann Example; Bob", "ddis_names": ""}


# --- access --------------------------------------------------------------------------------------------


def make_client(app: TestApp, role: str, **options: Any) -> Any:
    """Client of a dashboard user with `role` and the granted right “export”."""
    email = f"{role}@example.com"
    person = people.create(app.app_db, email, role, password_hash="x", **options)
    people.change(app.app_db, email, rights={"export": True})
    client = exporting(app)
    client.set_cookie("session", sessions.create(app.app_db, person.id))
    return client


@pytest.mark.parametrize("role", ["viewer", "agent", "supervisor"])
def test_role_exports_the_collections_of_its_pages(app: TestApp, role: str) -> None:
    client, pages = make_client(app, role), app.log_in(Member("ann@example.com", role))
    for name, section in SECTIONS.items():
        if name == "me":
            continue
        shown = ROLES.index(role) >= ROLES.index(section.resource.audience)
        status = client.head(f"/exports/{name}.csv").status_code
        assert (name, status) == (name, 200 if shown else 403)
    assert pages.get("/account/ivrs").status_code == client.head("/exports/ivrs.csv").status_code


def test_agent_gets_no_raw_records_and_no_item_fields_of_users(
    app: TestApp,
) -> None:
    app.put("users", {"id": 5, "first_name": "Ann", "strange": "secret of Ann"})
    app.put("cdrs", {"id": 1, "strange": "raw"})
    agent, boss = make_client(app, "agent"), make_client(app, "supervisor")
    closed = next(field.name for field in _users().fields if field.item_only and field.meaning != "secret")
    assert agent.get(f"/exports/users.csv?columns=id,{closed}").status_code == 400
    hidden = json.dumps([{"property": closed, "operator": "eq", "value": 1}])
    assert agent.get("/exports/users.csv", query_string={"filter": hidden}).status_code == 400
    assert boss.get(f"/exports/users.csv?columns=id,{closed}").status_code == 200
    assert "strange" not in json.loads(agent.get("/exports/cdrs.jsonl").data)
    assert json.loads(boss.get("/exports/cdrs.jsonl").data) == {"id": 1, "strange": "raw"}


def _users() -> Any:
    return next(row for row in RESOURCES if row.collection == "users")


def test_agent_limited_to_own_records_exports_what_the_pages_show(tmp_path: Path) -> None:
    with running_app(tmp_path / "data", dashboard__agents_see="own") as app:
        app.put("users", {"id": 5}, {"id": 6})
        app.put("cdrs", {"id": 5, "user_id": 5}, {"id": 6, "user_id": 6})
        client, pages = make_client(app, "agent", platform_user_id=5), app.log_in(CAROL.as_user(5))
        assert [row["id"] for row in rows(client.get("/exports/cdrs.csv").data)] == ["5"]
        # Every page shows the names of colleagues.
        assert [row["id"] for row in rows(client.get("/exports/users.csv").data)] == ["5", "6"]
        for name in ("faxes", "msdrs", "queues", "calls", "chats"):
            assert (
                pages.get(f"/account/{name}").status_code == client.head(f"/exports/{name}.csv").status_code
            )
