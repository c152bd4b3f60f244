"""Hashes of bodies, and the number of pages that are kept."""

from __future__ import annotations

import pytest

from integration.platform_api.page_memory import PageMemory, hash_body

PAGE = b'{"data":[{"id":7,"total":1}],"total":%d}'


def test_two_bodies_that_differ_in_their_total_have_one_hash() -> None:
    first, second = hash_body("cdrs", PAGE % 1), hash_body("cdrs", PAGE % 23)
    assert first.digest == second.digest
    assert (first.total, second.total) == (1, 23)


@pytest.mark.parametrize(
    "other",
    [
        hash_body("monitors", PAGE % 1),
        hash_body("cdrs", PAGE.replace(b'"total":1', b'"total":2') % 1),
        hash_body("cdrs", PAGE.replace(b'"id":7', b'"id":8') % 1),
    ],
)
def test_other_collections_and_records_have_other_hashes(other) -> None:
    assert other.digest != hash_body("cdrs", PAGE % 1).digest


@pytest.mark.parametrize(
    "body",
    [b'{"total":1,"data":[{"id":7}]}', b'{"data":{"id":7,"total":1}}', b'{"data":[],"total":"1"}', b""],
)
def test_a_body_that_does_not_end_with_a_total_has_none(body) -> None:
    assert hash_body("cdrs", body).total is None


def test_the_pages_used_least_recently_are_dropped() -> None:
    """A page of 150 records counts as 2,000 bytes."""
    memory = PageMemory[str](max_bytes=4000)
    for digest in (b"a", b"b"):
        memory.store(digest, ["facts"], 150)
    assert memory.find(b"a") == ["facts"]
    memory.store(b"c", ["more"], 150)
    assert [memory.find(digest) for digest in (b"a", b"b", b"c")] == [["facts"], None, ["more"]]
    memory.store(b"c", ["other"], 150)
    assert memory.find(b"a") == ["facts"]


def test_small_pages_are_bounded_as_well() -> None:
    """Each minute brings new pages of one record."""
    memory = PageMemory[str](max_bytes=8080)
    for number in range(100):
        memory.store(b"%d" % number, ["facts"], 1)
    assert sum(1 for number in range(100) if memory.find(b"%d" % number)) == 10
