"""Folders of exports: on this computer, or a URL of object storage.

A file of either has its complete new content, or is unchanged. A URL (`s3://`, `gs://`, `abfs://`) is used
with the credentials that `pyarrow.fs` finds, such as `AWS_ACCESS_KEY_ID` (docs/exports.md).
"""

from __future__ import annotations

import mmap
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, BinaryIO

from integration.core import atomic_files
from integration.core.errors import QueryError
from integration.exports.formats.parquet import import_pyarrow
from integration.settings.values import check_object_url, is_url


def open_folder(place: str) -> Folder:
    """Return the folder at a path or URL. Nothing is read or created. Raises QueryError."""
    if not is_url(place):
        return LocalFolder(Path(place))
    try:
        return ObjectFolder(check_object_url(place))
    except ValueError as error:
        raise QueryError(f"The URL of the folder {error}.") from None


@dataclass(frozen=True)
class LocalFolder:
    """Folder on this computer. Names of files have `/` between folders. Methods raise OSError."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    def __str__(self) -> str:
        return str(self.path)

    def subfolder(self, names: list[str]) -> LocalFolder:
        """Return a folder below this one. Raises ValueError if a link leads out of this one."""
        path = self.path.joinpath(*names)
        if not path.resolve().is_relative_to(self.path.resolve()):
            raise ValueError(f"The folder {'/'.join(names)!r} is not below {self}.")
        return LocalFolder(path)

    def open_file(self, name: str) -> BinaryIO:
        return (self.path / name).open("rb")

    def write_file(self, name: str, source: IO[bytes]) -> None:
        """Write a file with the entire content of `source`, a real file."""
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        source.seek(0)
        with atomic_files.open_atomic(target) as file:
            shutil.copyfileobj(source, file, 1 << 20)

    def list_files(self) -> Iterator[str]:
        """Return the names of all files, with those of subfolders."""
        return (str(path.relative_to(self.path)) for path in self.path.rglob("*") if path.is_file())

    def remove_file(self, name: str) -> None:
        """Remove a file, and its folder if no other file is in it."""
        path = self.path / name
        path.unlink()
        with suppress(OSError):  # The folder has other files.
            path.parent.rmdir()


@dataclass(frozen=True)
class ObjectFolder:
    """Folder in object storage, as `LocalFolder`. It is reached at the first use of a file."""

    url: str
    names: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return "/".join((self.url.partition("?")[0].rstrip("/"), *self.names))

    @cached_property
    def _storage(self) -> tuple[Any, str]:
        """File system of pyarrow, and the path of the folder in it."""
        import_pyarrow()
        from pyarrow.fs import FileSystem  # type: ignore[attr-defined]

        try:
            files, path = FileSystem.from_uri(self.url)
        except ValueError as error:  # ArrowInvalid
            raise OSError(f"{error}") from None
        return files, "/".join((path.rstrip("/"), *self.names))

    def subfolder(self, names: list[str]) -> ObjectFolder:
        return ObjectFolder(self.url, (*self.names, *names))

    def open_file(self, name: str) -> BinaryIO:
        files, path = self._storage
        file: BinaryIO = files.open_input_file(f"{path}/{name}")
        return file

    def write_file(self, name: str, source: IO[bytes]) -> None:
        files, path = self._storage
        source.flush()
        with mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as content:
            stream = files.open_output_stream(f"{path}/{name}")
            # One call. pyarrow cannot cancel an upload: after an error between two calls, the destructor of
            # the stream would store what was sent so far as the object.
            stream.write(content)
            stream.close()

    def list_files(self) -> Iterator[str]:
        from pyarrow.fs import FileSelector, FileType  # type: ignore[attr-defined]

        files, path = self._storage
        for entry in files.get_file_info(FileSelector(path, allow_not_found=True, recursive=True)):
            if entry.type is FileType.File:
                yield entry.path.removeprefix(f"{path}/")

    def remove_file(self, name: str) -> None:
        files, path = self._storage
        files.delete_file(f"{path}/{name}")


Folder = LocalFolder | ObjectFolder
