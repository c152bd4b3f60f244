"""Build of the documentation site with Sphinx.

The pages in `docs/` are ordinary Markdown files that a repository shows as they are. This module copies them,
adapts their links to the site and runs Sphinx on the copies. `hatch_build.py` calls it for wheels.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

SITE_FOLDER = "build/help"
"""Folder of the site in a checkout."""
DIGEST_FILE = "SOURCES"
"""File of the site with the digest of its sources."""
PAGES_BESIDE = {
    "CONTRIBUTING.md": "contributing",
    "SECURITY.md": "reporting-vulnerabilities",
    "CHANGELOG.md": "changelog",
    "deploy/README.md": "deployment-files",
}
"""Documents outside of `docs/`, and their names in the site."""
UNUSED = (
    ".buildinfo", "objects.inv", "genindex.html", "_static/basic.css", "_static/pygments.css",
    "_static/file.png", "_static/plus.png", "_static/minus.png", "_static/base-stemmer.js",
    "_static/english-stemmer.js",
)  # fmt: skip
"""Files of Sphinx that no page of the site loads."""

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s:]+)(#[^)\s]*)?\)")
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)


def build_site(root: Path, folder: Path) -> str:
    """Build the site of the repository `root` into `folder`.

    Returns Sphinx's warnings, empty if there are none.
    """
    # Imported here: Sphinx is needed only to build.
    from sphinx.application import Sphinx

    warnings = io.StringIO()
    with tempfile.TemporaryDirectory(prefix="switchroom-help-") as name:
        source, out = Path(name, "source"), Path(name, "out")
        copy_pages(root, source)
        site = Sphinx(
            source,
            root / "docs_site",
            out,
            Path(name, "doctrees"),
            "html",
            confoverrides={"release": read_version(root)},
            status=None,
            warning=warnings,
        )
        site.build()
        for unused in UNUSED:
            (out / unused).unlink(missing_ok=True)
        shutil.rmtree(out / "_sources", ignore_errors=True)
        shutil.copy(root / "static" / "icon.svg", out / "_static")
        (out / DIGEST_FILE).write_text(compute_digest(root) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(out, folder)
    return warnings.getvalue()


def is_current(root: Path, folder: Path) -> bool:
    """Return whether `folder` has the site of the present sources."""
    try:
        return (folder / DIGEST_FILE).read_text().strip() == compute_digest(root)
    except OSError:
        return False


def compute_digest(root: Path) -> str:
    """Return a digest of everything from which the site is built."""
    digest = hashlib.sha256(read_version(root).encode())
    folders = [root / "docs", root / "docs_site"]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    for path in sorted([*files, *(root / name for name in PAGES_BESIDE)]):
        if "__pycache__" not in path.parts:
            digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def read_version(root: Path) -> str:
    """Return the version without importing the package, whose dependencies a build does not have."""
    match = re.search(r'^__version__ = "(.+)"$', (root / "integration" / "__init__.py").read_text(), re.M)
    if match is None:
        raise ValueError("integration/__init__.py has no line `__version__ = …`.")
    return match[1]


def list_pages(root: Path) -> dict[Path, str]:
    """Return the documents of the site and their names in it."""
    pages = {path: path.relative_to(root / "docs").as_posix() for path in (root / "docs").rglob("*.md")}
    return pages | {root / name: f"{page}.md" for name, page in PAGES_BESIDE.items()}


def copy_pages(root: Path, source: Path) -> None:
    """Copy documents and pictures to `source`, with links of the site."""
    shutil.copytree(root / "docs", source, ignore=shutil.ignore_patterns("*.md"))
    pages = list_pages(root)
    for path, name in pages.items():
        text = adapt_links(path, path.read_text("utf-8"), pages)
        if name.removesuffix(".md") == "index":
            text += "".join(list_contents(text))
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text, "utf-8")


def adapt_links(path: Path, text: str, pages: dict[Path, str]) -> str:
    """Return `text` of the document `path` with links that are right in the site.

    Links to pages get their names. Of links to other files of the repository only the text remains.
    """
    folder = os.path.dirname(pages[path])

    def replace(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(path.parent / match[2]))
        if target in pages:
            return f"[{match[1]}]({os.path.relpath(pages[target], folder)}{match[3] or ''})"
        return match[1]

    return LINK.sub(replace, text)


def list_contents(index: str) -> Iterator[str]:
    """Return the tables of contents of Sphinx: one for each section of the index page, with its links."""
    titles = SECTION.split(index)[1:]
    for title, section in zip(titles[::2], titles[1::2], strict=True):
        names = dict.fromkeys(match[2].removesuffix(".md") for match in LINK.finditer(section))
        if names:
            yield f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n" + "\n".join(names) + "\n```\n"
