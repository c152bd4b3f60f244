"""What backup, restore and verify ask of mirror.db: the files it vouches for, the webhooks it applied."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from integration.sqlite.readers import build_readonly_uri


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A file that the archive is said to have: `path` below data_dir, `size` in bytes, `sha256` as hex."""

    kind: str
    record_id: int
    path: str
    size: int | None
    sha256: str | None


def iterate_files(connection: sqlite3.Connection) -> Iterator[ArchivedFile]:
    """Every file in state 'have'."""
    for row in connection.execute(
        "SELECT kind, record_id, path, size, sha256 FROM media WHERE state = 'have' ORDER BY kind, record_id"
    ):
        yield ArchivedFile(*row)


def is_unchanged(connection: sqlite3.Connection, file: ArchivedFile) -> bool:
    """Whether the row says the same now; a file may be replaced or removed while others are looked at."""
    row = connection.execute(
        "SELECT kind, record_id, path, size, sha256 FROM media "
        "WHERE state = 'have' AND kind = ? AND record_id = ?",
        (file.kind, file.record_id),
    ).fetchone()
    return row is not None and ArchivedFile(*row) == file


@dataclass(frozen=True, slots=True)
class UnappliedWebhooks:
    """Webhooks that were stored and not applied: how many, and the first of them."""

    count: int
    seq: int | None
    received_at: str | None


def find_unapplied_webhooks(
    connection: sqlite3.Connection, inbox_path: Path, before: str
) -> UnappliedWebhooks:
    """What inbox.db received before `before` (UTC text) and mirror.db does not say was applied."""
    with _AttachedInbox(connection, inbox_path):
        row = connection.execute(
            "SELECT count(*), min(seq), min(received_at) FROM inbox.inbox AS stored WHERE received_at < ? "
            "AND NOT EXISTS (SELECT 1 FROM main._applied AS applied WHERE applied.seq = stored.seq)",
            (before,),
        ).fetchone()
    return UnappliedWebhooks(*row)


def find_seq_beyond_inbox(connection: sqlite3.Connection, inbox_path: Path) -> int:
    """How far mirror.db is ahead of inbox.db: the highest seq applied that was never given there, or 0."""
    applied_seq = connection.execute("SELECT coalesce(max(seq), 0) FROM _applied").fetchone()[0]
    # Asked after the other: a webhook that arrives between the two is no finding.
    with _AttachedInbox(connection, inbox_path):
        inbox_seq = connection.execute(
            "SELECT coalesce(max(seq), 0) FROM inbox.sqlite_sequence WHERE name = 'inbox'"
        ).fetchone()[0]
    return int(applied_seq) if applied_seq > inbox_seq else 0


def renew_epoch(path: Path) -> None:
    """Give a restored mirror.db an epoch of its own, so that an open page, whose change number is of the
    time after the backup, is told to load itself again instead of missing what comes next."""
    connection = sqlite3.connect(path)
    try:
        with connection:
            connection.execute("UPDATE _meta SET value = ? WHERE key = 'epoch'", (secrets.token_hex(8),))
    finally:
        connection.close()


class _AttachedInbox:
    """inbox.db beside mirror.db on a read-only connection, while the block runs."""

    def __init__(self, connection: sqlite3.Connection, inbox_path: Path) -> None:
        self._connection = connection
        self._inbox_path = inbox_path

    def __enter__(self) -> None:
        self._connection.execute("ATTACH ? AS inbox", (build_readonly_uri(self._inbox_path),))

    def __exit__(self, *_: object) -> None:
        self._connection.execute("DETACH inbox")
