"""PostgreSQL of Debian in a temporary folder, on a socket without a port."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.deploy.debian_tools import find_tool
from tests.support.harness import wait_for

USER = "postgres"


@contextmanager
def running_postgresql() -> Iterator[str]:
    """Run a server with an empty database. Yields its URL.

    PostgreSQL refuses to run as root, so root starts it as the user `postgres` of Debian's package.
    """
    programs = Path(find_tool("initdb")).resolve().parent
    folder = Path(tempfile.mkdtemp(prefix="postgresql-"))
    owner = USER if os.getuid() == 0 else None
    try:
        if owner:
            shutil.chown(folder, owner)
        options = ["--pgdata", folder / "data", "--username", USER, "--auth", "trust", "--no-sync"]
        subprocess.run(
            [programs / "initdb", *options],
            check=True, capture_output=True, cwd=folder, user=owner, timeout=120,
        )  # fmt: skip
        settings = {"listen_addresses": "", "unix_socket_directories": folder, "fsync": "off"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [programs / "postgres", "-D", folder / "data", *options],
                stdout=log, stderr=log, cwd=folder, user=owner,
            )  # fmt: skip
        try:
            socket = folder / ".s.PGSQL.5432"
            wait_for(lambda: socket.exists() or server.poll() is not None, "the socket of PostgreSQL")
            assert server.poll() is None, (folder / "log").read_text()
            yield f"postgresql://{USER}:unused@localhost/{USER}?host={folder}"
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)
    finally:
        shutil.rmtree(folder)
