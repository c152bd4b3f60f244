"""Commands of the running process: their registry, progress and results.

A handler does one command of the command line or of a page. `server/control_channel.py` calls it for another
process; a page calls the same function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from integration.core.errors import SwitchroomError

SOCKET_FILE = "control.sock"
"""Name of the control channel's Unix socket in `data_dir`."""

Result = dict[str, Any]
Arguments = dict[str, Any]

FORMER_NAMES = {
    "archive.verify": "verify-media",
    "collections.sync": "sync",
    "completeness.verify": "prove",
    "deletions.undo": "undo-deletions",
    "export.record": "export.written-down",
    "fields.demote": "demote",
    "fields.promote": "promote",
    "number.erase": "erase",
    "webhooks.replay": "replay",
}
"""Name of a command → its name in earlier versions. See `exchanged_name`."""


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


Handler = Callable[[Any, Arguments, Progress], Result]
"""`(context, arguments, progress) -> result`. The context is an `AppContext`, or has the part of it that the
handler declares. Arguments and results are JSON."""

H = TypeVar("H", bound=Handler)

_NAME = re.compile(r"[a-z]+\.[a-z]+")
_current_names = {former: name for name, former in FORMER_NAMES.items()}
_handlers: dict[str, Handler] = {}


def command(name: str) -> Callable[[H], H]:
    """Register the decorated function as the handler of the command `name`, which is `noun.verb`.

    The module has to be imported by `factory.py`, which lists the modules of commands.
    """

    def register(handler: H) -> H:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a command; write noun.verb")
        if name in _handlers:
            raise ValueError(f"the command {name!r} has a handler: {_handlers[name].__module__}")
        _handlers[name] = handler
        return handler

    return register


def registry() -> Mapping[str, Handler]:
    """Return the handlers of all imported modules, by the name of their command."""
    return MappingProxyType(_handlers)


def exchanged_name(name: str) -> str:
    """Return the name of a command that processes send each other and store on disk.

    It is the name of earlier versions, so that a command reaches a process of another version, and a process
    of another version resumes an unfinished command.
    """
    return FORMER_NAMES.get(name, name)


def find_handler(name: str) -> Handler:
    """Return the handler of a command by its current or former name. Raises SwitchroomError."""
    try:
        return _handlers[_current_names.get(name, name)]
    except KeyError:
        raise SwitchroomError(
            f"The running process has no command {name!r}. If its version differs, restart it."
        ) from None
