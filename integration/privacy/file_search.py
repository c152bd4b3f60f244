"""Search the bytes of files for telephone numbers and ids, in a child process.

When a process closes a file, POSIX drops all its locks on it (`fcntl`). SQLite protects an open database by
such locks, so this process must not open a database, its -wal or its -shm as an ordinary file. A copy can be
a hard link to a database; therefore the child opens all files. The numbers are sent through a pipe, because
the arguments of a process are visible to other users.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

from integration.core.errors import StorageError
from integration.core.number_search.wide_search import CHUNK_BYTES, WideSearch

_ROOT = Path(__file__).parents[2]
_AUDIO_SUFFIX = ".mp3"
_MAX_DIGITS = 19
"""Digits of the largest id."""
_INTEGER = re.compile(rb"[0-9]{4,%d}" % _MAX_DIGITS)


def search_files(
    paths: Iterable[Path], numbers: Iterable[str], ids: Iterable[int] = (), *, first_only: bool = False
) -> list[Path]:
    """Return the files that possibly contain one of `numbers` (E.164) or `ids`.

    Of audio files the tags are searched for numbers, and the names for ids. Missing files are left out.
    `first_only`: stop after the first one found. Raises OSError, and StorageError if the child fails.
    """
    request = {
        "paths": [str(path) for path in paths],
        "numbers": [*numbers],
        "ids": [*ids],
        "first_only": first_only,
    }
    if not request["paths"]:
        return []
    python_path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": python_path},
    )
    if done.returncode:
        raise StorageError(
            f"The search of files ended with status {done.returncode}: {done.stderr.strip() or 'no message'}."
            " Try again."
        )
    response = json.loads(done.stdout)
    if "error" in response:
        raise OSError(*response["error"])
    return [Path(path) for path in response["found"]]


def _respond(
    paths: Collection[str], numbers: Collection[str], ids: Collection[int], first_only: bool
) -> dict[str, list[str | int | None]]:
    searches = [WideSearch(e164) for e164 in numbers]
    id_texts = {str(number).encode() for number in ids}
    found: list[str | int | None] = []
    try:
        for path in paths:
            if _contains_id(Path(path), id_texts) or any(
                _is_in_file(search, Path(path)) for search in searches
            ):
                found.append(path)
                if first_only:
                    break
    except OSError as error:
        return {"error": [error.errno, error.strerror, error.filename]}
    return {"found": found}


def _is_in_file(search: WideSearch, path: Path) -> bool:
    return search.is_in_audio_file(path) if path.suffix == _AUDIO_SUFFIX else search.is_in_file(path)


def _contains_id(path: Path, id_texts: Collection[bytes]) -> bool:
    if not id_texts:
        return False
    if path.suffix == _AUDIO_SUFFIX:
        return path.stem.encode() in id_texts
    try:
        with open(path, "rb") as file:
            overlap = b""
            while chunk := file.read(CHUNK_BYTES):
                # An id that spans two chunks is found with the end of the first one.
                if any(match[0] in id_texts for match in _INTEGER.finditer(overlap + chunk)):
                    return True
                overlap = chunk[-_MAX_DIGITS:]
    except FileNotFoundError:
        pass
    return False


if __name__ == "__main__":
    json.dump(_respond(**json.load(sys.stdin)), sys.stdout)
