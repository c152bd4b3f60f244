"""Deliveries to a local mail server, a local HTTP server and folders."""

from __future__ import annotations

import io
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from integration.exports import delivery, jobs
from integration.exports.delivery import normalize_place
from integration.outbound import mail_server
from integration.outbound.mail_server import MailServer
from integration.outbound.public_addresses import PublicHosts
from integration.outbound.upload import UploadFailed, upload_file
from integration.settings.model import Settings, load
from tests.support.application import DEFAULTS
from tests.support.clock import Clock
from tests.support.mail_server import running_mail_server
from tests.support.scheduled_exports import ScheduledExports
from tests.support.scripted_server import Server

CANARY = "canary-password"
LOCAL = PublicHosts(("127.0.0.1",))


def make_due(exporting: ScheduledExports) -> None:
    """Make the export of 18 November complete and due."""
    exporting.put_cdrs("2026-11-18 10:00:00")
    exporting.clock.set("2026-11-19 01:31:00")
    exporting.finish_sync()


def smtp(port: int, *, starttls: bool = False, **more: str) -> dict[str, str]:
    """Settings of a local mail server.

    With `starttls` its setting keeps the default.
    """
    settings = {"smtp__host": "127.0.0.1", "smtp__port": str(port), "smtp__from": "calls@example.com"}
    return {**settings, **({} if starttls else {"smtp__starttls": "false"}), **more}


def load_settings(data_dir: Path, **changed: str) -> Settings:
    values = {**DEFAULTS, "storage__data_dir": str(data_dir), **changed}
    return load(None, {f"SWITCHROOM_{key.upper()}": value for key, value in values.items()})


# --- e-mail ----------------------------------------------------------------------------------------------


def test_a_mail_server_entered_after_the_start_is_used(make_exporting: Any) -> None:
    exporting = make_exporting()
    schedule = exporting.schedule(target="email", place="ann@example.com")
    make_due(exporting)
    exporting.deliver()
    assert "Settings › Connection" in exporting.attempts(schedule)[0][2]
    with running_mail_server() as mail:
        entered = MailServer("127.0.0.1", mail.port, "", "switchroom", CANARY, "calls@example.com")
        mail_server.save(exporting.app_db, entered)
        jobs.request_redelivery(exporting.app_db, schedule.id, "2026-11-18")
        exporting.deliver()
        (letter,) = mail.letters
    assert letter["From"] == "calls@example.com"
    with exporting.app_db.read() as connection:
        rows = connection.execute("SELECT * FROM export_attempts").fetchall()
    assert CANARY not in repr([tuple(row) for row in rows])


def test_mail_has_the_file_and_describes_it(make_exporting: Any) -> None:
    with running_mail_server() as mail:
        exporting = make_exporting(**smtp(mail.port))
        exporting.schedule("Tägliche Anrufe", target="email", place="ann@example.com bob@example.org")
        make_due(exporting)
        exporting.deliver()
        (letter,) = mail.letters
    assert letter["Subject"] == "Tägliche Anrufe, 18 November 2026"
    assert letter["To"] == "ann@example.com, bob@example.org"
    assert (letter["From"], letter["Auto-Submitted"]) == ("calls@example.com", "auto-generated")
    (attached,) = letter.iter_attachments()
    assert attached.get_filename() == "tägliche-anrufe-2026-11-18.csv"
    assert attached.get_content_type() == "text/csv"
    assert b"2026-11-18 11:00:00" in attached.get_payload(decode=True)
    assert "1 row in tägliche-anrufe-2026-11-18.csv" in letter.get_body().get_content()


def test_mail_repeated_after_a_crash_has_the_same_message_id(
    make_exporting: Any, movable_clock: Clock
) -> None:
    with running_mail_server() as mail:
        exporting = make_exporting(**smtp(mail.port))
        schedule = exporting.schedule(target="email", place="ann@example.com")
        make_due(exporting)
        exporting.crash_after_delivery()
        exporting.restart()
        movable_clock.advance(minutes=2)
        exporting.deliver()
        first, second = mail.letters
        assert first["Message-ID"] == second["Message-ID"]
        jobs.request_redelivery(exporting.app_db, schedule.id, "2026-11-18")
        exporting.deliver()
        assert mail.letters[2]["Message-ID"] != first["Message-ID"], "a user requested another delivery"


def test_mail_requires_starttls_with_a_trusted_certificate(
    make_exporting: Any, movable_clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with running_mail_server(tls=context) as mail:
        exporting = make_exporting(
            **smtp(mail.port, starttls=True, smtp__user="switchroom", smtp__password=CANARY)
        )
        schedule = exporting.schedule(target="email", place="ann@example.com")
        make_due(exporting)
        exporting.deliver()
        assert mail.letters == []
        assert "certificate" in exporting.attempts(schedule)[0][2].lower()
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        movable_clock.advance(hours=1)
        exporting.deliver()
        assert len(mail.letters) == 1
    with running_mail_server() as plain:
        exporting = make_exporting(**smtp(plain.port, starttls=True))
        schedule = exporting.schedule(target="email", place="ann@example.com")
        exporting.finish_sync()
        movable_clock.set("2026-11-20 01:31:00")
        exporting.finish_sync()
        exporting.deliver()
        assert plain.letters == [], "no mail is sent without encryption"


def test_rejected_password_is_reported_without_its_value(
    make_exporting: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with running_mail_server() as mail:
        exporting = make_exporting(
            **smtp(mail.port, smtp__user="switchroom", smtp__password="canary-wrong-password")
        )
        schedule = exporting.schedule(target="email", place="ann@example.com")
        make_due(exporting)
        exporting.deliver()
    assert mail.letters == []
    assert "refuses the user name or the password" in exporting.attempts(schedule)[0][2]
    assert (
        "canary" not in f"{exporting.attempts(schedule)} {caplog.text} {exporting.runner.describe_failures()}"
    )


def test_refused_recipient_does_not_repeat_the_mail_to_others(make_exporting: Any) -> None:
    with running_mail_server(refuse="gone@") as mail:
        exporting = make_exporting(**smtp(mail.port))
        schedule = exporting.schedule(target="email", place="ann@example.com gone@example.com")
        make_due(exporting)
        exporting.deliver()
        exporting.deliver()
    assert len(mail.letters) == 1
    ((_, state, result),) = exporting.attempts(schedule)
    assert state == "delivered"
    assert "gone@example.com (550 no such mailbox)" in result


def test_file_too_large_for_mail_does_not_block_the_next_period(
    make_exporting: Any, movable_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_mail_server() as mail:
        exporting = make_exporting(**smtp(mail.port))
        schedule = exporting.schedule(target="email", place="ann@example.com")
        exporting.put_cdrs("2026-11-18 10:00:00", "2026-11-18 10:00:01")
        monkeypatch.setattr(delivery, "MAX_MAIL_BYTES", 40)
        movable_clock.set("2026-11-20 01:31:00")
        exporting.finish_sync()
        exporting.deliver()
    assert [line[:2] for line in exporting.attempts(schedule)] == [
        ("2026-11-18", "failed"),
        ("2026-11-19", "delivered"),
    ]


# --- HTTP ------------------------------------------------------------------------------------------------


def test_put_names_the_file_by_its_period(
    make_exporting: Any, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    exporting = make_exporting()
    place = f"{server.url}/drop/box/?sig=canary-query"
    schedule = exporting.schedule(target="put", place=place, secret="Bearer canary-token")
    make_due(exporting)
    exporting.deliver()
    (request,) = server.requests
    assert (request.method, request.path) == ("PUT", "/drop/box/every-day-2026-11-18.csv")
    assert request.query == {"sig": ["canary-query"]}
    assert request.headers["Authorization"] == "Bearer canary-token"
    assert request.headers["X-Export-Rows"] == "1"
    assert request.headers["X-Export-Complete"] == "true"
    assert int(request.headers["Content-Length"]) == len(request.body) == 42
    shown = f"{exporting.attempts(schedule)} {caplog.text} {schedule.display_place}"
    assert "canary" not in shown


def test_untrusted_certificate_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server = Server(context)
    server.routes["*"] = lambda request, reply: reply.content(b"", "text/plain", 200)
    try:
        with pytest.raises(UploadFailed, match="certificate is not trusted"):
            upload_file(f"{server.url}/a.csv", io.BytesIO(b"abc"), 3, {}, LOCAL)
        assert server.requests == []
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert upload_file(f"{server.url}/a.csv", io.BytesIO(b"abc"), 3, {}, LOCAL) == 200
        assert [request.body for request in server.requests] == [b"abc"]
    finally:
        server.close()


def test_redirects_are_not_followed(make_exporting: Any, server: Server) -> None:
    exporting = make_exporting()
    server.routes["*"] = lambda request, reply: reply.content(
        b"", "text/plain", 307, {"Location": f"{server.url}/elsewhere"}
    )
    schedule = exporting.schedule(target="put", place=server.url, secret="Bearer canary-token")
    make_due(exporting)
    exporting.deliver()
    assert [request.path for request in server.requests] == ["/every-day-2026-11-18.csv"]
    assert "redirects are not followed" in exporting.attempts(schedule)[0][2]


def test_slow_server_is_abandoned_at_the_deadline(server: Server) -> None:
    server.routes["*"] = lambda request, reply: reply.raw(b"HTTP/1.1 2") or server.stopping.wait(5)
    with pytest.raises(UploadFailed, match="in time"):
        upload_file(server.url, io.BytesIO(b"x"), 1, {}, LOCAL, seconds=0.2)


@pytest.mark.parametrize(
    "url",
    [
        "http://files.example.com/in", "http://192.0.2.7/", "ftp://files.example.com/", "https://", "/in",
        "https://ann:secret@files.example.com/", "https://files.example.com/a b", "https://files.example.com:0/",
        "https://files.example.com/\r\nX: y",
    ],
)  # fmt: skip
def test_unsafe_upload_url_is_rejected(url: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="URL"):
        normalize_place(load_settings(tmp_path), None, "put", url)


# --- folders ---------------------------------------------------------------------------------------------


def test_folder_must_be_below_the_export_folder(make_exporting: Any, tmp_path: Path) -> None:
    exporting = make_exporting(exports__folder=str(tmp_path / "allowed"))
    assert normalize_place(exporting.context.settings, None, "folder", " daily//calls/ ") == "daily/calls"
    for place in ("../x", "/etc", "a/../../b", ".hidden", "a\\b", "a\nb"):
        with pytest.raises(ValueError, match="folder"):
            normalize_place(exporting.context.settings, None, "folder", place)
    schedule = exporting.schedule(place="out/here")
    (tmp_path / "allowed").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "allowed" / "out").symlink_to(tmp_path / "elsewhere")
    make_due(exporting)
    exporting.deliver()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert "is not below" in exporting.attempts(schedule)[0][2]
    (tmp_path / "allowed" / "out").unlink()
    jobs.save_schedule(exporting.app_db, schedule)
    exporting.deliver()
    assert [path.name for path in (tmp_path / "allowed/out/here").iterdir()] == ["every-day-2026-11-18.csv"]


def test_symbolic_link_in_the_folder_is_not_followed(make_exporting: Any, tmp_path: Path) -> None:
    exporting = make_exporting()
    schedule = exporting.schedule()
    (exporting.data_dir / "exports").mkdir()
    (tmp_path / "victim").write_text("untouched")
    (exporting.data_dir / "exports" / ".every-day-2026-11-18.csv.part").symlink_to(tmp_path / "victim")
    make_due(exporting)
    exporting.deliver()
    assert (tmp_path / "victim").read_text() == "untouched"
    assert "cannot be written" in exporting.attempts(schedule)[0][2]


def test_mail_needs_a_server_and_addresses(tmp_path: Path) -> None:
    settings = load_settings(tmp_path)
    with pytest.raises(ValueError, match="Settings › Connection"):
        normalize_place(settings, None, "email", "ann@example.com")
    server = MailServer("mail.example.com", 25, "", None, None, "calls@example.com")
    assert normalize_place(settings, server, "email", "ann@example.com; bob@example.org") == (
        "ann@example.com bob@example.org"
    )
    for place in ("", "nobody", "a@b <c@example.com>", "x@example.com\r\nBcc: y@example.com z"):
        with pytest.raises(ValueError, match="address"):
            normalize_place(settings, server, "email", place)
