"""The product with one bug planted: the receiver acknowledges before the commit. For the crash trial only."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from integration.cli import main
from integration.inbox import store

durable = store.Inbox.receive


def too_early(inbox: store.Inbox, body: bytes) -> Future[store.Acknowledgement]:
    """Answers at once; the commit follows a moment later, long enough for every kill to come between."""
    later = threading.Timer(0.2, durable, (inbox, body))
    later.daemon = True
    later.start()
    answer: Future[store.Acknowledgement] = Future()
    answer.set_result("stored")
    return answer


store.Inbox.receive = too_early  # type: ignore[method-assign]

if __name__ == "__main__":
    main()
