"""What commands show while they work: progress on a terminal, plain lines elsewhere, always on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def print_message(message: str) -> None:
    """One message, on standard error."""
    print(message, file=sys.stderr, flush=True)


@contextmanager
def show_progress() -> Iterator[Callable[[str, int, int], None]]:
    """A function to be called with what is worked on, what is done and the total; a bar on a terminal,
    nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _step, _done, _total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def report_progress(step: str, done: int, total: int) -> None:
            bar.update(task, description=step, completed=done, total=total or None)

        yield report_progress
