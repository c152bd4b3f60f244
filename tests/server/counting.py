"""Commands that count, wait or fail, for tests of processes.

Their context has a `folder`.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from integration.core.commands import Progress, Unfinished, command
from integration.core.errors import ConfigurationError, SwitchroomError


@command("count.up")
def count(context: Any, arguments: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Count up to `to`, one number per step.

    If `gate` is given, wait for this file after the first step.
    """
    done = arguments.get("from", 0)
    (context.folder / "counting").write_text(str(os.getpid()))
    while done < arguments["to"]:
        if not progress.can_continue:
            raise Unfinished({**arguments, "from": done})
        if done and "gate" in arguments and not Path(arguments["gate"]).exists():
            threading.Event().wait(0.01)
            continue
        done += 1
        progress(done=done)
    (context.folder / "counted").write_text(str(done))
    return {"done": done, "pid": os.getpid()}


@command("count.watched")
def count_watched(context: Any, arguments: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Count, and add the work that is left to `context.ended`."""
    try:
        return count(context, arguments, progress)
    except Unfinished as unfinished:
        context.ended.append(unfinished.arguments)
        raise


@command("count.refuse")
def refuse(_context: Any, _arguments: dict[str, Any], _progress: Progress) -> dict[str, Any]:
    raise SwitchroomError("the command is rejected")


@command("count.misconfigure")
def misconfigure(_context: Any, _arguments: dict[str, Any], _progress: Progress) -> dict[str, Any]:
    raise ConfigurationError(["one.key: is wrong", "other.key: too"])


@command("count.fail")
def fail(_context: Any, _arguments: dict[str, Any], _progress: Progress) -> dict[str, Any]:
    return {"x": 1 / 0}
