"""Figures of other processes."""

from __future__ import annotations

from pathlib import Path


def read_peak_memory(pid: int) -> float:
    """Return the peak memory of a process in MB, 0 for an ended one."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0.0)


def measure_wait(pid: int) -> float:
    """Return the seconds in which the main thread of a process waited for a processor.

    Returns 0 if the process has ended, or if the system does not count it.
    """
    try:
        return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0
