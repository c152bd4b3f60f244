"""pyproject.toml declares the distribution of every module that the code imports."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.harness import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCAL = {"integration", "tests", "app"}
STUBS = {"_typeshed"}
"""Modules that exist for type checkers only."""
SEPARATE = {"tests/benchmarks/full_sync_dlt.py": {"dlt"}}
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


def undeclared(path: Path, tree: ast.Module, declared: set[str]) -> set[str]:
    """Third-party modules of the tree whose distribution is not declared."""
    ignored = LOCAL | STUBS | set(sys.stdlib_module_names) | SEPARATE.get(str(path.relative_to(ROOT)), set())
    return {
        module
        for module in set(modules(path, tree)) - ignored
        if declared.isdisjoint(providers().get(module, [canonicalize_name(module)]))
    }


def python_files(*folders: str) -> list[tuple[Path, ast.Module]]:
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [(path, ast.parse(path.read_text())) for path in paths]


def missing(files: list[tuple[Path, ast.Module]], declared: set[str]) -> dict[str, set[str]]:
    found = {str(path.relative_to(ROOT)): undeclared(path, tree, declared) for path, tree in files}
    return {path: names for path, names in found.items() if names}


@pytest.fixture(scope="module")
def product() -> list[tuple[Path, ast.Module]]:
    return [(ROOT / "app.py", ast.parse((ROOT / "app.py").read_text())), *python_files("integration")]


def test_modules_that_the_product_imports_at_start_are_dependencies(product) -> None:
    assert missing([(path, at_import(tree)) for path, tree in product], RUNTIME) == {}


def test_modules_that_the_product_imports_later_are_dependencies_or_extras(product) -> None:
    assert missing(product, RUNTIME | EXTRAS["alerts"] | EXTRAS["parquet"]) == {}


def test_modules_that_tests_import_are_dependencies_or_in_the_extra_test() -> None:
    assert missing(python_files("tests"), RUNTIME | EXTRAS["test"] | EXTRAS["parquet"]) == {}
