"""Scripts of calls with hand-written results, in the order of events and in random orders."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mirror.calls.scripts import (
    direct,
    forwards,
    outbound_calls,
    queues,
    ring_groups,
    sources,
    transfers,
    withheld,
)
from tests.mirror.calls.scripts.player import Player
from tests.mirror.calls.scripts.script import Script
from tests.support.application import running_app

FAMILIES = (direct, ring_groups, queues, transfers, forwards, outbound_calls, sources, withheld)
SCRIPTS = [script for family in FAMILIES for script in family.SCRIPTS]
all_scripts = pytest.mark.parametrize("script", SCRIPTS, ids=[script.title for script in SCRIPTS])


@pytest.fixture(scope="module")
def shared_player(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    with running_app(tmp_path_factory.mktemp("scripts") / "data", dashboard__country="GB") as app:
        yield Player(app)


@pytest.fixture
def player(shared_player: Player) -> Iterator[Player]:
    shared_player.clear()
    yield shared_player
    shared_player.app.clock.restore()


def check_result(player: Player, script: Script, order: str) -> None:
    assert player.list_calls(script.calls) == list(script.calls), order


@all_scripts
def test_facts_in_order_give_the_expected_calls(player: Player, script: Script) -> None:
    for at, rows in player.play_in_order(script):
        expected = [dict(columns) for columns in script.during[at]]
        found = [{name: row[name] for name in columns} for row, columns in zip(rows, expected, strict=True)]
        assert found == expected, f"{at} s"
    check_result(player, script, "in order")


def check_shuffled(player: Player, script: Script, count: int) -> None:
    for seed in range(count):
        player.clear()
        player.play_shuffled(script, seed)
        check_result(player, script, f"seed {seed}")


@all_scripts
def test_facts_in_random_order_give_the_expected_calls(player: Player, script: Script) -> None:
    check_shuffled(player, script, 1)


@pytest.mark.exhaustive
@all_scripts
def test_facts_in_many_random_orders_give_the_expected_calls(player: Player, script: Script) -> None:
    check_shuffled(player, script, 12)
