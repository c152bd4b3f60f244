"""Check that an archived file is inside its archive."""

from __future__ import annotations

from pathlib import Path


def leads_out(data_dir: Path, relative_path: str) -> bool:
    """Return whether a path of the archive leads elsewhere (promise S13).

    The folder of the archive (`recordings`) may be a symbolic link to a larger disk. Below it neither the
    file nor a day folder may be one, and `..` is not allowed.
    """
    parts = Path(relative_path).parts
    if len(parts) < 2 or ".." in parts or Path(relative_path).is_absolute():
        return True
    path = data_dir / parts[0]
    for part in parts[1:]:
        path /= part
        if path.is_symlink():
            return True
    return False
