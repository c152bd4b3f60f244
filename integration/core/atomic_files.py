"""Durable and atomic writes of files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def fsync_path(path: Path) -> None:
    """Make a file, or the names in a folder, durable.

    Raises OSError.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def hash_file(path: Path) -> tuple[int, str]:
    """Return size in bytes and sha256 (hex) of a file.

    Raises OSError.
    """
    with open(path, "rb") as file:
        sha = hashlib.file_digest(file, "sha256")
        return file.tell(), sha.hexdigest()


@contextmanager
def open_atomic(target: Path) -> Iterator[BinaryIO]:
    """Open a file that gets the name `target` when the block succeeds.

    If the block fails, `target` is unchanged. Raises OSError. Other programs may write into the folder, so
    links that they created are not followed.
    """
    part_path = target.with_name(f".{target.name}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(part_path, flags, 0o666), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part_path.replace(target)
        fsync_path(target.parent)
    finally:
        part_path.unlink(missing_ok=True)


def write_text(path: Path, text: str, *, may_replace: bool = True) -> None:
    """Write a text file atomically and durably, with mode 0600.

    Raises OSError, FileExistsError if the file exists and `may_replace` is False.
    """
    part_path = path.with_name(f".{path.name}.{os.getpid()}.part")
    with os.fdopen(
        os.open(part_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
    ) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    if may_replace:
        part_path.replace(path)
    else:
        try:
            os.link(part_path, path)
        finally:
            part_path.unlink()
    fsync_path(path.parent)
