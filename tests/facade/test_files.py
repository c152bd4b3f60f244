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
from flask import Flask

from integration.access import audit
from integration.core.errors import PlatformRefused, StorageFull
from integration.core.health import Health
from integration.exports.formats import csv as exported
from integration.exports.query import TRUNCATION_MARKER
from integration.facade.blueprint import make_blueprint
from integration.mirror.calls.store import CallStore
from integration.mirror.sync_state import media_files
from integration.sqlite.transaction import Transaction
from integration.sync.context import StandaloneSyncContext
from integration.sync.files import download
from tests.support.applications.facade_app import USER, Room, sample, says

SOUND = bytes(range(256)) * 40
RECORD = {"id": 1052000001, "timestamp": "2026-09-02 08:45:55", "size": len(SOUND)}
URL = "/monitors/1052000001.mp3"


def archive(room: Room, content: bytes = SOUND) -> Path:
    """Put the file of RECORD into the archive, as the download does."""
    room.put("monitors", RECORD)
    file = media_files.MediaFile(
        "recording", 1052000001, "recordings/2026/09/02/1052000001.mp3", len(content), 0
    )
    path = room.context.settings.storage.data_dir / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)

    def work(tx: Transaction) -> None:
        media_files.mark_present(tx, file, len(content), hashlib.sha256(content).hexdigest())

    room.mirror_db.write(work)
    return path


def fetching(room: Room, fetch: Any) -> None:
    """The same facade with something that fetches."""
    app = Flask(__name__)
    app.register_blueprint(make_blueprint(room.context, fetch))
    room.client = app.test_client()


def test_a_recording_comes_from_the_archive(room: Room) -> None:
    archive(room)
    answer = room.get(URL)
    assert answer.status_code == 200
    assert answer.content_type == "audio/mpeg"
    assert answer.data == SOUND
    assert int(answer.headers["Content-Length"]) == len(SOUND)
    assert answer.headers["Accept-Ranges"] == "bytes"
    assert answer.headers["ETag"] == f'"{hashlib.sha256(SOUND).hexdigest()}"'
    assert room.server.asked == []


@pytest.mark.parametrize(
    ("wanted", "status", "span"),
    [
        ("bytes=0-99", 206, slice(0, 100)),
        ("bytes=100-", 206, slice(100, None)),
        ("bytes=-5", 206, slice(-5, None)),
        ("bytes=999999-", 416, slice(0, 0)),
    ],
)
def test_parts_of_it_can_be_asked_for(room: Room, wanted: str, status: int, span: slice) -> None:
    archive(room)
    answer = room.get(URL, {**room.headers, "Range": wanted})
    assert answer.status_code == status
    if status == 206:
        assert answer.data == SOUND[span]
        assert answer.headers["Content-Range"].endswith(f"/{len(SOUND)}")


def test_who_got_a_recording_is_noted_once_for_a_listening(room: Room) -> None:
    archive(room)
    room.get(URL, {**room.headers, "Range": "bytes=0-99"})
    room.get(URL, {**room.headers, "Range": "bytes=100-"})
    room.client.head(room.base + URL, headers=room.headers)
    room.get("/monitors/5.mp3")
    room.get(URL, room.key("other", collections=["cdrs"]))
    noted = [entry for entry in audit.list_newest(room.app_db) if entry.what.startswith("fetched")]
    assert [(entry.who, entry.what, entry.about) for entry in noted] == [
        ("key tests", "fetched recording", "1052000001")
    ]


def test_who_has_it_already_is_told_so(room: Room) -> None:
    archive(room)
    tag = room.get(URL).headers["ETag"]
    answer = room.get(URL, {**room.headers, "If-None-Match": tag})
    assert (answer.status_code, answer.data) == (304, b"")


def test_what_is_missing_is_fetched_and_sent(room: Room, tmp_path: Path) -> None:
    room.put("monitors", RECORD)
    asked = []

    def fetch(kind: str, number: int) -> Path:
        asked.append((kind, number))
        return archive(room)

    fetching(room, fetch)
    assert room.get(URL).data == SOUND
    assert room.get(URL).data == SOUND
    assert asked == [("recording", 1052000001)]


def test_a_recording_that_was_never_heard_of_is_learnt_of_first(room: Room) -> None:
    room.server.routes[f"{room.base}/monitors/1052000001"] = says({"data": RECORD, "links": {}})
    fetching(room, lambda kind, number: archive(room))
    assert room.get(URL).data == SOUND
    assert room.get("/monitors/5.mp3").status_code == 404
    room.away()
    assert room.get("/monitors/6.mp3").status_code == 502
    assert room.get(URL).data == SOUND


def test_what_can_not_be_fetched_says_why_in_json(room: Room) -> None:
    room.put("monitors", RECORD)

    def fetch(kind: str, number: int) -> Path:
        raise PlatformRefused("no recording 5 is mirrored", status=404)

    fetching(room, fetch)
    assert room.get(URL).status_code == 404
    assert room.get(URL).json["errors"] == []


def test_a_symbolic_link_in_the_archive_is_not_followed(room: Room, tmp_path: Path) -> None:
    path = archive(room)
    path.unlink()
    secret = tmp_path / "secret"
    secret.write_text("hidden")
    path.symlink_to(secret)
    answer = room.get(URL)
    assert answer.status_code == 502
    assert b"hidden" not in answer.data


def test_a_key_for_one_user_hears_only_that_users_recordings(room: Room) -> None:
    archive(room)
    room.put("monitors", {**RECORD, "user_id": 8})
    assert room.get(URL, room.key("mine", user=7)).status_code == 403
    assert room.get(URL, room.key("theirs", user=8)).status_code == 200


def test_another_platform_user_hears_what_the_platform_lets_them(room: Room) -> None:
    archive(room)
    room.server.routes[room.base + URL] = lambda asked, reply: reply.json(
        {"message": "no", "errors": []}, 403
    )
    assert room.get(URL, {"X-Auth-Token": USER}).status_code == 403


def test_a_users_cdrs_come_as_csv(room: Room) -> None:
    cdr = sample("response-cdrs-list-200")["data"][0]
    room.put("cdrs", {**cdr, "id": 1, "user_id": 7}, {**cdr, "id": 2, "user_id": 8})
    answer = room.get("/users/7/cdrs.csv")
    assert answer.content_type == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(answer.data.decode(), newline="")))
    assert [row["id"] for row in rows] == ["1"]
    assert rows[0]["calldate"] == cdr["calldate"]
    assert answer.headers["X-Export-Rows"] == "1"
    assert answer.headers["X-Mirror-Complete"] == "true"
    assert 0 <= int(answer.headers["X-Mirror-Age"]) < 60
    head = room.client.head(f"{room.base}/users/7/cdrs.csv", headers=room.headers)
    assert (head.headers["X-Export-Rows"], head.data) == ("1", b"")


def test_the_csv_leaves_while_it_is_made_and_says_so_where_it_broke_off(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chunks(*_: Any, **__: Any) -> Iterator[bytes]:
        yield b'"id"\r\n'
        yield b"1\r\n"
        raise sqlite3.DatabaseError("the disk failed")

    room.put("cdrs", {**CDR, "id": 1, "user_id": 7})
    monkeypatch.setattr(exported, "chunks", chunks)
    answer = room.get("/users/7/cdrs.csv")
    body = iter(answer.response)
    assert [next(body), next(body)] == [b'"id"\r\n', b"1\r\n"]
    assert list(body) == [TRUNCATION_MARKER]
    answer.close()


CDR = sample("response-cdrs-list-200")["data"][0]


class TestTraces:
    """`.trace` and `.pcap` through the archive's own download."""

    @pytest.fixture
    def room(self, room: Room) -> Room:
        gear = StandaloneSyncContext(
            room.context.settings, room.mirror_db, room.platform, Health(), CallStore()
        )
        fetching(room, lambda kind, number: download.fetch(gear, kind, number))
        return room

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
        self, room: Room, collection: str, ending: str, content: bytes, kind: str
    ) -> None:
        room.put(collection, {**CDR, "id": 7, "created_at": "2026-09-02 08:45:55"})
        url = f"/{collection}/7.{ending}"
        room.server.routes[room.base + url] = lambda asked, reply: reply.content(
            content, "application/octet-stream"
        )
        answer = room.get(url)
        assert (answer.status_code, answer.content_type, answer.data) == (200, kind, content)
        assert room.asked(url) == 1
        room.away()
        again = room.get(url, {**room.headers, "Range": "bytes=0-3"})
        assert (again.status_code, again.data) == (206, content[:4])

    def test_a_cdr_and_a_media_session_of_the_same_id_have_their_own(self, room: Room) -> None:
        for collection in ("cdrs", "msdrs"):
            room.put(collection, {**CDR, "id": 7})
            room.server.routes[f"{room.base}/{collection}/7.trace"] = lambda asked, reply, of=collection: (
                reply.content(of.encode(), "text/plain")
            )
        assert [room.get(f"/{name}/7.trace").data for name in ("cdrs", "msdrs", "cdrs")] == [
            b"cdrs",
            b"msdrs",
            b"cdrs",
        ]

    def test_a_trace_that_is_json_is_passed_on(self, room: Room) -> None:
        room.put("cdrs", CDR)
        url = f"/cdrs/{CDR['id']}.trace"
        room.server.routes[room.base + url] = says({"data": [{"method": "INVITE"}]})
        assert room.get(url).json == {"data": [{"method": "INVITE"}]}

    def test_what_the_platform_does_not_have_is_404(self, room: Room) -> None:
        room.put("cdrs", CDR)
        assert room.get(f"/cdrs/{CDR['id']}.pcap").status_code == 404
        assert room.get("/cdrs/5.pcap").status_code == 404


class TestFaxes:
    """`/faxes/{id}.pdf`, which the specification lacks."""

    PDF = b"%PDF-1.4\n" + SOUND + b"\n%%EOF\n"

    @pytest.fixture
    def room(self, room: Room) -> Room:
        gear = StandaloneSyncContext(
            room.context.settings, room.mirror_db, room.platform, Health(), CallStore()
        )
        fetching(room, lambda kind, number: download.fetch(gear, kind, number))
        room.server.routes[f"{room.base}/faxes/7.pdf"] = lambda asked, reply: reply.content(
            self.PDF, "application/pdf"
        )
        return room

    def test_one_is_fetched_once_kept_and_read_on_while_the_platform_is_away(self, room: Room) -> None:
        room.put("faxes", {"id": 7, "created_at": "2026-09-02 08:45:55"})
        answer = room.get("/faxes/7.pdf")
        assert (answer.status_code, answer.content_type, answer.data) == (200, "application/pdf", self.PDF)
        assert answer.headers["ETag"] == f'"{hashlib.sha256(self.PDF).hexdigest()}"'
        room.away()
        again = room.get("/faxes/7.pdf", {**room.headers, "Range": "bytes=0-3"})
        assert (again.status_code, again.data) == (206, b"%PDF")
        assert [entry.what for entry in audit.list_newest(room.app_db)] == ["fetched fax"] * 2

    def test_one_that_no_list_showed_is_passed_through(self, room: Room) -> None:
        assert room.get("/faxes/7.pdf").data == self.PDF
        assert room.get("/faxes/8.pdf").status_code == 404
        assert room.get("/faxes/7.pdf", room.key("limited", collections=["sms"])).status_code == 403
        assert room.get("/faxes/7.pdf", room.key("mine", user=7)).status_code == 403


def test_what_can_not_be_kept_here_is_passed_on(room: Room) -> None:
    def fetch(kind: str, number: int) -> Path:
        raise StorageFull("the disk is full")

    room.put("monitors", RECORD)
    room.server.routes[room.base + URL] = lambda asked, reply: reply.content(SOUND, "audio/mpeg3")
    fetching(room, fetch)
    answer = room.get(URL)
    assert (answer.status_code, answer.data) == (200, SOUND)


def test_the_csv_of_a_user_who_does_not_exist_is_404(room: Room) -> None:
    room.put("cdrs", CDR)
    room.put("users", {"id": 7})
    assert room.get("/users/7/cdrs.csv").status_code == 200
    assert room.get("/users/8/cdrs.csv").status_code == 404
    assert room.get("/users/99999999999999999999/cdrs.csv").status_code == 404
