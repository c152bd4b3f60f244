"""Commands of the running process: their registry, progress and results.

A handler executes one command of the command line or of a page. `server/control_channel.py` calls the handler
for another process; a page calls the same function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from integration.core.errors import SwitchroomError

SOCKET_FILE = "control.sock"
"""Name of the control channel's Unix socket in `data_dir`."""

COMMAND_LINE = "command line"
"""Name of a user of the command line in the audit log."""

Result = dict[str, Any]
Arguments = dict[str, Any]


class Progress:
    """Progress of one command: `progress(done=3, total=9)` sends these values to the client.

    `can_continue` becomes False when the work must end at its next commit: the client disconnected, or this
    process is stopping. A handler then raises `Unfinished(arguments)` with the remaining work.
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
    """A handler ended early. `arguments` request the remaining work."""

    def __init__(self, arguments: Arguments) -> None:
        super().__init__("ended early")
        self.arguments = arguments


Handler = Callable[[Any, Arguments, Progress], Result]
"""`(context, arguments, progress) -> result`.

The context is an `AppContext`, or an object with the part of it that the handler declares. Arguments and
results are JSON.
"""

H = TypeVar("H", bound=Handler)

_NAME = re.compile(r"[a-z]+\.[a-z]+")
_handlers: dict[str, Handler] = {}


def command(name: str) -> Callable[[H], H]:
    """Register the decorated function as handler of the command `name`.

    `name`: of the form `noun.verb`. `factory.py`, which lists the modules of commands, must import the
    module.
    """

    def register(handler: H) -> H:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a command. Use the form noun.verb.")
        if name in _handlers:
            raise ValueError(f"The command {name!r} has a handler in {_handlers[name].__module__} already.")
        _handlers[name] = handler
        return handler

    return register


def registry() -> Mapping[str, Handler]:
    """Return the handlers of all imported modules, by command name."""
    return MappingProxyType(_handlers)


def find_handler(name: str) -> Handler:
    """Return the handler of a command. Raises SwitchroomError for an unknown name."""
    try:
        return _handlers[name]
    except KeyError:
        raise SwitchroomError(
            f"The running process has no command {name!r}. If its version differs, restart it."
        ) from None
