"""Caddy and nginx with the files of deploy/proxies, on loopback.

Only addresses, ports, certificates and log files are replaced.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from tests.deploy.debian_tools import find_tool
from tests.support.certificates import write_certificate
from tests.support.harness import ROOT, Process, free_port, wait_for

HOST = "calls.example.com"
FOLDER = ROOT / "deploy" / "proxies"
PASSWORD = "quiet-lamp-seven-rivers"
EMAIL = "ann@example.com"
FORGED = (
    "X-Forwarded-For: 203.0.113.9\nX-Real-IP: 203.0.113.9\nForwarded: for=203.0.113.9\n"
    "X-Forwarded-Proto: http\nX-Forwarded-Host: evil.example.com"
)


class Proxy:
    """A running proxy, or Switchroom with HTTPS of its own.

    `connect` opens a connection to it as a client of `HOST`.
    """

    def __init__(self, port: int, context: ssl.SSLContext, log_path: Path) -> None:
        self.port, self.log_path = port, log_path
        self.context = context

    def connect(self) -> ssl.SSLSocket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        return self.context.wrap_socket(connection, server_hostname=HOST)

    def exchange(self, text: str, body: bytes = b"") -> tuple[int, http.client.HTTPMessage, bytes]:
        """Send a request line with headers. Returns status, headers and body.

        The headers Host and Connection, and the length of `body`, are added.
        """
        lines = [*text.splitlines(), f"Host: {HOST}:{self.port}", "Connection: close"]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        with self.connect() as connection:
            connection.sendall("\r\n".join([*lines, "", ""]).encode())
            # A server may refuse a large body before it has read it.
            with contextlib.suppress(OSError):
                connection.sendall(body)
            response = http.client.HTTPResponse(connection)
            response.begin()
            return response.status, response.headers, response.read()


def replace_once(text: str, old: str, new: str) -> str:
    """Replace `old`, which the file must contain."""
    assert old in text, f"the file has no {old!r}"
    return text.replace(old, new)


def write_caddyfile(folder: Path, upstream_port: int, port: int) -> list[str]:
    """Write the Caddyfile for loopback. Returns the command of Caddy."""
    text = (FOLDER / "Caddyfile").read_text()
    text = replace_once(
        text,
        f"{HOST} {{",
        f"https://{HOST}:{port} {{\n\tbind 127.0.0.1\n\ttls {folder}/cert.pem {folder}/key.pem",
    )
    text = replace_once(text, "127.0.0.1:8000", f"127.0.0.1:{upstream_port}")
    text = replace_once(text, "/var/log/caddy/switchroom.log", f"{folder}/access.log")
    path = folder / "Caddyfile"
    text = replace_once(
        text, "\tgrace_period 5s\n", "\tgrace_period 1s\n\tadmin off\n\tauto_https disable_redirects\n"
    )
    path.write_text(text)
    return [find_tool("caddy"), "run", "--config", str(path), "--adapter", "caddyfile"]


def write_nginx(folder: Path, upstream_port: int, port: int) -> list[str]:
    """Write the configuration of nginx for loopback. Returns the command of nginx."""
    site = (FOLDER / "nginx.conf").read_text()
    site = replace_once(site, "listen 80;", f"listen 127.0.0.1:{free_port()};")
    site = replace_once(site, "listen 443 ssl http2;", f"listen 127.0.0.1:{port} ssl http2;")
    site = replace_once(
        replace_once(site, "    listen [::]:80;\n", ""), "    listen [::]:443 ssl http2;\n", ""
    )
    site = replace_once(site, f"/etc/letsencrypt/live/{HOST}/fullchain.pem", f"{folder}/cert.pem")
    site = replace_once(site, f"/etc/letsencrypt/live/{HOST}/privkey.pem", f"{folder}/key.pem")
    site = replace_once(site, "/var/log/nginx/switchroom.log", f"{folder}/access.log")
    site = replace_once(site, "server 127.0.0.1:8000;", f"server 127.0.0.1:{upstream_port};")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "\n".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    path = folder / "nginx.conf"
    path.write_text(
        f"user root; daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1;\n"
        "worker_rlimit_nofile 8192; events { worker_connections 4096; }\n"
        f"http {{\naccess_log off;\n{paths}\n{site}\n}}\n"
    )
    return [find_tool("nginx"), "-p", str(folder), "-e", f"{folder}/error.log", "-c", str(path)]


@contextmanager
def run_proxy(kind: str, folder: Path, upstream_port: int, port: int) -> Iterator[Proxy]:
    """Run `caddy` or `nginx` on `port` until the end of the block."""
    context = write_certificate(folder, HOST)
    write = {"caddy": write_caddyfile, "nginx": write_nginx}[kind]
    process = Process(write(folder, upstream_port, port), {"HOME": str(folder), "XDG_DATA_HOME": str(folder)})
    proxy = Proxy(port, context, folder / "access.log")

    def is_listening() -> bool:
        assert process.popen.poll() is None, process.output
        proxy.connect().close()
        return True

    try:
        wait_for(is_listening, f"{kind}")
        yield proxy
    finally:
        process.stop()


def log_in(proxy: Proxy) -> str:
    """Log in through the proxy with forged headers.

    Returns the session cookie.
    """
    _, headers, page = proxy.exchange(f"GET /login HTTP/1.1\n{FORGED}")
    cookie = headers["Set-Cookie"].split(";")[0]
    (token,) = re.findall(rb'name="csrf_token" value="([^"]+)"', page)[:1]
    form = urlencode({"email": EMAIL, "password": PASSWORD, "csrf_token": token.decode()})
    status, headers, _ = proxy.exchange(
        f"POST /login HTTP/1.1\nCookie: {cookie}\nOrigin: https://{HOST}:{proxy.port}\n"
        f"Content-Type: application/x-www-form-urlencoded\n{FORGED}",
        form.encode(),
    )
    assert status in (302, 303)
    # The name has the prefix only if Switchroom sees HTTPS, whatever the client sends.
    (session,) = [value for value in headers.get_all("Set-Cookie", []) if value.startswith("__Host-session=")]
    assert {"Secure", "HttpOnly", "Path=/"} <= set(session.split("; "))
    return session.split(";")[0]


def verify_live_stream(proxy: Proxy, cookie: str, send_webhook: Callable[[], None]) -> None:
    """Check that an open live stream receives an event, and a heartbeat without one.

    A proxy that buffers would send both with the end of the stream, which stays open here.
    """
    with proxy.connect() as stream:
        stream.sendall(
            f"GET /live/stream HTTP/1.1\r\nHost: {HOST}:{proxy.port}\r\nCookie: {cookie}\r\n\r\n".encode()
        )
        received = b""
        while b"\r\n\r\n" not in received:
            received += stream.recv(4096)
        assert b"200 OK" in received
        assert b"text/event-stream" in received
        send_webhook()
        for event in (b"event: call", b"event: beat"):
            while event not in received:
                chunk = stream.recv(4096)
                assert chunk, received
                received += chunk
