"""Commands of the running process: their handlers, progress and results.

A handler does one command of the command line or of a page. `server/control_channel.py` calls it for another
process, `dashboard/site/background_jobs.py` for a button.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from integration.core.errors import SwitchroomError

SOCKET_FILE = "control.sock"
"""Name of the control channel's Unix socket in `data_dir`."""

Result = dict[str, Any]
Arguments = dict[str, Any]


class Progress:
    """Progress of one command: `progress(done=3, total=9)` sends these facts to the client.

    `can_continue` becomes False when the work must end at its next commit: the client disconnected, or this
    process is stopping. A handler then raises `Unfinished(arguments)` with the work that is left.
    """

    def __init__(self, send: Callable[[dict[str, Any]], None], can_continue: Callable[[], bool]) -> None:
        self._send = send
        self._can_continue = can_continue

    def __call__(self, **facts: Any) -> None:
        self._send(facts)

    @property
    def can_continue(self) -> bool:
        return self._can_continue()


class Unfinished(Exception):
    """Raised by a handler that ends early; `arguments` request the rest of the work."""

    def __init__(self, arguments: Arguments) -> None:
        super().__init__("ended early")
        self.arguments = arguments


Handler = Callable[[Arguments, Progress], Result]


def find_handler(handlers: Mapping[str, Handler], command: str) -> Handler:
    """Return the handler of `command`. Raises SwitchroomError if this process has none."""
    try:
        return handlers[command]
    except KeyError:
        raise SwitchroomError(
            f"the process that writes does not know {command!r}; restart it if it is of another version"
        ) from None
