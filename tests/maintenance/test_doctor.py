"""`doctor`: line, advice and exit status of each fault."""

from __future__ import annotations

import base64
import os
import ssl
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from click.testing import CliRunner

from integration.cli.doctor import command
from integration.core import process_lock
from tests.support.scripted_server import Handler, Server

RECEIVER = f"/webhooks/{'s' * 43}"


def make_platform(tls: ssl.SSLContext | None = None) -> Server:
    """Start a platform that accepts the credentials of `home`, an administrator."""
    server = Server(tls)
    expected = "Basic " + base64.b64encode(f"1000001:{'0' * 40}".encode()).decode()

    def require_credentials(body: object) -> Handler:
        def respond(request, reply):
            if request.headers["Authorization"] == expected:
                reply.json(body)
            else:
                reply.json({"message": "Unauthorized", "errors": []}, 401)

        return respond

    server.respond("*", {"message": "Not found", "errors": []}, 404)
    server.routes["/v1.2/ping"] = require_credentials({"message": "Pong"})
    me = {"id": 1000001, "email": "ann@example.com", "is_root": True}
    server.routes["/v1.2/me"] = require_credentials({"data": me, "links": {}})
    return server


@pytest.fixture
def platform():
    server = make_platform()
    yield server
    server.close()


@pytest.fixture
def public(certificates, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")
    server = Server(context)
    server.respond("*", {"message": "Not found", "errors": []}, 404)
    server.respond(RECEIVER, {"status": "ready"})
    yield server
    server.close()


@pytest.fixture
def doctor(home, platform, public):
    """Function that runs the command and returns (lines by subject, exit status).

    Without settings no check fails. `process=True` runs it as a process.
    """
    (home.data_dir / "account.json").unlink()

    def run(*arguments, process=False, **settings):
        good = {"platform__base_url": platform.url + "/v1.2", "server__public_url": public.url}
        settings = {**good, **settings}
        if process:
            done = home.run("doctor", *arguments, **settings)
            status = done.returncode
        else:
            done = CliRunner().invoke(command, arguments, env=home.environment(**settings))
            status = done.exit_code
            assert done.exception is None or isinstance(done.exception, SystemExit)
        lines = {}
        for line in done.stdout.splitlines():
            about, _, text = line[6:].partition(": ")
            lines.setdefault(about, (line[:5].strip(), text))
        assert "0" * 40 not in done.stdout + done.stderr
        assert "s" * 43 not in done.stdout + done.stderr
        return lines, status

    return run


def test_a_healthy_installation_passes_all_checks(doctor, home):
    with process_lock.acquire(home.data_dir, "serve"):
        lines, status = doctor(process=True)
    assert status == 0
    levels = {about: level for about, (level, _) in lines.items() if about not in ("SQLite", "disk")}
    assert levels == dict.fromkeys(
        [
            "configuration",
            "data_dir",
            "process",
            "house.db",
            "mirror.db",
            "inbox.db",
            "platform",
            "clock",
            "credentials",
            "public address",
        ],
        "ok",
    )
    assert "`switchroom serve`" in lines["process"][1]


def test_invalid_settings_exit_with_2(doctor, tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_text('[platform]\nbase_url = "ftp://example.com"\n[server]\nprot = 1\n')
    lines, status = doctor("--config", str(path), platform__base_url="ftp://example.com")
    assert status == 2
    assert lines["configuration"][0] == "fail"


def test_credentials_of_another_user_than_an_administrator_cause_a_warning(doctor, platform):
    platform.respond("/v1.2/me", {"data": {"id": 1, "is_root": "0"}, "links": {}})
    lines, status = doctor()
    assert status == 0
    assert lines["credentials"][0] == "warn"


@pytest.mark.parametrize(
    ("seconds", "level", "direction"),
    [(60, "warn", "behind"), (-60, "warn", "ahead"), (-9000, "fail", "ahead")],
)
def test_a_clock_difference_causes_a_warning_or_fails(doctor, platform, seconds, level, direction):
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)
    head = f"HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Length: 2\r\n\r\n{{}}"
    platform.routes["/v1.2/ping"] = lambda _, reply: reply.raw(head.encode())
    lines, status = doctor()
    assert lines["clock"][0] == level
    assert direction in lines["clock"][1]
    assert status == (level == "fail")


def test_data_of_another_account_fails(doctor, home):
    (home.data_dir / "account.json").write_text('{"base_url": "https://api.example.com", "account": "7"}')
    lines, status = doctor()
    assert status == 1
    assert "holds account 7" in lines["account"][1]


def test_a_data_dir_that_cannot_be_written_fails(doctor):
    lines, status = doctor(storage__data_dir="/proc/switchroom")
    assert status == 1
    assert lines["data_dir"][0] == "fail"


def test_doctor_leaves_no_file_behind(doctor, home):
    before = {path.name for path in home.data_dir.iterdir()}
    doctor()
    # SQLite creates and keeps -wal and -shm files for readers.
    after = {path.name for path in home.data_dir.iterdir() if not path.name.endswith(("-wal", "-shm"))}
    assert after == before


def test_a_data_dir_with_access_for_others_causes_a_warning(doctor, home):
    home.data_dir.chmod(0o755)
    lines, _ = doctor()
    assert lines["data_dir"][0] == "warn"
    assert "chmod 700" in lines["data_dir"][1]


def test_a_database_that_no_start_recorded_is_created_by_the_next_one(doctor, home):
    (home.data_dir / "house.db").unlink()
    lines, status = doctor()
    assert status == 0
    assert lines["house.db"][0] == "warn"
    assert "the next `switchroom serve` creates it" in lines["house.db"][1]
    assert "backup" not in lines["house.db"][1]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("house.db", "copy house.db from the newest backup"),
        ("inbox.db", "reports which are lost"),
        ("mirror.db", "builds a new one"),
    ],
)
@pytest.mark.parametrize("is_emptied", [True, False])
def test_a_database_that_was_created_and_is_lost_fails(doctor, home, name, advice, is_emptied):
    (home.data_dir / "databases-created").write_text("2026-09-02 12:00:00\n")
    (home.data_dir / name).unlink(missing_ok=True)
    if is_emptied:
        (home.data_dir / name).touch()
    lines, status = doctor()
    assert status == 1
    assert lines[name][0] == "fail"
    assert ("has 0 bytes" if is_emptied else "is missing") in lines[name][1]
    assert advice in lines[name][1]


def test_an_unused_folder_is_not_created(doctor, tmp_path):
    lines, _ = doctor(storage__data_dir=str(tmp_path / "fresh"))
    assert lines["data_dir"][0] == "ok"
    assert "not checked" in lines["public address"][1]
    assert not (tmp_path / "fresh").exists()


class TestPublicAddress:
    def line(self, doctor, **settings):
        lines, status = doctor(**settings)
        level, text = lines["public address"]
        assert (level == "fail") == (status == 1)
        return level, text

    def test_no_url_causes_a_warning(self, doctor):
        assert self.line(doctor, server__public_url="")[0] == "warn"

    def test_a_refused_connection_fails(self, doctor):
        url = "https://127.0.0.1:9"
        assert self.line(doctor, server__public_url=url) == (
            "fail",
            f"{url}: it refuses connections; check DNS, firewall and proxy",
        )

    def test_an_untrusted_certificate_fails(self, doctor, monkeypatch):
        monkeypatch.setenv("SSL_CERT_FILE", os.devnull)
        level, text = self.line(doctor)
        assert level == "fail"
        assert "its certificate is not trusted: its authority is unknown" in text
        assert "use a certificate of a public one" in text

    @pytest.mark.parametrize(
        ("status", "body", "advice"),
        [
            (200, b"<html>Welcome to nginx</html>", "another program responds"),
            (404, b'{"message": "Not found", "errors": []}', "another program responds"),
            (502, b"Bad Gateway", "check that `switchroom serve` runs"),
            (301, b"", "redirect"),
            (401, b"{}", "webhooks.username"),
        ],
    )
    def test_another_response_fails_with_advice(self, doctor, public, status, body, advice):
        public.routes[RECEIVER] = lambda _, reply: reply.content(body, "text/html", status)
        level, text = self.line(doctor)
        assert level == "fail"
        assert advice in text

    def test_a_list_of_senders_without_the_own_address_causes_a_warning(self, doctor, public):
        del public.routes[RECEIVER]
        assert self.line(doctor, webhooks__allow_from="192.0.2.0/24")[0] == "warn"

    def test_basic_credentials_are_sent(self, doctor, public):
        expected = "Basic " + base64.b64encode(b"platform:secret words").decode()
        public.routes[RECEIVER] = lambda request, reply: reply.json(
            {"status": "ready"}, 200 if request.headers["Authorization"] == expected else 401
        )
        level, _ = self.line(doctor, webhooks__username="platform", webhooks__password="secret words")
        assert level == "ok"

    def test_plain_http_causes_a_warning(self, doctor, platform):
        platform.respond(RECEIVER, {"status": "ready"})
        level, text = self.line(doctor, server__public_url=platform.url)
        assert level == "warn"
        assert "not HTTPS" in text
