"""Registry of commands: names, and one handler each."""

from __future__ import annotations

from pathlib import Path

import pytest

import integration
from integration import factory
from integration.core.commands import (
    Progress,
    command,
    find_handler,
    registry,
)
from integration.core.errors import SwitchroomError


def list_product_commands() -> dict[str, str]:
    """Name → module, without the commands of tests."""
    modules = {name: handler.__module__ for name, handler in registry().items()}
    return {name: module for name, module in modules.items() if module.startswith("integration.")}


def test_a_decorated_function_is_registered_unchanged_and_only_once() -> None:
    @command("kettle.boil")
    def boil(context: str, arguments: dict[str, int], progress: Progress) -> dict[str, object]:
        return {"context": context, **arguments}

    assert registry()["kettle.boil"] is boil
    progress = Progress(lambda _: None, lambda: True)
    assert find_handler("kettle.boil")("here", {"cups": 2}, progress) == {"context": "here", "cups": 2}
    with pytest.raises(ValueError, match=r"'kettle\.boil' has a handler in tests\.core\.test_commands"):
        command("kettle.boil")(boil)


@pytest.mark.parametrize("name", ["boil", "kettle.", "kettle.boil.twice", "Kettle.boil", "kettle-boil"])
def test_a_name_that_is_not_noun_dot_verb_is_rejected(name: str) -> None:
    with pytest.raises(ValueError, match=r"noun\.verb"):
        command(name)(lambda _context, _arguments, _progress: {})
    assert name not in registry()


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
