"""A sender that never ends its body holds a thread, but not all of them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from werkzeug.exceptions import ServiceUnavailable

from integration.processes import bodies
from integration.processes.bodies import Bodies


class Sender:
    """A request's body, which comes when it is let go."""

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()

    def read(self, _size: int = -1) -> bytes:
        self.asked.set()
        self.go.wait(20)
        return b"body"


@pytest.fixture
def application(monkeypatch):
    monkeypatch.setattr(bodies, "MOST", 3)
    monkeypatch.setattr(bodies, "MOST_OF_ONE", 2)
    return Bodies(lambda environ, _start: [environ["wsgi.input"].read()])


def ask(application, sender, address):
    return application({"wsgi.input": sender, "REMOTE_ADDR": address}, None)


def test_bodies_are_waited_for_up_to_a_bound_for_each_address_and_for_all(application):
    slow = [Sender() for _ in range(3)]
    ready = Sender()
    ready.go.set()
    with ThreadPoolExecutor(3) as pool:
        waiting = [
            pool.submit(ask, application, slow[0], "192.0.2.1"),
            pool.submit(ask, application, slow[1], "192.0.2.1"),
        ]
        assert all(sender.asked.wait(10) for sender in slow[:2])
        with pytest.raises(ServiceUnavailable):
            ask(application, ready, "192.0.2.1")
        assert ask(application, ready, "192.0.2.2") == [b"body"]
        waiting.append(pool.submit(ask, application, slow[2], "192.0.2.2"))
        assert slow[2].asked.wait(10)
        with pytest.raises(ServiceUnavailable):
            ask(application, ready, "192.0.2.3")
        for sender in slow:
            sender.go.set()
        assert [one.result(10) for one in waiting] == [[b"body"]] * 3
    assert ask(application, ready, "192.0.2.1") == [b"body"]
