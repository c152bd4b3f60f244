"""Data directory with databases and an archive, and commands run as processes."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from integration.app_schema import open_app_db
from integration.inbox.store import Inbox
from integration.mirror.schema import open_mirror
from tests.support.harness import ROOT, make_environment


@dataclass
class DataDir:
    """Data directory as `serve` creates it. `run` starts a command on it."""

    folder: Path

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    def __post_init__(self) -> None:
        self.data_dir.mkdir(mode=0o700)
        open_app_db(self.data_dir / "house.db").close()
        open_mirror(self.data_dir / "mirror.db").close()
        Inbox(self.data_dir / "inbox.db").close()
        (self.data_dir / "webhook-secret").write_text("s" * 43 + "\n")
        (self.data_dir / "account.json").write_text('{"base_url": "x", "account": "1000001"}\n')

    def receive(self, number: int) -> None:
        """Store `number` webhooks in the inbox without applying them."""
        inbox = Inbox(self.data_dir / "inbox.db")
        for acknowledgement in [inbox.receive(webhook(n)) for n in range(number)]:
            acknowledgement.result(30)
        inbox.close()

    def record(self, number: int, content: bytes, kind: str = "recording") -> Path:
        """Add a file to the archive, with its row in `media`.

        Returns its path.
        """
        folder = {"recording": "recordings", "voicemail": "voicemail"}[kind]
        path = f"{folder}/2026/03/01/{number}.mp3"
        file = self.data_dir / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        mirror = open_mirror(self.data_dir / "mirror.db")
        mirror.write(
            lambda tx: tx.execute(
                "INSERT INTO media (kind, record_id, path, size, sha256, state, updated_at) "
                "VALUES (?, ?, ?, ?, ?, 'have', '2026-03-01 12:00:00')",
                (kind, number, path, len(content), hashlib.sha256(content).hexdigest()),
            )
        )
        mirror.close()
        return file

    def environment(self, **settings: str) -> dict[str, str]:
        """Environment variables of a command; `section__key` adds one setting."""
        return make_environment(self.data_dir, **settings)

    def run(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("SWITCHROOM_")}
        return subprocess.run(
            [sys.executable, ROOT / "app.py", *arguments],
            cwd=self.folder,
            env={**kept, **self.environment(**settings)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


def webhook(number: int) -> bytes:
    return json.dumps({
        "id": f"test.{number}",
        "event_name": "call.ringing",
        "event_time": "2026-03-01 12:00:00",
        "call_id": 4_300_000_000 + number,
        "src": "442079460001",
        "dst": "442079460002",
    }).encode()  # fmt: skip


def query_database(path: Path, sql: str) -> list[tuple]:
    """Rows of a database, which is opened read-only.

    Its writer may be running.
    """
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        return connection.execute(sql).fetchall()


@pytest.fixture
def home(tmp_path):
    return DataDir(tmp_path)
