"""Where schedules deliver to: a real mail server, a real HTTP server, real folders."""

from __future__ import annotations

import io
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme

from integration.exports import deliveries, delivery, schedules
from integration.exports.delivery import DeliveryFailed, OutgoingFile, normalize_place
from integration.outbound.upload import UploadFailed, upload_file
from tests.support.applications.export_schedules import Clock, Room, mailroom
from tests.support.scripted_server import Server

CANARY = "canary-password"


@pytest.fixture
def rooms(tmp_path: Path, time: Clock) -> Iterator[Any]:
    """Makes a room in which 18 November is complete and due, with these settings."""
    made: list[Room] = []

    def make(**sections: Any) -> Room:
        room = Room(tmp_path / str(len(made)), time, **sections)
        made.append(room)
        return room

    def due(room: Room) -> None:
        room.cdrs("2026-11-18 10:00:00")
        time.set("2026-11-19 01:31:00")
        room.walked()

    make.due = due  # type: ignore[attr-defined]
    for number in range(3):
        (tmp_path / str(number)).mkdir()
    yield make
    for room in made:
        room.close()


def smtp(port: int, **more: Any) -> dict[str, Any]:
    return {"host": "127.0.0.1", "port": port, "from": "calls@example.com", "starttls": False, **more}


# --- e-mail ----------------------------------------------------------------------------------------------


def test_a_letter_has_the_file_and_says_what_it_is(rooms: Any) -> None:
    with mailroom() as mail:
        room = rooms(smtp=smtp(mail.port))
        room.schedule("Tägliche Anrufe", target="email", place="ann@example.com bob@example.org")
        rooms.due(room)
        room.deliver()
        (letter,) = mail.letters
    assert letter["Subject"] == "Tägliche Anrufe, 18 November 2026"
    assert letter["To"] == "ann@example.com, bob@example.org"
    assert (letter["From"], letter["Auto-Submitted"]) == ("calls@example.com", "auto-generated")
    (attached,) = letter.iter_attachments()
    assert attached.get_filename() == "tägliche-anrufe-2026-11-18.csv"
    assert attached.get_content_type() == "text/csv"
    assert b"2026-11-18 11:00:00" in attached.get_payload(decode=True)
    assert "1 row in tägliche-anrufe-2026-11-18.csv" in letter.get_body().get_content()


def test_sent_again_after_a_crash_it_has_the_same_message_id(rooms: Any, time: Clock) -> None:
    with mailroom() as mail:
        room = rooms(smtp=smtp(mail.port))
        schedule = room.schedule(target="email", place="ann@example.com")
        rooms.due(room)
        room.crash_after_delivery()
        room.restart()
        time.on(minutes=2)
        room.deliver()
        first, second = mail.letters
        assert first["Message-ID"] == second["Message-ID"]
        deliveries.request_redelivery(room.app_db, schedule.id, "2026-11-18")
        room.deliver()
        assert mail.letters[2]["Message-ID"] != first["Message-ID"], "a person asked for another one"


def test_starttls_is_demanded_and_its_certificate_checked(
    rooms: Any, time: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with mailroom(tls=context) as mail:
        room = rooms(smtp=smtp(mail.port, starttls=None, user="switchroom", password=CANARY))
        schedule = room.schedule(target="email", place="ann@example.com")
        rooms.due(room)
        room.deliver()
        assert mail.letters == []
        assert "certificate" in room.log(schedule)[0][2].lower()
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        time.on(hours=1)
        room.deliver()
        assert len(mail.letters) == 1
    with mailroom() as plain:
        room = rooms(smtp=smtp(plain.port, starttls=None))
        schedule = room.schedule(target="email", place="ann@example.com")
        room.walked()
        time.set("2026-11-20 01:31:00")
        room.walked()
        room.deliver()
        assert plain.letters == [], "without encryption nothing is sent"


def test_a_wrong_password_is_told_without_it(rooms: Any, caplog: pytest.LogCaptureFixture) -> None:
    with mailroom() as mail:
        room = rooms(smtp=smtp(mail.port, user="switchroom", password="canary-of-another-kind"))
        schedule = room.schedule(target="email", place="ann@example.com")
        rooms.due(room)
        room.deliver()
    assert mail.letters == []
    assert "smtp.password" in room.log(schedule)[0][2]
    assert "canary" not in f"{room.log(schedule)} {caplog.text} {room.schedules.describe_failures()}"


def test_who_is_refused_does_not_make_the_others_get_it_twice(rooms: Any) -> None:
    with mailroom(refuse="gone@") as mail:
        room = rooms(smtp=smtp(mail.port))
        schedule = room.schedule(target="email", place="ann@example.com gone@example.com")
        rooms.due(room)
        room.deliver()
        room.deliver()
    assert len(mail.letters) == 1
    ((_, state, result),) = room.log(schedule)
    assert state == "delivered"
    assert "gone@example.com (550 nobody here)" in result


def test_a_file_too_large_for_mail_holds_up_no_other(
    rooms: Any, time: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mailroom() as mail:
        room = rooms(smtp=smtp(mail.port))
        schedule = room.schedule(target="email", place="ann@example.com")
        room.cdrs("2026-11-18 10:00:00", "2026-11-18 10:00:01")
        monkeypatch.setattr(delivery, "MAX_MAIL_BYTES", 40)
        time.set("2026-11-20 01:31:00")
        room.walked()
        room.deliver()
    assert [line[:2] for line in room.log(schedule)] == [
        ("2026-11-18", "failed"),
        ("2026-11-19", "delivered"),
    ]


# --- HTTP ------------------------------------------------------------------------------------------------


def test_put_names_the_file_by_its_period(
    rooms: Any, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    room = rooms()
    place = f"{server.url}/drop/box/?sig=canary-query"
    schedule = room.schedule(target="put", place=place, secret="Bearer canary-token")
    rooms.due(room)
    room.deliver()
    (request,) = server.requests
    assert (request.method, request.path) == ("PUT", "/drop/box/every-day-2026-11-18.csv")
    assert request.query == {"sig": ["canary-query"]}
    assert request.headers["Authorization"] == "Bearer canary-token"
    assert request.headers["X-Export-Rows"] == "1"
    assert request.headers["X-Export-Complete"] == "true"
    assert int(request.headers["Content-Length"]) == len(request.body) == 42
    told = f"{room.log(schedule)} {caplog.text} {schedule.display_place}"
    assert "canary" not in told


def test_https_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server = Server(context)
    server.routes["*"] = lambda request, reply: reply.content(b"", "text/plain", 200)
    try:
        with pytest.raises(UploadFailed, match="certificate is not trusted"):
            upload_file(f"{server.url}/a.csv", io.BytesIO(b"abc"), 3, {})
        assert server.requests == []
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert upload_file(f"{server.url}/a.csv", io.BytesIO(b"abc"), 3, {}) == 200
        assert [request.body for request in server.requests] == [b"abc"]
    finally:
        server.close()


def test_redirects_are_not_followed(rooms: Any, server: Server) -> None:
    room = rooms()
    server.routes["*"] = lambda request, reply: reply.content(
        b"", "text/plain", 307, {"Location": f"{server.url}/elsewhere"}
    )
    schedule = room.schedule(target="put", place=server.url, secret="Bearer canary-token")
    rooms.due(room)
    room.deliver()
    assert [request.path for request in server.requests] == ["/every-day-2026-11-18.csv"]
    assert "redirects are not followed" in room.log(schedule)[0][2]


def test_who_takes_the_file_by_drops_is_left_at_the_deadline(server: Server) -> None:
    server.routes["*"] = lambda request, reply: reply.raw(b"HTTP/1.1 2") or server.stopping.wait(5)
    with pytest.raises(UploadFailed, match="in time"):
        upload_file(server.url, io.BytesIO(b"x"), 1, {}, seconds=0.2)


@pytest.mark.parametrize(
    "url",
    [
        "http://files.example.com/in", "http://192.0.2.7/", "ftp://files.example.com/", "https://", "/in",
        "https://ann:secret@files.example.com/", "https://files.example.com/a b", "https://files.example.com:0/",
        "https://files.example.com/\r\nX: y",
    ],
)  # fmt: skip
def test_addresses_that_nothing_is_put_to(rooms: Any, url: str) -> None:
    with pytest.raises(ValueError, match="address"):
        normalize_place(rooms().settings, "put", url)


# --- folders ---------------------------------------------------------------------------------------------


def test_a_folder_is_below_the_allowed_one(rooms: Any, tmp_path: Path) -> None:
    room = rooms(exports={"folder": tmp_path / "allowed"})
    assert normalize_place(room.settings, "folder", " daily//calls/ ") == "daily/calls"
    for place in ("../x", "/etc", "a/../../b", ".hidden", "a\\b", "a\nb"):
        with pytest.raises(ValueError, match="folder"):
            normalize_place(room.settings, "folder", place)
    schedule = room.schedule(place="out/here")
    (tmp_path / "allowed").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "allowed" / "out").symlink_to(tmp_path / "elsewhere")
    rooms.due(room)
    room.deliver()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert "has to be below" in room.log(schedule)[0][2]
    (tmp_path / "allowed" / "out").unlink()
    schedules.change(room.app_db, schedule)
    room.deliver()
    assert [path.name for path in (tmp_path / "allowed/out/here").iterdir()] == ["every-day-2026-11-18.csv"]


def test_a_link_in_the_folder_is_not_followed(rooms: Any, tmp_path: Path) -> None:
    room = rooms()
    schedule = room.schedule()
    (room.folder / "exports").mkdir()
    (tmp_path / "victim").write_text("untouched")
    (room.folder / "exports" / ".every-day-2026-11-18.csv.part").symlink_to(tmp_path / "victim")
    rooms.due(room)
    room.deliver()
    assert (tmp_path / "victim").read_text() == "untouched"
    assert "can't be written" in room.log(schedule)[0][2]


def test_a_file_appears_under_its_name_only_whole(rooms: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    room = rooms()
    schedule = replace(room.schedule(), place="")

    class Breaks(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell():
                raise OSError(5, "Input/output error")
            return super().read(10)

        def seek(self, *_: int) -> int:
            return 0

    parcel = OutgoingFile(Breaks(b"x" * 100), "a.csv", 100, 1, "2026-11-18", "", None, 0)
    with pytest.raises(DeliveryFailed, match="can't be written"):
        delivery.deliver(room.settings, schedule, parcel)
    assert list((room.folder / "exports").iterdir()) == []


def test_mail_needs_a_server_and_addresses(rooms: Any) -> None:
    with pytest.raises(ValueError, match=r"smtp\.host"):
        normalize_place(rooms().settings, "email", "ann@example.com")
    room = rooms(smtp=smtp(25))
    assert normalize_place(room.settings, "email", "ann@example.com; bob@example.org") == (
        "ann@example.com bob@example.org"
    )
    for place in ("", "nobody", "a@b <c@example.com>", "x@example.com\r\nBcc: y@example.com z"):
        with pytest.raises(ValueError, match="address"):
            normalize_place(room.settings, "email", place)
