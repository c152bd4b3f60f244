"""Memory that the C library keeps after it was freed.

glibc keeps freed memory in up to eight arenas for each processor, one for each group of threads, and returns
it to the system only from the end of an arena. In an hour of syncs that was 130 to 270 MB. With two arenas,
large blocks outside of them and a regular trim, the process shrinks after each large read. Other C libraries
have no such functions; there both functions do nothing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

MAX_ARENAS = 2
"""Arenas of the process.

Python allocates under its lock, so more arenas speed up nothing.
"""
MAX_ARENA_BLOCK_BYTES = 256 * 1024
"""Size from which a block is mapped outside the arenas and unmapped when it is freed.

Without a fixed size glibc raises it to that of the largest block freed so far, such as a page of records.
"""
TRIM_SECONDS = 60.0
"""Seconds between two trims by the worker; a trim of 100 MB takes 25 ms on a busy machine."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""Parameters of `mallopt` in <malloc.h>."""


def limit_arenas() -> bool:
    """Bound the arenas of this process. Returns whether the C library can.

    Called at the start of the worker. The variable MALLOC_ARENA_MAX has no effect there: glibc reads it when
    a program is executed, and the worker is forked.
    """
    set_option = _find_function("mallopt")
    if set_option is None:
        return False
    limits = (
        (_M_ARENA_MAX, MAX_ARENAS),
        (_M_MMAP_THRESHOLD, MAX_ARENA_BLOCK_BYTES),
        (_M_TRIM_THRESHOLD, MAX_ARENA_BLOCK_BYTES),
    )
    results = [set_option(parameter, value) for parameter, value in limits]
    return all(results)


def release_free_memory() -> None:
    """Return freed memory to the system."""
    trim = _find_function("malloc_trim")
    if trim is not None:
        trim(ctypes.c_size_t(0))


def _find_function(name: str) -> Callable[..., Any] | None:
    """Find a function of glibc. Returns None for other C libraries."""
    try:
        library = ctypes.CDLL(None)
        # musl has `mallopt` without effect in some builds; only glibc has this function.
        library.gnu_get_libc_version  # noqa: B018
        function: Callable[..., Any] = getattr(library, name)
    except (OSError, AttributeError, TypeError):
        return None
    return function
