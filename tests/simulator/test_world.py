"""Simulated account: deterministic for a seed, and with realistic records."""

from __future__ import annotations

import re

import pytest

from integration.catalogue import OPERATIONS
from integration.simulator.calls.history import seed_history
from integration.simulator.calls.world import World
from tests.support.fake_exchange import FIXTURES
from tests.support.simulator_client import START, sample

FICTION = re.compile(r"44207946\d{4}|447700900\d{3}|1(202|212|312|415|617)55501\d\d")


def test_the_same_seed_gives_equal_responses_and_calls(begin):
    first, second = (begin(cdrs=300, start_at=START) for _ in range(2))
    for path in [f"{row.path}?limit=5000" for row in OPERATIONS if row.response_kind == "collection"]:
        assert first.get(path).content == second.get(path).content, path
    calls = [client.play("ring_group_answered")["events"] for client in (first, second)]
    shown = [[(e["call_id"], e["event_name"], e["src"], e["dst_id"]) for e in events] for events in calls]
    assert shown[0] == shown[1]
    other = begin(seed=8, cdrs=300, start_at=START)
    assert other.get("/cdrs?limit=5000").content != first.get("/cdrs?limit=5000").content


@pytest.fixture(scope="module")
def full() -> World:
    """An account of default size."""
    world = World(7, START)
    seed_history(world, 20_000)
    return world


@pytest.mark.exhaustive
def test_a_default_account_has_months_of_records(full):
    count = {name: len(collection.records) for name, collection in full.collections.items()}
    assert count["cdrs"] >= 20_000
    assert 1200 <= count["monitors"] <= 1900
    assert 600 <= count["sms"] <= 1000
    assert 100 <= count["voicemessages"] <= 220
    assert (count["users"], count["contacts"], count["ddis"]) == (12, 60, 8)
    assert (count["queues"], count["ringgroups"]) == (2, 3)
    days = sorted({record["calldate"][:10] for record in full.collections["cdrs"].records.values()})
    assert 220 <= len(days) <= 270


@pytest.mark.exhaustive
def test_every_number_and_address_is_from_a_range_reserved_for_fiction(full):
    rows = {name: list(collection.iterate_records()) for name, collection in full.collections.items()}
    fields = {"cdrs": "src dst", "contacts": "mobile tel", "faxes": "from to", "webcalls": "from"}
    extensions = {person.ext for person in full.people}
    for name, keys in fields.items():
        for number in {row[key] for row in rows[name] for key in keys.split()} - extensions - {"", None}:
            assert FICTION.fullmatch(number), (name, number)
    assert all(chat["visitor_ip"].startswith("198.51.100.") for chat in rows["chats"])
    assert all(chat["visitor_email"].endswith("@example.net") for chat in rows["chats"])
    assert 30 <= len(rows["faxes"]) <= 120


SAMPLES = {
    path.stem: "/" + path.stem.removeprefix("response-").removesuffix("-list-200")
    for path in FIXTURES.glob("response-*-list-200.json")
} | {
    "response-me-200": "/me",
    "response-queue-200": "/queues/80101",
    "response-queues-include-users-200": "/queues?include=users",
    "response-callmeback-settings-200": "/callmeback/settings/1501",
}


@pytest.mark.parametrize("name", SAMPLES)
def test_records_have_the_keys_and_types_of_the_sample(world, name):
    """Records of every collection of which the platform's response was recorded."""
    (expected,) = as_list(sample(name)["data"])[:1]
    records = as_list(world.get(SAMPLES[name]).json()["data"])
    assert records
    for record in records:
        assert set(expected) <= set(record)
        for key, value in expected.items():
            if value is not None and record[key] is not None:
                assert isinstance(record[key], (int, float) if isinstance(value, float) else type(value)), key


def as_list(data: dict | list) -> list:
    return data if isinstance(data, list) else [data]
