"""ZIP of recordings: content, missing files and access rights."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from contextlib import nullcontext
from html import unescape
from urllib.parse import urlencode

import pytest

from integration.access import audit, people, sessions
from integration.exports.formats import zip as zipped
from integration.exports.presets import PRESETS
from integration.exports.selection import select_preset
from tests.exports.test_presets import archived, exporting

AUDIO = bytes(range(256)) * 4000


@pytest.fixture
def app(shared_app):
    app = shared_app
    for number, outcome in ((1, "answered"), (2, "missed"), (3, "answered")):
        app.call(number, f"2026-07-0{number} 09:00:00", outcome=outcome, recordings=1)
        app.leg(number)
        app.insert("monitors", id=30 + number, live_id=number, timestamp=f"2026-07-0{number} 09:00:00")
    for number in (1, 2):
        path = f"recordings/2026/07/0{number}/{30 + number}.mp3"
        target = app.data_dir / path
        target.parent.mkdir(parents=True)
        target.write_bytes(AUDIO + bytes([number]))
        archived(app, 30 + number, path)
    return app


def opened(data: bytes) -> zipfile.ZipFile:
    archive = zipfile.ZipFile(io.BytesIO(data))
    assert archive.testzip() is None
    return archive


def table(archive: zipfile.ZipFile, name: str) -> list[dict[str, str]]:
    text = archive.read(name).decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_zip_has_the_files_of_the_manifest_and_a_list_of_missing_files(app):
    response = exporting(app).get("/exports/recordings.zip")
    archive = opened(response.data)
    assert response.headers["X-Export-Rows"] == "3"
    rows = table(archive, "manifest.csv")
    assert [row["id"] for row in rows] == ["31", "32", "33"]
    for row in rows[:2]:
        assert archive.read(row["file"]) == AUDIO + bytes([int(row["id"]) - 30])
    assert table(archive, "missing.csv") == [
        {"id": "33", "file": "", "reason": "not in the archive (never requested)"}
    ]


def test_zip_has_the_recordings_of_the_filtered_calls(app):
    view = {"view": urlencode({"range": "all", "outcome": "missed"})}
    archive = opened(exporting(app).get("/exports/recordings.zip?" + urlencode(view)).data)
    assert sorted(archive.namelist()) == ["manifest.csv", "recordings/2026/07/02/32.mp3"]


def test_list_of_the_zip_from_a_page_has_no_codes_and_ids(app):
    page = app.log_in().get("/calls?range=all").text
    (link,) = re.findall(r'href="(/exports/recordings\.zip[^"]*)"', page)
    rows = table(opened(app.log_in().get(unescape(link)).content), "manifest.csv")
    assert list(rows[0]) == [
        "Time (Europe/London)", "Caller", "Called", "Person", "Duration", "File", "File state", "Missing",
    ]  # fmt: skip
    assert [row["File state"] for row in rows] == ["Saved", "Saved", ""]
    nothing = app.log_in().get("/calls?range=all&q=nobody-has-this").text
    assert "/exports/recordings.zip" not in nothing


def test_deleted_file_is_listed_as_missing(app):
    (app.data_dir / "recordings/2026/07/01/31.mp3").unlink()
    archive = opened(exporting(app).get("/exports/recordings.zip").data)
    assert [row["id"] for row in table(archive, "missing.csv")] == ["31", "33"]
    assert "recordings/2026/07/02/32.mp3" in archive.namelist()


def test_files_outside_the_archive_are_never_packed(app):
    secret = app.data_dir / "secret"
    secret.write_text("canary")
    link = app.data_dir / "recordings/2026/07/01/31.mp3"
    link.unlink()
    link.symlink_to(secret)
    app.mirror_db.write(
        lambda tx: tx.execute(
            "UPDATE media SET path = ? WHERE record_id = 32", (f"../{app.data_dir.name}/secret",)
        )
    )
    data = exporting(app).get("/exports/recordings.zip").data
    assert b"canary" not in data
    assert len(table(opened(data), "missing.csv")) == 3


def test_zip_is_streamed_in_small_chunks(app):
    selection = select_preset(PRESETS["recordings"], {}, timezone="UTC", base_url="")
    with app.mirror_db.read() as connection:
        archive = zipped.ZipExport(
            lambda: nullcontext(connection), selection, app.context.settings.storage.data_dir
        )
    sizes = [len(chunk) for chunk in archive]
    assert sum(sizes) > 2 * len(AUDIO)
    assert max(sizes) < zipped.CHUNK_BYTES + 1000


def test_zip_requires_the_right_recordings(app):
    person = people.create(app.app_db, "back@example.com", "supervisor", password_hash="x")
    client = exporting(app)
    client.set_cookie("session", sessions.create(app.app_db, person.id))
    assert client.get("/exports/recordings.zip").status_code == 200
    entry = audit.list_newest(app.app_db)[0]
    assert (entry.who, entry.about, entry.result) == ("back@example.com", "recordings.zip", "3 rows")
    people.change(app.app_db, "back@example.com", rights={"recordings": False})
    assert client.get("/exports/recordings.zip").status_code == 403
    assert client.get("/exports/recordings.csv").status_code == 200


def test_zip_of_an_export_without_files_is_400(app):
    assert exporting(app).get("/exports/missed.zip").status_code == 400
    assert exporting(app).get("/exports/cdrs.zip").status_code == 400
