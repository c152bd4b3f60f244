"""Tests use only public names of the product and patch no library."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.support.harness import ROOT

PATCHED_LIBRARIES = ("flask", "werkzeug", "requests", "urllib3", "granian")
"""Libraries whose names no test replaces."""
DOCUMENTED_PATCHES = {"Flask.jinja_options", "Flask.url_rule_class"}
"""Attributes that a library documents as open to changes."""
PUBLIC_ATTRIBUTES = {"_fields", "_replace", "_asdict", "_make", "_exit"}
"""Documented names with an underscore: of named tuples, and `os._exit`."""
NAME_SETTERS = {"setattr", "delattr", "getattr", "hasattr", "object", "patch"}
"""Functions that get the name of an attribute: of `monkeypatch`, of the language and of `mock`."""
SUSPECT = re.compile(
    rf"(?<!\bself)(?<!\bcls)\.\s*_[A-Za-z]|\b(?:{'|'.join([*sorted(NAME_SETTERS), *PATCHED_LIBRARIES])})\b"
)
"""Text that every violation has. Half of the files are without it and need no parsing."""


def find_violations(source: str) -> Iterator[str]:
    """Find private attributes of other objects, and replaced names of PATCHED_LIBRARIES."""
    if not SUSPECT.search(source):
        return
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    own = {
        node.attr for node in nodes if isinstance(node, ast.Attribute) and is_name(node.value, "self", "cls")
    }
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            own |= {method.name for method in node.body if isinstance(method, ast.FunctionDef)}
    libraries = {
        alias.asname or alias.name.partition(".")[0]
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if (getattr(node, "module", None) or alias.name).partition(".")[0] in PATCHED_LIBRARIES
    }
    for node in nodes:
        if isinstance(node, ast.Attribute):
            if is_private(node.attr) and not is_name(node.value, "self", "cls") and node.attr not in own:
                yield f"{node.lineno}: {ast.unparse(node)}"
            elif isinstance(node.ctx, ast.Store) and get_root(node) in libraries and not may_set(node):
                yield f"{node.lineno}: {ast.unparse(node)} = …"
        elif isinstance(node, ast.Call) and get_function_name(node) in NAME_SETTERS:
            texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            targets = [get_root(a) for a in node.args[:1]] + [text.partition(".")[0] for text in texts[:1]]
            is_setter = get_function_name(node) not in ("getattr", "hasattr")
            if any(is_private(text.rpartition(".")[2]) for text in texts[:2]) or (
                is_setter and {*libraries, *PATCHED_LIBRARIES}.intersection(targets)
            ):
                yield f"{node.lineno}: {ast.unparse(node)}"


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC_ATTRIBUTES


def is_name(node: ast.expr, *names: str) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def may_set(node: ast.Attribute) -> bool:
    """Return whether `node` is set on the current request or in DOCUMENTED_PATCHES."""
    return is_name(node.value, "request", "g", "session") or ast.unparse(node) in DOCUMENTED_PATCHES


def get_root(node: ast.expr) -> str:
    """Return the first name of `a.b.c`, '' for other expressions."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def get_function_name(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else get_root(function)


@pytest.mark.exhaustive
def test_no_test_uses_a_private_attribute_or_patches_a_library() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{violation}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for violation in find_violations(path.read_text())
    ]
    assert found == []


def test_a_private_attribute_and_a_patched_library_are_found_but_no_name_of_the_tests() -> None:
    found = "store._store_event(tx, event)\nfrom werkzeug.routing import Rule\nRule.build = share"
    assert sorted(line[:2] for line in find_violations(found)) == ["1:", "3:"]
    patched = "monkeypatch.setattr('integration.access.passwords._hasher', quick)"
    assert len(list(find_violations(patched))) == 1
    allowed = "class Running:\n    def _log(self): ...\nRunning()._log()\nfrom flask import g\ng.person = ann"
    assert list(find_violations(allowed)) == []
