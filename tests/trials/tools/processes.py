"""Figures of other processes."""

from __future__ import annotations

from pathlib import Path


def read_peak_memory(pid: int) -> float:
    """Return the peak memory of a process in MB, 0 for an ended one."""
    return _read_memory(pid, "VmHWM")


def read_present_memory(pid: int) -> float:
    """Return the present memory of a process in MB, 0 for an ended one."""
    return _read_memory(pid, "VmRSS")


def _read_memory(pid: int, name: str) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:")), 0.0)
