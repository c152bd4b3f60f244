"""Simulator process: printed lines, HTTPS, SIGTERM, start errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
import requests
import trustme

COMMAND = [sys.executable, "-c", "from integration.cli import main; main()", "simulator", "--cdrs", "100"]


@pytest.fixture
def launch():
    started: list[subprocess.Popen] = []

    def start(*arguments: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def read_printed_lines(process: subprocess.Popen) -> dict[str, str]:
    assert process.stdout
    lines = [process.stdout.readline().strip() for _ in range(6)]
    return dict(line.split(": ", 1) for line in lines)


def test_the_process_prints_its_url_and_credentials_and_ends_on_sigterm(launch):
    process = launch("--port", "0")
    printed = read_printed_lines(process)
    url = printed["Simulator"]
    assert url.startswith("http://127.0.0.1:")
    assert url.endswith("/v1.2")
    login = {"email": printed["Administrator"], "password": printed["Password"]}
    assert requests.post(url + "/login", json=login, timeout=30).json()["user_id"] == int(printed["User id"])
    assert (
        requests.get(url + "/me", headers={"X-Auth-Token": printed["API key"]}, timeout=30).status_code == 200
    )
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def test_the_process_serves_https(launch, tmp_path):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    printed = read_printed_lines(
        launch(
            "--no-traffic", "--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem")
        )
    )
    assert printed["Simulator"].startswith("https://")
    response = requests.get(
        printed["Simulator"] + "/cdrs?limit=100",
        headers={"X-Auth-Token": printed["API key"]},
        verify=str(tmp_path / "ca.pem"),
        timeout=30,
    )
    assert response.json()["total"] > 50


def test_a_taken_port_and_invalid_options_are_errors_of_one_line(launch):
    first = launch("--no-traffic")
    port = read_printed_lines(first)["Simulator"].rsplit(":", 1)[1].split("/")[0]
    for arguments, status in ((["--port", port], 1), (["--faults", "nonsense"], 2), (["--speed", "0"], 2)):
        process = launch(*arguments)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == status, errors
        assert len(errors.strip().splitlines()) == 1
