"""Files and names that outlive a power cut."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def sync(path: Path) -> None:
    """Make a file, or a folder's list of names, durable. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """A file to write to that stands under the name `target` once it is whole, and never if the block fails.
    Raises OSError."""
    part = target.with_name(f".{target.name}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
        sync(target.parent)
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str, put: Callable[[Path, Path], None] = os.replace) -> None:
    """Write `text` beside `path`, for its owner only, and `put` it there under its name: whole or not at all.
    Raises OSError."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with os.fdopen(
        os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
    ) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    put(part, path)
    sync(path.parent)
