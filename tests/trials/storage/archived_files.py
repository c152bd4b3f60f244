"""Files of a mirror's archive, compared with those of the platform."""

from __future__ import annotations

import hashlib
from pathlib import Path

from integration.mirror.sync_state import media_files
from tests.trials.tools.local_mirror import LocalMirror

DOWNLOADS = {"SWITCHROOM_RECORDINGS__DOWNLOAD": "true", "SWITCHROOM_VOICEMAIL__DOWNLOAD": "true"}
ANY_FILE = "*.*"
"""Paths of files, for faults."""


def hash_content(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def hash_platform_files(mirror: LocalMirror) -> dict[str, str]:
    """sha256 of what the platform sends without faults, by path below data_dir."""
    rows = mirror.query("SELECT kind, record_id, path FROM media")
    return {
        path: hash_content(mirror.platform.get(media_files.get_platform_file_path(kind, number)).body)
        for kind, number, path in rows
    }


def hash_files(data_dir: Path) -> dict[str, str]:
    """sha256 of complete files in the archive, by path below data_dir."""
    folders = {media_files.FOLDERS[kind] for kind in media_files.AUTOMATIC_KINDS}
    paths = (path for folder in folders for path in (data_dir / folder).rglob("*"))
    return {
        str(path.relative_to(data_dir)): hash_content(path.read_bytes())
        for path in paths
        if path.is_file() and path.suffix != ".part"
    }


def find_wrong(data_dir: Path, expected: dict[str, str]) -> list[str]:
    """Files with content other than the platform's."""
    return [path for path, found in hash_files(data_dir).items() if expected.get(path) != found]


def find_incomplete(data_dir: Path) -> list[str]:
    """Names of incomplete downloads."""
    return [path.name for path in data_dir.rglob("*.part")]
