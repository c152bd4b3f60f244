"""Memory that the C library and Python keep after its last use.

glibc keeps freed blocks for reuse: up to seven of each size for every thread, in up to eight arenas for each
processor, and returns memory to the system only from the end of an arena. A hundred threads kept 6 MB at the
start and 19 MB half an hour later; an hour of syncs left 130 to 270 MB. Without blocks of threads, with one
arena, large blocks outside of it and a trim each minute, the process shrinks again. Other C libraries
have no such settings; there is nothing to restart or trim.

Objects that refer to each other are freed only by a collection of the oldest generation. Python runs it when
a quarter of the objects is new; under load 30,000 blocks of 3 MB were added in 20 s. So one runs each minute.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import sys
from collections.abc import Mapping
from typing import Any

log = logging.getLogger(__name__)

LIMITS: Mapping[str, int] = {
    # Python allocates under its lock, so more arenas speed up nothing; each has gaps of its own.
    "glibc.malloc.arena_max": 1,
    # Freed blocks that a thread keeps, of each size. Without them SQLite and Python are as fast.
    "glibc.malloc.tcache_count": 0,
    # A freed block of any size is joined with its free neighbours at once.
    "glibc.malloc.mxfast": 0,
    # From this size on a block is mapped outside the arenas, and unmapped when it is freed. Without a fixed
    # size glibc raises it to that of the largest block freed so far, such as a page of records. With 64 KiB
    # the gaps that HTML pages and responses left took 3 MB more after an hour under load.
    "glibc.malloc.mmap_threshold": 16 * 1024,
    "glibc.malloc.trim_threshold": 256 * 1024,
}
"""Settings of glibc, by their names in the environment variable VARIABLE."""
VARIABLE = "GLIBC_TUNABLES"
"""Variable that glibc reads when a program is executed. Rejected: `mallopt`, which cannot set all of them."""
RELEASE_SECONDS = 60.0
"""Seconds between two runs of `release`; a trim of 100 MB takes 25 ms on a busy machine."""
YOUNG_OBJECTS = 50_000
"""New objects after which Python looks for cycles among them. At its 700 this took 3 % of an initial sync."""


def restart_with_limits() -> None:
    """Execute this program again with LIMITS, unless they are set.

    Returns only if there is nothing to change. The process id stays the same. Call it before threads, locks
    and sockets exist. Other settings of memory that the variable already has are used instead of LIMITS.
    """
    present = os.environ.get(VARIABLE, "")
    # A process that was forked for this command cannot be executed again by its own arguments.
    is_own_program = sys.argv[1:] == sys.orig_argv[len(sys.orig_argv) - len(sys.argv) + 1 :]
    if "glibc.malloc." in present or not is_own_program or not sys.executable or _load_glibc() is None:
        return
    limits = [f"{name}={value}" for name, value in LIMITS.items()]
    # The limits go first: some versions of glibc cut the variable after its first setting.
    os.environ[VARIABLE] = ":".join([*limits, *filter(None, [present])])
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    except OSError as error:
        log.warning("memory is not limited, because %s cannot be executed: %s", sys.executable, error)


def exempt_loaded_objects() -> None:
    """Exempt all present objects from collections: modules, routes, settings.

    They are used until the process ends. A collection then visits only newer objects, and is due after
    YOUNG_OBJECTS of them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)


def release() -> None:
    """Job that frees unused cyclic objects and returns freed memory to the system."""
    gc.collect()
    trim()


def trim() -> None:
    """Return freed memory to the system."""
    library = _load_glibc()
    if library is not None:
        library.malloc_trim(ctypes.c_size_t(0))


def _load_glibc() -> Any:
    """Return the C library if it is glibc, else None."""
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018
    except (OSError, AttributeError, TypeError):
        return None
    return library
