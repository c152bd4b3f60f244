"""A sender that never ends its body, or a reader that never reads, holds a thread, but not all of them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from werkzeug.exceptions import ServiceUnavailable

from integration.web.request_limits import RequestLimits

MAX_WAITING = 3
"""Two of these for one address."""


class Sender:
    """A request's body, which comes when it is let go."""

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()

    def read(self, _size: int = -1) -> bytes:
        self.asked.set()
        self.go.wait(20)
        return b"body"


def echo(environ, start_response):
    start_response("200 OK", [])
    return [environ["wsgi.input"].read()]


def ask(application, sender=None, address="192.0.2.1"):
    told = []
    body = application({"wsgi.input": sender, "REMOTE_ADDR": address}, lambda *said: told.append(said))
    return told[0][0].partition(" ")[0], body


def test_bodies_are_waited_for_up_to_a_bound_for_each_address_and_for_all():
    application, slow, ready = RequestLimits(echo, MAX_WAITING), [Sender() for _ in range(3)], Sender()
    ready.go.set()
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(ask, application, sender) for sender in slow[:2]]
        assert all(sender.asked.wait(10) for sender in slow[:2])
        with pytest.raises(ServiceUnavailable):
            ask(application, ready)
        assert ask(application, ready, "192.0.2.2") == ("200", [b"body"])
        waiting.append(pool.submit(ask, application, slow[2], "192.0.2.2"))
        assert slow[2].asked.wait(10)
        with pytest.raises(ServiceUnavailable):
            ask(application, ready, "192.0.2.3")
        for sender in slow:
            sender.go.set()
        assert [one.result(10) for one in waiting] == [("200", [b"body"])] * 3
    assert ask(application, ready) == ("200", [b"body"])


class Big:
    """An answer that comes bit by bit."""

    def __init__(self) -> None:
        self.closed = 0

    def __iter__(self):
        return iter([b"a", b"b"])

    def close(self) -> None:
        self.closed += 1


def answering(body, *headers):
    def application(_environ, start_response):
        start_response("200 OK", list(headers))
        return body

    return RequestLimits(application, MAX_WAITING)


def test_answers_bit_by_bit_are_bounded_and_free_their_place_when_closed():
    big = Big()
    application = answering(big)
    first, second = ask(application)[1], ask(application)[1]
    status, refused = ask(application)
    assert (status, big.closed) == ("503", 1)
    assert b"errors" in refused[0]
    first.close()
    first.close()
    assert big.closed == 2
    status, third = ask(application)
    assert (status, list(third)) == ("200", [b"a", b"b"])
    assert ask(application)[0] == "503"
    second.close()
    assert ask(application)[0] == "200"


def test_an_answer_that_fails_is_closed_all_the_same():
    class Failing(Big):
        def __iter__(self):
            yield b"a"
            raise OSError("the disk failed")

    failing = Failing()
    with pytest.raises(OSError, match="the disk failed"):
        ask(answering(failing, ("Content-Length", "2")))
    assert failing.closed == 1


def test_what_is_small_is_handed_over_whole_and_live_streams_pass():
    small = Big()
    assert ask(answering(small, ("Content-Length", "2"))) == ("200", [b"ab"])
    assert small.closed == 1
    live = Big()
    assert ask(answering(live, ("Content-Type", "text/event-stream"))) == ("200", live)
