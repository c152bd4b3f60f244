"""Build context of the image: the files that `.dockerignore` lets through."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from tests.support.harness import ROOT


def list_sources(folder: Path) -> set[str]:
    """Return the files below `folder` in the build context.

    The last line that matches a file or one of its folders decides, as documented for `.dockerignore`. Of its
    patterns only names, `*` and `**/NAME` are supported.
    """
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    return {
        path
        for path in (str(found.relative_to(folder)) for found in folder.rglob("*") if found.is_file())
        if _is_included(path, patterns)
    }


def _is_included(path: str, patterns: list[str]) -> bool:
    is_included = True
    for pattern in patterns:
        name = pattern.removeprefix("!")
        if name.startswith("**/"):
            is_match = name.removeprefix("**/") in path.split("/")
        else:
            depth = name.count("/") + 1
            is_match = fnmatchcase("/".join(path.split("/")[:depth]), name)
        if is_match:
            is_included = pattern.startswith("!")
    return is_included
