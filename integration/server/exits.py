"""Ends of a process that serves or works alone."""

from __future__ import annotations

import logging
import os
from typing import NoReturn

log = logging.getLogger(__name__)

EXIT_BROKEN = 70
"""Exit status of a worker whose disk failed or with a damaged database.

Only a new process can use the database again.
"""

EXIT_ORPHANED = 71
"""Exit status of a worker whose supervisor was killed."""


def exit_process(status: int) -> NoReturn:
    """End the process at once, after its log is written."""
    for handler in logging.getLogger().handlers:
        handler.flush()
    # Not sys.exit, which would wait for all threads.
    os._exit(status)


def exit_broken(error: BaseException) -> NoReturn:
    """End the process at once after a disk failure.

    The supervisor starts a new worker. This function is passed to each `Database` as `on_broken` (promise
    P18: a failed handle is not used again).
    """
    log.critical("ending this worker: %s", error)
    exit_process(EXIT_BROKEN)
