"""Audio files of announcements that were uploaded here.

The platform accepts announcements, but does not return their audio (docs/platform.md#6-files). The copy is
what was sent last from this dashboard.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from integration.core import clock
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS announcement_files (
    announcement_id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    person TEXT NOT NULL,
    content_type TEXT NOT NULL,
    content BLOB NOT NULL
) STRICT;
"""


@dataclass(frozen=True, slots=True)
class AnnouncementFile:
    """Audio of an announcement.

    `at` and `person`: time (UTC text) and user of its upload.
    """

    at: str
    person: str
    content_type: str
    content: bytes


def save(tx: Transaction, announcement_id: int, content: bytes, person: str) -> None:
    """Store the file; it replaces an earlier one."""
    tx.execute(
        "INSERT INTO announcement_files (announcement_id, at, person, content_type, content)"
        " VALUES (?, ?, ?, ?, ?) ON CONFLICT (announcement_id) DO UPDATE SET at = excluded.at,"
        " person = excluded.person, content_type = excluded.content_type, content = excluded.content",
        (announcement_id, clock.utc_text(), person, detect_type(content), content),
    )


def delete(tx: Transaction, announcement_id: int) -> None:
    tx.execute("DELETE FROM announcement_files WHERE announcement_id = ?", (announcement_id,))


def find(connection: sqlite3.Connection, announcement_id: int) -> AnnouncementFile | None:
    row = connection.execute(
        "SELECT at, person, content_type, content FROM announcement_files WHERE announcement_id = ?",
        (announcement_id,),
    ).fetchone()
    return AnnouncementFile(*row) if row else None


def detect_type(content: bytes) -> str:
    """Return the media type of an audio file by its first bytes.

    It is one of MP3, MP4, WAV and AAC. The type that a browser sends is not used, because this site serves
    the file.
    """
    if content.startswith(b"RIFF"):
        return "audio/wav"
    if content[4:8] == b"ftyp":
        return "audio/mp4"
    # An ADTS header of AAC has layer 0, an MPEG header of MP3 has not.
    is_adts = len(content) > 1 and content[0] == 0xFF and content[1] & 0xF6 == 0xF0
    return "audio/aac" if is_adts or content.startswith(b"ADIF") else "audio/mpeg"
