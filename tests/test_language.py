"""Plain technical English: words that names, messages and docstrings avoid.

docs/glossary.md has the word to use for each thing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from operator import itemgetter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

BANNED = {
    "report, send, return, notify": r"tell|tells|told|telling",
    "request, query, prompt": r"ask|asks|asked|asking",
    "return, show, state, log": r"say|says|said|saying",
    "receive, listen to": r"hear|hears|heard",
    "stored, registered, cached": r"know|knows|knew",
    "delete, drop, revoke": r"forget|forgets|forgot|forgotten",
    "cache, store, record": r"remember|remembers|remembered",
    "requested, pending, required": r"want|wants|wanted|wish|wishes|wished",
    "accept, trust, validate": r"believe|believes|believed",
    "is, is stored, is shown": r"stands|stood|lies",
    "app context, module, gate": r"house",
    "scheduler": r"clockwork",
    "full sync, poll, incremental sync": r"walk|walks|walked|look-back|look-backs",
    "lookup": r"look-up|look-ups",
    "verify, completeness": r"prove|proves|proved|proof|proofs|ledger",
    "complete, healthy": r"settled|all is well",
    "client, user, any": r"whoever|whomever|somebody|someone|nobody|anybody",
    "local, the account's": r"ours|our own|of one's own",
    "recompute, retry, repeat": r"anew",
    "a time, permanently": r"meanwhile|for good|by then",
    "automatically": r"by itself|by themselves",
    "deleted, unreachable, ended": r"gone",
    "cancelled, aborted, truncated": r"broken off|broke off|breaks off",
    "compute, join": r"put together|puts together",
    "action, label": r"deed|deeds",
    "cannot": r"can't|don't|doesn't|isn't|won't",
    "the message without it": r"please|shall|something went wrong",
}
"""Replacement: regular expression of the words, matched as whole words in any case."""

EXCEPTIONS = re.compile(
    r"`[^`]*`"  # code
    r"|house\.db|callback_deeds|proved_at|days_proved|call_gone|gone_at"  # names of interfaces
    r"|THIS EXPORT BROKE OFF AFTER AN ERROR"  # the truncation marker, a format of files
    r"|410 Gone",
    re.IGNORECASE,
)
_PATTERN = re.compile(rf"\b(?:{'|'.join(BANNED.values())})\b", re.IGNORECASE)

_TEXT_CALLS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
_TEXT_KEYWORDS = frozenset({"help", "description", "short_help", "epilog"})
MAX_FIRST_LINE_WORDS = {"integration": 12, "app.py": 12, "tests": 20}
"""Words of a first docstring line, by top folder."""

_BANNED_NAME_PART = re.compile("|".join([*BANNED.values(), "whole"]))
"""Words that names of functions, classes, parameters, variables and attributes avoid."""

NAME_EXCEPTIONS = frozenset(
    {
        "walk_key", "walk_rows", "walked_from", "gone_at", "asked_at", "proved_at", "ours",  # columns
        "again", "gone",  # keys of /readyz and of results of commands
        "REMEMBER_ME_IDLE_SECONDS", "is_remembered", "test_a_login_with_remember_me_outlives_the_idle_time",
        # the field `remember_me` of the platform
        "WholeNumber", "_parse_whole_number",  # whole numbers
    }
)  # fmt: skip
"""Names of interfaces, and a standard term."""


def find_banned(text: str) -> list[str]:
    """Return the banned words in `text`."""
    return _PATTERN.findall(EXCEPTIONS.sub("", text))


def list_modules() -> list[Path]:
    return [*sorted((ROOT / "integration").rglob("*.py")), ROOT / "app.py"]


def list_test_modules() -> list[Path]:
    return sorted(path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__))


def group_by_folder(modules: Iterable[Path]) -> dict[str, list[Path]]:
    """Return the modules by folder.

    A test for each module would cost more than reading it.
    """
    folders: dict[str, list[Path]] = {}
    for module in modules:
        folders.setdefault(str(module.parent.relative_to(ROOT)), []).append(module)
    return folders


def list_names(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """Names that the nodes define, with their lines."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


@cache
def has_banned_part(name: str) -> bool:
    parts = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower().split("_")
    return name not in NAME_EXCEPTIONS and any(map(_BANNED_NAME_PART.fullmatch, parts))


def list_first_docstring_lines(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text.strip().partition("\n")[0]


def list_texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Return first docstring lines and texts of errors, logs and help."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str):
                yield node.lineno, node.value.value.strip().partition("\n")[0]
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from _list_constants(node.exc)
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in _TEXT_CALLS:
                yield from _list_constants(node)
            for keyword in node.keywords:
                if keyword.arg in _TEXT_KEYWORDS:
                    yield from _list_constants(keyword.value)


def _list_constants(node: ast.AST) -> Iterator[tuple[int, str]]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.lineno, inner.value


@pytest.mark.parametrize("folder", group_by_folder(list_modules()).items(), ids=itemgetter(0))
def test_texts_avoid_banned_words(folder: tuple[str, list[Path]]) -> None:
    found = [
        f"{module.relative_to(ROOT)}:{line}: {', '.join(words)}: {text[:80]}"
        for module in folder[1]
        for line, text in list_texts(ast.parse(module.read_text("utf-8")))
        if (words := find_banned(text))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "folder", group_by_folder([*list_modules(), *list_test_modules()]).items(), ids=itemgetter(0)
)
def test_names_and_first_docstring_lines_are_plain(folder: tuple[str, list[Path]]) -> None:
    found = []
    for module in folder[1]:
        path = module.relative_to(ROOT)
        nodes = list(ast.walk(ast.parse(module.read_text("utf-8"))))
        found += [f"{path}:{line}: name {name}" for name, line in list_names(nodes) if has_banned_part(name)]
        found += [
            f"{path}:{line}: {len(text.split())} words: {text}"
            for line, text in list_first_docstring_lines(nodes)
            if len(text.split()) > MAX_FIRST_LINE_WORDS[path.parts[0]]
        ]
    assert not found, "\n".join(found)


def test_banned_names_and_long_docstrings_are_found() -> None:
    module = (
        '"""A module."""\ndef test_nobody_knows(said, *told): whole, x.again = 1, 2\nclass AskTwice: pass\n'
    )
    nodes = list(ast.walk(ast.parse(module)))
    names = [name for name, _ in list_names(nodes) if has_banned_part(name)]
    assert sorted(names) == ["AskTwice", "said", "test_nobody_knows", "told", "whole"]
    assert list(list_first_docstring_lines(nodes)) == [(1, "A module.")]


def test_the_words_are_found() -> None:
    tree = ast.parse('"""Tell nobody."""\nraise ValueError("nobody knows")\nlog.info("asked again")\n')
    words = [word for _, text in list_texts(tree) for word in find_banned(text)]
    assert words == ["Tell", "nobody", "nobody", "knows", "asked"]


def test_names_of_interfaces_are_exceptions() -> None:
    assert find_banned("house.db holds the column proved_at") == []


def test_config_example_avoids_banned_words() -> None:
    assert find_banned((ROOT / "config.example.toml").read_text("utf-8")) == []


@pytest.mark.parametrize(
    "page", [*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md"))], ids=lambda path: path.name
)
def test_pages_avoid_banned_words(page: Path) -> None:
    found = [
        f"{page.name}:{number}: {', '.join(words)}"
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1)
        if (words := find_banned(line))
    ]
    assert not found, "\n".join(found)
