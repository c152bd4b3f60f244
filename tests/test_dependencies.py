"""pyproject.toml declares the distribution of every module that the product imports."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.harness import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NOT_INSTALLED = {*sys.stdlib_module_names, "integration", "docs_site", "_typeshed"}
"""Modules of Python, of the repository, and for type checkers only."""
Import = ast.Import | ast.ImportFrom


def list_names(*extras: str) -> set[str]:
    """Distributions that are installed with `extras`."""
    lines = [line for extra in extras for line in PROJECT["optional-dependencies"][extra]]
    return {canonicalize_name(Requirement(line).name) for line in [*PROJECT["dependencies"], *lines]}


def read_modules(nodes: Iterator[ast.AST] | list[ast.stmt]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


@pytest.mark.exhaustive
def test_every_module_that_the_product_imports_is_declared() -> None:
    distributions = metadata.packages_distributions()
    at_start, later = list_names(), list_names("alerts", "parquet")

    def find_undeclared(path: Path) -> Iterator[str]:
        tree = ast.parse(path.read_text("utf-8"))
        for modules, declared in ((read_modules(tree.body), at_start), (read_modules(ast.walk(tree)), later)):
            for module in set(modules) - NOT_INSTALLED:
                if declared.isdisjoint(map(canonicalize_name, distributions.get(module, [module]))):
                    yield f"{path.relative_to(ROOT)}: {module}"

    paths = [ROOT / "app.py", *(ROOT / "integration").rglob("*.py")]
    assert [line for path in paths for line in find_undeclared(path)] == []
    assert "absent_module" in read_modules(ast.walk(ast.parse("def f():\n    import absent_module")))
