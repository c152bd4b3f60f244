"""Order and duplicates of facts do not change the calls (docs/calls.md#words)."""

from __future__ import annotations

import itertools
import random

import pytest

from integration.mirror.calls import affected_legs, joins
from tests.mirror.calls.scripts.facts import Record, Webhook, interpret_webhook
from tests.mirror.calls.scripts.script import Script
from tests.mirror.calls.scripts.test_scripts import SCRIPTS as ALL_SCRIPTS
from tests.support.payloads.call_facts import (
    ANN,
    BOB,
    CAT,
    GROUP,
    T0,
    CallMirror,
    Fact,
    Phone,
    cdr,
    compute,
    set_now,
)

MAX_PERMUTED_FACTS = 7
"""Number of facts up to which every order is tested: 5,040 orders of seven facts."""


def list_facts(script: Script) -> list[Fact]:
    """Return the webhooks and records of a script."""
    return [
        interpret_webhook(fact) if isinstance(fact, Webhook) else (fact.collection, fact.values)
        for fact in script.facts
        if isinstance(fact, Webhook | Record)
    ]


SCRIPTS: dict[str, list[Fact]] = {script.title: list_facts(script) for script in ALL_SCRIPTS}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "name", [name for name, facts in SCRIPTS.items() if len(facts) <= MAX_PERMUTED_FACTS]
)
def test_every_order_gives_the_same_calls(name: str) -> None:
    """Longer scripts are played in random orders (`scripts/test_scripts.py`)."""
    expected = compute(SCRIPTS[name])
    for order in itertools.permutations(SCRIPTS[name]):
        assert compute(order) == expected


def ring_busy_group(generator: random.Random, context: str, src: str) -> list[Fact]:
    """Return facts of up to 44 calls of one party at a group, in random order; few name a root or parent."""
    when, facts, legs = 0, list[Fact](), range(1000, 1000 + generator.randrange(10, 45))
    for leg in legs:
        when += generator.choice((0, 1, 3, 9, 15, 20, 25))
        root = generator.choice((*(None,) * 8, generator.choice(legs)))
        user = generator.choice((ANN, BOB, CAT))
        phone = Phone(leg, user, started=when, context=context, src=src, root=root)
        facts.append(phone.event("ringing", when + 0.3))
        if generator.random() < 0.9:
            final = {"final": True} if generator.random() < 0.1 else {}
            facts.append(phone.event("missed", when + 15, **final))
        if generator.random() < 0.2:
            links = {name: generator.choice((None, generator.choice(legs)))
                     for name in ("root_live_id", "parent_live_id")}  # fmt: skip
            facts.append(("cdrs", cdr(leg + 4000, leg, when, 15, 0, context=context, src=src, **links)))
    generator.shuffle(facts)
    return facts


@pytest.mark.exhaustive
@pytest.mark.parametrize("context", [f"RG-{GROUP}", "QUEUE"])
@pytest.mark.parametrize("src", ["", "447700900101"])
def test_divided_chains_of_a_busy_group_are_the_same_calls_in_any_order(
    mirror: CallMirror, src: str, context: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 100 * 3600)
    for module in (joins, affected_legs):
        monkeypatch.setattr(module, "MAX_CHAIN_LEGS", 4)
        monkeypatch.setattr(module, "PAUSE_NEIGHBOURS", 1)
    monkeypatch.setattr(affected_legs, "MAX_SIDE_LEGS", 24)
    for seed in range(25):
        facts = ring_busy_group(random.Random(seed), context, src)
        mirror.clear()
        mirror.apply(*facts)
        mirror.tick(100 * 3600)
        found = [tuple(row.values())[:6] for row in mirror.calls()]
        assert found == [tuple(row)[:6] for row in compute(facts, now=T0 + 360_000.0)], seed
