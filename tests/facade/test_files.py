"""Recordings and voicemail from the archive, a user's CDRs as CSV."""

from __future__ import annotations

import csv
import hashlib
import io
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.access import audit
from integration.exports.formats import csv as exported
from integration.exports.query import TRUNCATION_MARKER
from integration.mirror.sync_state import media_files
from integration.sqlite.transaction import Transaction
from tests.support.application import TestApp
from tests.support.fake_exchange import USER, read_fixture
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
    """Let the platform have the file of RECORD."""
    app.platform.routes[URL] = lambda request, reply: reply.content(content, "audio/mpeg3")


def test_a_recording_comes_from_the_archive(app: TestApp) -> None:
    archive(app)
    answer = app.get(URL)
    assert answer.status_code == 200
    assert answer.content_type == "audio/mpeg"
    assert answer.data == SOUND
    assert int(answer.headers["Content-Length"]) == len(SOUND)
    assert answer.headers["Accept-Ranges"] == "bytes"
    assert answer.headers["ETag"] == f'"{hashlib.sha256(SOUND).hexdigest()}"'
    assert app.platform.requests == []


@pytest.mark.parametrize(
    ("wanted", "status", "span"),
    [
        ("bytes=0-99", 206, slice(0, 100)),
        ("bytes=100-", 206, slice(100, None)),
        ("bytes=-5", 206, slice(-5, None)),
        ("bytes=999999-", 416, slice(0, 0)),
    ],
)
def test_parts_of_it_can_be_asked_for(app: TestApp, wanted: str, status: int, span: slice) -> None:
    archive(app)
    answer = app.get(URL, {**app.headers, "Range": wanted})
    assert answer.status_code == status
    if status == 206:
        assert answer.data == SOUND[span]
        assert answer.headers["Content-Range"].endswith(f"/{len(SOUND)}")


def test_who_got_a_recording_is_noted_once_for_a_listening(app: TestApp) -> None:
    archive(app)
    app.get(URL, {**app.headers, "Range": "bytes=0-99"})
    app.get(URL, {**app.headers, "Range": "bytes=100-"})
    app.client.head(app.base + URL, headers=app.headers)
    app.get("/monitors/5.mp3")
    app.get(URL, app.add_key("other", collections=["cdrs"]))
    noted = [entry for entry in audit.list_newest(app.app_db) if entry.what.startswith("fetched")]
    assert [(entry.who, entry.what, entry.about) for entry in noted] == [
        ("key tests", "fetched recording", "1052000001")
    ]


def test_who_has_it_already_is_told_so(app: TestApp) -> None:
    archive(app)
    tag = app.get(URL).headers["ETag"]
    answer = app.get(URL, {**app.headers, "If-None-Match": tag})
    assert (answer.status_code, answer.data) == (304, b"")


def test_what_is_missing_is_fetched_and_sent(app: TestApp) -> None:
    app.put("monitors", RECORD)
    offer(app)
    assert app.get(URL).data == SOUND
    assert app.get(URL).data == SOUND
    assert app.platform.count(URL) == 1


def test_a_recording_that_was_never_heard_of_is_learnt_of_first(app: TestApp) -> None:
    app.platform.respond("/monitors/1052000001", {"data": RECORD, "links": {}})
    offer(app)
    assert app.get(URL).data == SOUND
    assert app.get("/monitors/5.mp3").status_code == 404
    app.platform.fail()
    assert app.get("/monitors/6.mp3").status_code == 502
    assert app.get(URL).data == SOUND


def test_what_can_not_be_fetched_says_why_in_json(app: TestApp) -> None:
    app.put("monitors", RECORD)
    assert app.get(URL).status_code == 404
    assert app.get(URL).json["errors"] == []


def test_a_symbolic_link_in_the_archive_is_not_followed(app: TestApp, tmp_path: Path) -> None:
    path = archive(app)
    path.unlink()
    secret = tmp_path / "secret"
    secret.write_text("hidden")
    path.symlink_to(secret)
    answer = app.get(URL)
    assert answer.status_code == 404, "the platform does not have it"
    assert b"hidden" not in answer.data


def test_a_key_for_one_user_hears_only_that_users_recordings(app: TestApp) -> None:
    archive(app)
    app.put("monitors", {**RECORD, "user_id": 8})
    assert app.get(URL, app.add_key("mine", user=7)).status_code == 403
    assert app.get(URL, app.add_key("theirs", user=8)).status_code == 200


def test_another_platform_user_hears_what_the_platform_lets_them(app: TestApp) -> None:
    archive(app)
    app.platform.routes[URL] = lambda request, reply: reply.json({"message": "no", "errors": []}, 403)
    assert app.get(URL, {"X-Auth-Token": USER}).status_code == 403


def test_a_users_cdrs_come_as_csv(app: TestApp) -> None:
    cdr = read_fixture("response-cdrs-list-200")["data"][0]
    app.put("cdrs", {**cdr, "id": 1, "user_id": 7}, {**cdr, "id": 2, "user_id": 8})
    answer = app.get("/users/7/cdrs.csv")
    assert answer.content_type == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(answer.data.decode(), newline="")))
    assert [row["id"] for row in rows] == ["1"]
    assert rows[0]["calldate"] == cdr["calldate"]
    assert answer.headers["X-Export-Rows"] == "1"
    assert answer.headers["X-Mirror-Complete"] == "true"
    assert 0 <= int(answer.headers["X-Mirror-Age"]) < 60
    head = app.client.head(f"{app.base}/users/7/cdrs.csv", headers=app.headers)
    assert (head.headers["X-Export-Rows"], head.data) == ("1", b"")


def test_the_csv_leaves_while_it_is_made_and_says_so_where_it_broke_off(
    app: TestApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chunks(*_: Any, **__: Any) -> Iterator[bytes]:
        yield b'"id"\r\n'
        yield b"1\r\n"
        raise sqlite3.DatabaseError("the disk failed")

    app.put("cdrs", {**CDR, "id": 1, "user_id": 7})
    monkeypatch.setattr(exported, "chunks", chunks)
    answer = app.get("/users/7/cdrs.csv")
    body = iter(answer.response)
    assert [next(body), next(body)] == [b'"id"\r\n', b"1\r\n"]
    assert list(body) == [TRUNCATION_MARKER]
    answer.close()


CDR = read_fixture("response-cdrs-list-200")["data"][0]


class TestTraces:
    """`.trace` and `.pcap` through the archive's own download."""

    @pytest.mark.parametrize(
        ("collection", "ending", "content", "kind"),
        [
            ("cdrs", "trace", b"INVITE sip:1001@example.com SIP/2.0\r\n", "text/plain; charset=utf-8"),
            ("cdrs", "pcap", b"\xa1\xb2\xc3\xd4" + SOUND, "application/vnd.tcpdump.pcap"),
            ("msdrs", "trace", b"BYE sip:1001@example.com SIP/2.0\r\n", "text/plain; charset=utf-8"),
            ("msdrs", "pcap", b"\xd4\xc3\xb2\xa1" + SOUND, "application/vnd.tcpdump.pcap"),
        ],
    )
    def test_they_are_fetched_once_and_kept(
        self, app: TestApp, collection: str, ending: str, content: bytes, kind: str
    ) -> None:
        app.put(collection, {**CDR, "id": 7, "created_at": "2026-09-02 08:45:55"})
        url = f"/{collection}/7.{ending}"
        app.platform.routes[url] = lambda request, reply: reply.content(content, "application/octet-stream")
        answer = app.get(url)
        assert (answer.status_code, answer.content_type, answer.data) == (200, kind, content)
        assert app.platform.count(url) == 1
        app.platform.fail()
        again = app.get(url, {**app.headers, "Range": "bytes=0-3"})
        assert (again.status_code, again.data) == (206, content[:4])

    def test_a_cdr_and_a_media_session_of_the_same_id_have_their_own(self, app: TestApp) -> None:
        for collection in ("cdrs", "msdrs"):
            app.put(collection, {**CDR, "id": 7})
            app.platform.routes[f"/{collection}/7.trace"] = lambda request, reply, of=collection: (
                reply.content(of.encode(), "text/plain")
            )
        assert [app.get(f"/{name}/7.trace").data for name in ("cdrs", "msdrs", "cdrs")] == [
            b"cdrs",
            b"msdrs",
            b"cdrs",
        ]

    def test_a_trace_that_is_json_is_passed_on(self, app: TestApp) -> None:
        app.put("cdrs", CDR)
        url = f"/cdrs/{CDR['id']}.trace"
        app.platform.respond(url, {"data": [{"method": "INVITE"}]})
        assert app.get(url).json == {"data": [{"method": "INVITE"}]}

    def test_what_the_platform_does_not_have_is_404(self, app: TestApp) -> None:
        app.put("cdrs", CDR)
        assert app.get(f"/cdrs/{CDR['id']}.pcap").status_code == 404
        assert app.get("/cdrs/5.pcap").status_code == 404


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

    def test_one_is_fetched_once_kept_and_read_on_while_the_platform_is_away(self, app: TestApp) -> None:
        app.put("faxes", {"id": 7, "created_at": "2026-09-02 08:45:55"})
        answer = app.get("/faxes/7.pdf")
        assert (answer.status_code, answer.content_type, answer.data) == (200, "application/pdf", self.PDF)
        wait_for(lambda: find_state(app) == "have", "the file in the table")
        app.platform.fail()
        again = app.get("/faxes/7.pdf", {**app.headers, "Range": "bytes=0-3"})
        assert again.headers["ETag"] == f'"{hashlib.sha256(self.PDF).hexdigest()}"'
        assert (again.status_code, again.data) == (206, b"%PDF")
        assert [entry.what for entry in audit.list_newest(app.app_db)] == ["fetched fax"] * 2

    def test_one_that_no_list_showed_is_passed_through(self, app: TestApp) -> None:
        assert app.get("/faxes/7.pdf").data == self.PDF
        assert app.get("/faxes/8.pdf").status_code == 404
        assert app.get("/faxes/7.pdf", app.add_key("limited", collections=["sms"])).status_code == 403
        assert app.get("/faxes/7.pdf", app.add_key("mine", user=7)).status_code == 403


def test_what_can_not_be_kept_here_is_passed_on(app: TestApp, tmp_path: Path) -> None:
    app.put("monitors", RECORD)
    offer(app)
    (tmp_path / "recordings").write_text("a file where the folder of the archive would be")
    answer = app.get(URL)
    assert (answer.status_code, answer.data) == (200, SOUND)


def test_the_csv_of_a_user_who_does_not_exist_is_404(app: TestApp) -> None:
    app.put("cdrs", CDR)
    app.put("users", {"id": 7})
    assert app.get("/users/7/cdrs.csv").status_code == 200
    assert app.get("/users/8/cdrs.csv").status_code == 404
    assert app.get("/users/99999999999999999999/cdrs.csv").status_code == 404
