"""Read-ahead: the next page is requested while the current one is stored."""

from __future__ import annotations

import threading

from integration.sync.reading.collection_reader import read_ahead
from integration.sync.reading.pages import Window
from tests.support.harness import wait_for


def window(number: int) -> Window:
    return Window("2026-11-20 09:00:00", last_key=number)


def test_one_page_is_requested_ahead():
    requested: list[int] = []

    def pages():
        for number in range(4):
            requested.append(number)
            yield window(number)

    taken = []
    for page in read_ahead(pages()):
        taken.append(page.last_key)
        ready = min(len(taken) + 1, 4)
        wait_for(lambda ready=ready: len(requested) == ready, "the request of the next page")
    assert taken == requested == [0, 1, 2, 3]


def test_a_read_that_ends_early_leaves_no_thread():
    for _ in read_ahead(window(number) for number in range(9)):
        break
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("reading ahead")]
