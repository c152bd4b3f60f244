"""Files from the archive, and a user's CDRs as CSV."""

from __future__ import annotations

import csv
import hashlib
import io
from pathlib import Path

import pytest

from integration.mirror.sync_state import media_files
from integration.sqlite.transaction import Transaction
from tests.support.application import TestApp
from tests.support.fake_exchange import read_fixture
from tests.support.harness import wait_for

SOUND = b"\xff\xfb" + bytes(range(256)) * 40
RECORD = {"id": 1052000001, "timestamp": "2026-09-02 08:45:55", "size": len(SOUND)}
URL = "/monitors/1052000001.mp3"


def archive(app: TestApp, content: bytes = SOUND) -> Path:
    """Put the file of RECORD into the archive, as the download does."""
    app.put("monitors", RECORD)
    file = media_files.MediaFile(
        "recording", 1052000001, "recordings/2026/09/02/1052000001.mp3", len(content), 0
    )
    path = app.context.settings.storage.data_dir / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)

    def work(tx: Transaction) -> None:
        media_files.mark_present(tx, file, len(content), hashlib.sha256(content).hexdigest())

    app.mirror_db.write(work)
    return path


def offer(app: TestApp, content: bytes = SOUND) -> None:
    """Let the platform serve the file of RECORD."""
    app.platform.routes[URL] = lambda request, reply: reply.content(content, "audio/mpeg3")


def test_recording_is_served_from_the_archive(app: TestApp) -> None:
    archive(app)
    response = app.get(URL)
    assert response.status_code == 200
    assert response.content_type == "audio/mpeg"
    assert response.data == SOUND
    assert int(response.headers["Content-Length"]) == len(SOUND)
    assert response.headers["Accept-Ranges"] == "bytes"
    assert response.headers["ETag"] == f'"{hashlib.sha256(SOUND).hexdigest()}"'
    unchanged = app.get(URL, {**app.headers, "If-None-Match": response.headers["ETag"]})
    assert (unchanged.status_code, unchanged.data) == (304, b"")
    assert app.platform.requests == []


@pytest.mark.parametrize(
    ("range_header", "status", "span"),
    [
        ("bytes=0-99", 206, slice(0, 100)),
        ("bytes=100-", 206, slice(100, None)),
        ("bytes=-5", 206, slice(-5, None)),
        ("bytes=-999999", 206, slice(None)),
        ("bytes=-0", 416, slice(0, 0)),
        ("bytes=999999-", 416, slice(0, 0)),
    ],
)
def test_range_request_returns_the_range_or_416(
    app: TestApp, range_header: str, status: int, span: slice
) -> None:
    archive(app)
    response = app.get(URL, {**app.headers, "Range": range_header})
    assert response.status_code == status
    if status == 206:
        assert response.data == SOUND[span]
        assert response.headers["Content-Range"].endswith(f"/{len(SOUND)}")


def test_recording_without_a_mirrored_record_is_requested_with_its_record(app: TestApp) -> None:
    app.platform.respond("/monitors/1052000001", {"data": RECORD, "links": {}})
    offer(app)
    assert app.get(URL).data == SOUND
    assert app.get("/monitors/5.mp3").status_code == 404
    app.platform.fail()
    assert app.get("/monitors/6.mp3").status_code == 502
    assert app.get(URL).data == SOUND


def test_file_missing_on_the_platform_is_404_as_json(app: TestApp) -> None:
    app.put("monitors", RECORD)
    assert app.get(URL).status_code == 404
    assert app.get(URL).json["errors"] == []


def test_a_symbolic_link_in_the_archive_is_not_followed(app: TestApp, tmp_path: Path) -> None:
    path = archive(app)
    path.unlink()
    secret = tmp_path / "secret"
    secret.write_text("hidden")
    path.symlink_to(secret)
    response = app.get(URL)
    assert response.status_code == 404, "the platform has no such file"
    assert b"hidden" not in response.data


def test_a_day_folder_that_is_a_symbolic_link_is_not_followed(app: TestApp, tmp_path: Path) -> None:
    folder = archive(app, b"hidden").parent
    inside = folder.parent / "03"
    for target in (tmp_path / "elsewhere", inside):
        folder.rename(target)
        folder.symlink_to(target)
        response = app.get(URL)
        assert response.status_code == 404, "the platform has no such file"
        assert b"hidden" not in response.data
        offer(app)
        assert app.get(URL).data == SOUND, "passed through"
        assert [path.read_bytes() for path in target.iterdir()] == [b"hidden"], "nothing is written there"
        app.platform.routes.pop(URL)
        folder.unlink()
        target.rename(folder)


def test_an_archive_on_another_disk_is_served(app: TestApp, tmp_path: Path) -> None:
    archive(app)
    data_dir = app.context.settings.storage.data_dir
    (data_dir / "recordings").rename(tmp_path / "larger disk")
    (data_dir / "recordings").symlink_to(tmp_path / "larger disk")
    try:
        assert app.get(URL).data == SOUND
        assert app.platform.requests == []
    finally:
        (data_dir / "recordings").unlink()


def test_key_with_user_scope_gets_only_recordings_of_that_user(app: TestApp) -> None:
    archive(app)
    app.put("monitors", {**RECORD, "user_id": 8})
    assert app.get(URL, app.add_key("mine", user=7)).status_code == 404
    assert app.get(URL, app.add_key("theirs", user=8)).status_code == 200


def test_csv_of_a_user_has_only_that_users_cdrs_and_that_of_an_unknown_user_is_404(app: TestApp) -> None:
    cdr = read_fixture("response-cdrs-list-200")["data"][0]
    app.put("cdrs", {**cdr, "id": 1, "user_id": 7}, {**cdr, "id": 2, "user_id": 8})
    response = app.get("/users/7/cdrs.csv")
    assert response.content_type == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(response.data.decode(), newline="")))
    assert [row["id"] for row in rows] == ["1"]
    assert rows[0]["calldate"] == cdr["calldate"]
    assert response.headers["X-Export-Rows"] == "1"
    assert response.headers["X-Mirror-Complete"] == "true"
    assert 0 <= int(response.headers["X-Mirror-Age"]) < 60
    head = app.client.head(f"{app.base}/users/7/cdrs.csv", headers=app.headers)
    assert (head.headers["X-Export-Rows"], head.data) == ("1", b"")
    app.put("users", {"id": 7})
    for user_id, status in (("7", 200), ("8", 404), ("99999999999999999999", 404)):
        assert app.get(f"/users/{user_id}/cdrs.csv").status_code == status


CDR = read_fixture("response-cdrs-list-200")["data"][0]


class TestTraces:
    """`.trace` and `.pcap` files, downloaded into the archive."""

    @pytest.mark.parametrize(
        ("collection", "ending", "content", "kind"),
        [
            ("cdrs", "trace", b"INVITE sip:1001@example.com SIP/2.0\r\n", "text/plain; charset=utf-8"),
            ("cdrs", "pcap", b"\xa1\xb2\xc3\xd4" + SOUND, "application/vnd.tcpdump.pcap"),
            ("msdrs", "trace", b"BYE sip:1001@example.com SIP/2.0\r\n", "text/plain; charset=utf-8"),
            ("msdrs", "pcap", b"\xd4\xc3\xb2\xa1" + SOUND, "application/vnd.tcpdump.pcap"),
        ],
    )
    def test_trace_is_downloaded_once_and_archived(
        self, app: TestApp, collection: str, ending: str, content: bytes, kind: str
    ) -> None:
        app.put(collection, {**CDR, "id": 7, "created_at": "2026-09-02 08:45:55"})
        url = f"/{collection}/7.{ending}"
        app.platform.routes[url] = lambda request, reply: reply.content(content, "application/octet-stream")
        response = app.get(url)
        assert (response.status_code, response.content_type, response.data) == (200, kind, content)
        assert app.platform.count(url) == 1
        app.platform.fail()
        second = app.get(url, {**app.headers, "Range": "bytes=0-3"})
        assert (second.status_code, second.data) == (206, content[:4])

    def test_trace_that_is_json_is_passed_through(self, app: TestApp) -> None:
        app.put("cdrs", CDR)
        url = f"/cdrs/{CDR['id']}.trace"
        app.platform.respond(url, {"data": [{"method": "INVITE"}]})
        assert app.get(url).json == {"data": [{"method": "INVITE"}]}


def find_state(app: TestApp) -> str:
    with app.mirror_db.read() as connection:
        return str(media_files.state(connection, "fax", 7)["state"])


class TestFaxes:
    """`/faxes/{id}.pdf`, which the specification lacks."""

    PDF = b"%PDF-1.4\n" + SOUND + b"\n%%EOF\n"

    @pytest.fixture
    def app(self, app: TestApp) -> TestApp:
        app.platform.routes["/faxes/7.pdf"] = lambda request, reply: reply.content(
            self.PDF, "application/pdf"
        )
        return app

    def test_fax_is_downloaded_once_and_readable_during_an_outage(self, app: TestApp) -> None:
        app.put("faxes", {"id": 7, "created_at": "2026-09-02 08:45:55"})
        response = app.get("/faxes/7.pdf")
        assert (response.status_code, response.content_type, response.data) == (
            200,
            "application/pdf",
            self.PDF,
        )
        wait_for(lambda: find_state(app) == "have", "the file in the table")
        app.platform.fail()
        second = app.get("/faxes/7.pdf", {**app.headers, "Range": "bytes=0-3"})
        assert second.headers["ETag"] == f'"{hashlib.sha256(self.PDF).hexdigest()}"'
        assert (second.status_code, second.data) == (206, b"%PDF")

    def test_fax_without_a_mirrored_record_is_passed_through(self, app: TestApp) -> None:
        assert app.get("/faxes/7.pdf").data == self.PDF
        assert app.get("/faxes/8.pdf").status_code == 404
        assert app.get("/faxes/7.pdf", app.add_key("limited", collections=["sms"])).status_code == 403
        assert app.get("/faxes/7.pdf", app.add_key("mine", user=7)).status_code == 403


def test_file_is_passed_through_if_the_archive_cannot_store_it(own_app: TestApp, tmp_path: Path) -> None:
    own_app.put("monitors", RECORD)
    offer(own_app)
    (tmp_path / "recordings").write_text("a file where the folder of the archive would be")
    response = own_app.get(URL)
    assert (response.status_code, response.data) == (200, SOUND)
