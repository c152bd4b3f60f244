"""Figures of other processes."""

from __future__ import annotations

from pathlib import Path


def measure_wait(pid: int) -> float:
    """Return the seconds in which the main thread of a process waited for a processor.

    Returns 0 if the process has ended, or if the system does not count it.
    """
    try:
        return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0
