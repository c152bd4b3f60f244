"""Faults for `doctor`: each ends in a sentence with what to do.

`serve` has the same conditions of a start.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
from click.testing import CliRunner

from integration.cli import group
from integration.core import clock
from integration.core.errors import ConfigurationError
from integration.maintenance import start_conditions
from integration.settings.model import Settings
from tests.maintenance.test_doctor import make_platform
from tests.support.harness import NOWHERE

AUTHORITY = trustme.CA()
ADVICE: dict[str, tuple[str, str, str]] = {
    "port taken": (
        "port",
        "fail",
        "is in use by another program. Stop that program, or choose another server.port.",
    ),
    "metrics port taken": (
        "port",
        "fail",
        "is in use by another program. Stop that program, or choose another port in server.metrics_listen.",
    ),
    "key of another certificate": ("certificate", "fail", "set both to files of the same certificate"),
    "encrypted key": ("certificate", "fail", "decrypt it: openssl pkey -in"),
    "no certificate": ("certificate", "fail", "contains no certificate in PEM form; use the PEM file"),
    "missing extra": ("alerts", "fail", "pip install apprise; or remove alerts.urls"),
    "mail without a server": ("configuration", "fail", "smtp.host: is required if smtp.from is set; set it"),
    "authority file without certificates": ("platform.ca_file", "fail", "use the file of the authority"),
    "clock never set": ("clock", "fail", "synchronize it by NTP (timedatectl set-ntp true)"),
    "private authority": ("platform", "fail", "set platform.ca_file to its certificate"),
    "https to a plain server": ("platform", "fail", "plain HTTP on this port; correct the port in"),
    "http to a TLS server": ("platform", "fail", "begin platform.base_url with https://"),
    "unknown host": ("platform", "fail", "cannot be resolved; check platform.base_url and DNS"),
    "refused connection": ("platform", "fail", "refuses connections; check platform.base_url"),
    "wrong version segment": ("platform", "fail", "check platform.base_url, including its version segment"),
    "wrong key": ("credentials", "fail", "check platform.user_id and platform.api_key"),
}
"""Subject, level and end of the line of each fault. The setup of each is in `settings_of`."""


@contextmanager
def run_server(context: ssl.SSLContext | None = None) -> Iterator[int]:
    """Run a platform; yields its port."""
    server = make_platform(context)
    try:
        yield int(server.url.rpartition(":")[2])
    finally:
        server.close()


def issue(folder: Path, *names: str) -> dict[str, str]:
    """Issue a certificate; returns the settings of the server."""
    issued = AUTHORITY.issue_cert(*names)
    folder.mkdir(exist_ok=True)
    issued.private_key_pem.write_to_path(folder / "key.pem")
    issued.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    return {"server__tls_cert": str(folder / "cert.pem"), "server__tls_key": str(folder / "key.pem")}


def make_context(pair: dict[str, str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair["server__tls_cert"], pair["server__tls_key"])
    return context


@contextmanager
def settings_of(fault: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Set up a fault; yields the settings that have it."""
    pair = issue(folder / "pair", "127.0.0.1")
    authority = folder / "ca.pem"
    AUTHORITY.cert_pem.write_to_path(authority)
    match fault:
        case "port taken":
            with socket.create_server(("127.0.0.1", 0)) as other:
                yield {"server__port": str(other.getsockname()[1])}
        case "metrics port taken":
            with socket.create_server(("127.0.0.1", 0)) as other:
                yield {"server__metrics_listen": f"127.0.0.1:{other.getsockname()[1]}"}
        case "key of another certificate":
            yield pair | {"server__tls_key": issue(folder / "other", "127.0.0.1")["server__tls_key"]}
        case "encrypted key":
            (folder / "pair" / "key.pem").write_text(ENCRYPTED_KEY)
            yield pair
        case "no certificate":
            (folder / "pair" / "cert.pem").write_text("certificate")
            yield pair
        case "missing extra":
            monkeypatch.setattr(start_conditions, "find_spec", lambda _name: None)
            yield {"alerts__urls": "json://127.0.0.1"}
        case "mail without a server":
            yield {"smtp__from": "calls@example.com"}
        case "authority file without certificates":
            authority.write_text("certificate")
            yield {"platform__ca_file": str(authority)}
        case "clock never set":
            monkeypatch.setattr(clock, "now", lambda: datetime(1970, 1, 1, tzinfo=UTC))
            yield {}
        case "private authority":
            with run_server(make_context(pair)) as port:
                yield {"platform__base_url": f"https://127.0.0.1:{port}/v1.2"}
        case "https to a plain server":
            with run_server() as port:
                yield {"platform__base_url": f"https://127.0.0.1:{port}/v1.2"}
        case "http to a TLS server":
            with run_server(make_context(pair)) as port:
                yield {"platform__base_url": f"http://127.0.0.1:{port}/v1.2"}
        case "unknown host":
            yield {"platform__base_url": "https://nowhere.invalid/v1.2"}
        case "refused connection":
            yield {"platform__base_url": NOWHERE}
        case "wrong version segment":
            with run_server() as port:
                yield {"platform__base_url": f"http://127.0.0.1:{port}/v9"}
        case "wrong key":
            with run_server() as port:
                yield {"platform__base_url": f"http://127.0.0.1:{port}/v1.2", "platform__api_key": "wrong"}


def trusting(port: int, authority: Path) -> dict[str, str]:
    return {"platform__base_url": f"https://127.0.0.1:{port}/v1.2", "platform__ca_file": str(authority)}


ENCRYPTED_KEY = """\
-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAg3Dz1yGy5j4AICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEBplmtH1aUMQnCHYXEhvnqgEgZD7
9dnW28DQvTTrperlRTiWZa2bFWecfWzOqrt2r+fyx9u8stI4R16iNpLDK2KhYwY9
UgnMm2HKgk82oCosj0HymK3Hs3xfmTVNUzH1Mgr37njtNsDkI1kh1NIK5Pz2osnb
3WBBtXxkpXxCfy9pk5xeeWLWqLlmGohJqT8lqtIKssAcsQNa41TxdzvBr2RP2fk=
-----END ENCRYPTED PRIVATE KEY-----
"""
"""Key made for this test, which nothing else uses."""


@pytest.fixture
def run(home) -> Callable[..., tuple[list[str], int]]:
    """Function that runs the command; returns its lines and its exit status."""
    (home.data_dir / "account.json").unlink()

    def run(*arguments: str, **settings: str) -> tuple[list[str], int]:
        done = CliRunner().invoke(group, ["doctor", *arguments], env=home.environment(**settings))
        assert done.exception is None or isinstance(done.exception, SystemExit)
        return done.stdout.splitlines(), done.exit_code

    return run


@pytest.mark.parametrize("fault", ADVICE)
def test_each_fault_is_a_line_with_what_to_do(fault: str, run, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", os.devnull)
    subject, level, advice = ADVICE[fault]
    with settings_of(fault, tmp_path, monkeypatch) as settings:
        lines, status = run(**{"server__port": "0", **settings})
    (line,) = [line for line in lines if line[6:].startswith(f"{subject}: ") and advice in line]
    assert line.startswith(level)
    assert status == {"warn": status, "fail": 2 if subject == "configuration" else 1}[level]


def test_a_private_authority_is_trusted_for_the_platform(run, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", os.devnull)
    AUTHORITY.cert_pem.write_to_path(tmp_path / "ca.pem")
    with run_server(make_context(issue(tmp_path / "pair", "127.0.0.1"))) as port:
        lines, status = run(server__port="0", **trusting(port, tmp_path / "ca.pem"))
    assert "ok    credentials: logged in as ann@example.com, administrator" in lines
    assert status == 0


def test_the_warning_about_sqlite_is_one_line_that_states_its_meaning(run, monkeypatch) -> None:
    monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 40, 1))
    lines, _ = run(server__port="0")
    (line,) = [line for line in lines if "SQLite" in line]
    assert "Switchroom is safe: only one of its processes writes" in line
    lines, status = run("--quiet", "--accept", "sqlite, public address", server__port="0")
    assert status == 1
    assert [line[:11] for line in lines if line.startswith(("warn  SQL", "warn  pub", "ok", "fail"))] == [
        "fail  platf"
    ]


def test_json_has_each_check_and_quiet_only_problems(run) -> None:
    lines, status = run("--json", server__port="0")
    checks = json.loads("\n".join(lines))["checks"]
    assert status == 1
    assert {tuple(check) for check in checks} == {("level", "subject", "finding", "advice")}
    assert {check["subject"]: check["level"] for check in checks}["platform"] == "fail"


@pytest.mark.parametrize(
    ("fault", "error", "start"),
    [
        ("key of another certificate", ConfigurationError, "certificate: server.tls_key: "),
        ("authority file without certificates", ConfigurationError, "platform.ca_file: "),
        ("missing extra", None, "warning: alerts: alerts.urls is set, but the package apprise"),
        ("clock never set", None, "warning: clock: the clock of this host shows 1970-01-01 00:00:00 UTC"),
    ],
)
def test_serve_has_the_same_conditions(fault, error, start, home, tmp_path, monkeypatch) -> None:
    with settings_of(fault, tmp_path, monkeypatch) as changed:
        values = {"platform": {"base_url": NOWHERE, "user_id": "7", "api_key": "k"}, "storage": {}}
        values["storage"]["data_dir"] = str(home.data_dir)
        for name, value in changed.items():
            section, _, key = name.partition("__")
            values.setdefault(section, {})[key] = (value,) if key == "urls" else value
        lines: list[str] = []
        expected = nullcontext() if error is None else pytest.raises(error)
        with expected as refusal:
            start_conditions.enforce(Settings.model_validate(values), lines.append)
        lines += [] if refusal is None else refusal.value.mistakes
    assert [line for line in lines if line.startswith(start)]
