"""Documents, sections and promises cited in code and documents exist."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.support.payloads.markdown import read_anchors

ROOT = Path(__file__).parents[1]
SUFFIXES = frozenset({".py", ".md", ".html", ".js", ".css", ".toml", ".sql", ""})
NOT_SCANNED = {ROOT / "tests" / "fixtures" / "platform" / "specification.md", Path(__file__)}

DOCUMENT = re.compile(r"(?<![\w./:-])(?<!/ \")((?:[\w-]+/)*[\w-]+\.md)(#[\w-]+)?(?![\w/])")
SECTION_NUMBER = re.compile(r"\.md`?\s+(?:§|\.\d)")
LOCAL_LINK = re.compile(r"\]\((#[\w-]+)\)")
PROMISE = re.compile(r"[Pp]romises? ((?:[PS]\d+(?:, | and | to )?)+)")
TEST_PATH = re.compile(r"`(tests/[\w/.-]+)`")
TRIAL = re.compile(r"[Tt]rials? (`\w+`(?:(?:, | and )`\w+`)*)")


class Citation(NamedTuple):
    """A citation with file, line, wording and state of its target."""

    file: str
    line: int
    text: str
    is_resolved: bool


def list_files() -> list[Path]:
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    paths = (ROOT / name for name in names)
    return [path for path in paths if path.suffix in SUFFIXES and path.is_file() and path not in NOT_SCANNED]


@cache
def anchors_of(path: Path) -> set[str]:
    return read_anchors(path.read_text("utf-8"))


def find_document(name: str, source: Path) -> Path | None:
    """Return the cited file.

    Documents cite files relative to themselves or to the root, all other files relative to the root.
    """
    folders = [source.parent, ROOT] if source.suffix == ".md" else [ROOT]
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def read_citations(source: Path) -> Iterator[Citation]:
    name = str(source.relative_to(ROOT))
    for number, line in enumerate(source.read_text("utf-8").splitlines(), 1):
        for match in DOCUMENT.finditer(line) if ".md" in line else ():
            target = find_document(match[1], source)
            is_resolved = target is not None and (not match[2] or match[2][1:] in anchors_of(target))
            yield Citation(name, number, match[0], is_resolved)
        if SECTION_NUMBER.search(line):
            yield Citation(name, number, line.strip(), False)
        if source.suffix == ".md":
            for match in LOCAL_LINK.finditer(line):
                yield Citation(name, number, match[1], match[1][1:] in anchors_of(source))
        for match in PROMISE.finditer(line):
            for promise in re.findall(r"[PS]\d+", match[1]):
                yield Citation(name, number, f"promise {promise}", promise in list_promises())


@cache
def list_promises() -> set[str]:
    return set(re.findall(r"^\| ([PS]\d+) \|", (ROOT / "docs" / "promises.md").read_text("utf-8"), re.M))


def test_every_citation_leads_to_a_file_and_a_heading() -> None:
    citations = [citation for path in list_files() for citation in read_citations(path)]
    assert len(citations) > 100
    unresolved = [
        f"{citation.file}:{citation.line}: {citation.text}"
        for citation in citations
        if not citation.is_resolved
    ]
    assert not unresolved, "\n".join(unresolved)


def test_the_tests_and_trials_of_every_promise_exist() -> None:
    # Takes 0.4 s, which each worker of the suite would need at the top of this module.
    from tests.trials.__main__ import TRIALS

    text = (ROOT / "docs" / "promises.md").read_text("utf-8")
    paths = TEST_PATH.findall(text)
    assert len(paths) > 40
    assert [path for path in paths if not (ROOT / path).exists()] == []
    trials = {name for match in TRIAL.finditer(text) for name in re.findall(r"`(\w+)`", match[1])}
    assert trials <= {trial.name for trial in TRIALS}
    assert len(trials) > 20


def test_promises_are_numbered_without_gaps() -> None:
    for letter, count in (("P", 28), ("S", 23)):
        numbers = sorted(int(name[1:]) for name in list_promises() if name[0] == letter)
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) >= count
