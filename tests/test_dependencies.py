"""pyproject.toml declares the distribution of every module that the code imports."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.harness import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCAL = {"integration", "tests", "app", "docs_site"}
IMPORT_LINE = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)|import[ \t]+([\w., \t]+))", re.MULTILINE)
STUBS = {"_typeshed"}
"""Modules that exist for type checkers only."""
SEPARATE = {"tests/benchmarks/peers/dlt_sync.py": {"dlt"}}
"""Modules of a benchmark's peer, which the benchmark installs in an environment of its own."""


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in requirements}


RUNTIME = names(PROJECT["dependencies"])
EXTRAS = {extra: names(lines) for extra, lines in PROJECT["optional-dependencies"].items()}


def modules(path: Path, tree: ast.Module) -> Iterator[str]:
    """Top-level names of all imported modules, also by `importlib.import_module`."""
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
    if "import_module" in path.read_text():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
                yield from (arg.value.partition(".")[0] for arg in node.args if isinstance(arg, ast.Constant))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Statements below the node.

    Faster than `ast.walk`, which also visits expressions, nine of ten nodes.
    """
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for statement in getattr(node, block, ()):
            yield statement
            yield from statements(statement)


def at_import(tree: ast.Module) -> ast.Module:
    """The statements of the module that run when the module is imported."""
    lazy = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    typed = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
    ]
    return ast.Module([node for node in typed if not isinstance(node, lazy)], [])


@cache
def providers() -> dict[str, list[str]]:
    return {
        module: [canonicalize_name(name) for name in found]
        for module, found in metadata.packages_distributions().items()
    }


def select_undeclared(path: Path, modules: Iterable[str], declared: set[str]) -> set[str]:
    """Third-party modules whose distribution is not declared."""
    ignored = (
        {""} | LOCAL | STUBS | set(sys.stdlib_module_names) | SEPARATE.get(str(path.relative_to(ROOT)), set())
    )
    return {
        module
        for module in set(modules) - ignored
        if declared.isdisjoint(providers().get(module, [canonicalize_name(module)]))
    }


def find_undeclared(path: Path, declared: set[str], *, only_at_import: bool = False) -> set[str]:
    """Third-party modules that the file imports and whose distribution is not declared."""
    text = path.read_text()
    if "import_module" not in text and not select_undeclared(path, match_modules(text), declared):
        return set()
    tree = ast.parse(text)
    return select_undeclared(path, modules(path, at_import(tree) if only_at_import else tree), declared)


def match_modules(text: str) -> Iterator[str]:
    """Top-level names after `from` or `import` at the start of a line.

    Lines of texts match as well. Most files need no parsing, which takes 3 s for all files.
    """
    for package, names in IMPORT_LINE.findall(text):
        for name in (package or names).split(","):
            if name.strip():
                yield name.split()[0].partition(".")[0]


def list_files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def find_missing(files: list[Path], declared: set[str], **options: bool) -> dict[str, set[str]]:
    found = {str(path.relative_to(ROOT)): find_undeclared(path, declared, **options) for path in files}
    return {path: names for path, names in found.items() if names}


def list_product_files() -> list[Path]:
    return [ROOT / "app.py", *list_files("integration")]


def test_modules_that_the_product_imports_at_start_are_dependencies() -> None:
    assert find_missing(list_product_files(), RUNTIME, only_at_import=True) == {}


def test_modules_that_the_product_imports_later_are_dependencies_or_extras() -> None:
    assert find_missing(list_product_files(), RUNTIME | EXTRAS["alerts"] | EXTRAS["parquet"]) == {}


def test_modules_that_tests_import_are_dependencies_or_in_an_extra_of_tests() -> None:
    extras = ("test", "parquet", "browser", "bench", "examples")
    assert find_missing(list_files("tests"), RUNTIME.union(*map(EXTRAS.__getitem__, extras))) == {}


def test_the_suite_needs_only_the_extra_test() -> None:
    suite = [
        path
        for path in list_files("tests")
        if path.name.startswith("test_") and "\npytestmark = pytest.mark.exhaustive\n" not in path.read_text()
    ]
    suite += [ROOT / "tests" / "conftest.py", *list_files("tests/support")]
    declared = RUNTIME | EXTRAS["test"] | EXTRAS["parquet"]
    assert find_missing(suite, declared, only_at_import=True) == {}


@pytest.mark.parametrize(
    "line",
    ["import absent_module", "    from absent_module.inner import name", "import json, absent_module as m"],
)
def test_an_import_of_an_undeclared_module_is_found(line: str) -> None:
    assert "absent_module" in match_modules(f"import json\nif True:\n    pass\n{line}\n")
