"""Registry of commands: names, and one handler each."""

from __future__ import annotations

from pathlib import Path

import pytest

import integration
from integration import factory
from integration.core.commands import (
    find_handler,
    registry,
)
from integration.core.errors import SwitchroomError


def list_product_commands() -> dict[str, str]:
    """Name → module, without the commands of tests."""
    modules = {name: handler.__module__ for name, handler in registry().items()}
    return {name: module for name, module in modules.items() if module.startswith("integration.")}


def test_an_unknown_command_is_rejected_with_advice() -> None:
    with pytest.raises(SwitchroomError) as refused:
        find_handler("x")
    assert str(refused.value) == (
        "The running process has no command 'x'. If its version differs, restart it."
    )


def test_the_factory_lists_every_module_with_a_command() -> None:
    root = Path(integration.__file__).parent
    decorated = {
        ".".join(path.relative_to(root.parent).with_suffix("").parts)
        for path in root.rglob("*.py")
        if '\n@command("' in path.read_text()
    }
    assert decorated == {module.__name__ for module in factory.COMMAND_MODULES}
    assert decorated == set(list_product_commands().values())
