"""Who writes in a data_dir now, asked without leaving a trace there."""

from __future__ import annotations

from pathlib import Path

from integration.core import process_lock as lock


def writer(data_dir: Path) -> str | None:
    """The process that holds the lock, in words; None for nobody. Raises SwitchroomError for no permission.

    Where there is no lock file nobody ever wrote, and none is made: as root it would keep out the user that
    `serve` runs as.
    """
    if not (data_dir / lock.LOCK_FILE).exists():
        return None
    try:
        lock.take(data_dir, "look").release()
    except lock.Held as held:
        return str(held.holder or "another process")
    return None
