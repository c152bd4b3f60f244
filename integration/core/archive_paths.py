"""Check that an archived file is inside its archive."""

from __future__ import annotations

from pathlib import Path


def leads_out(data_dir: Path, relative_path: str) -> bool:
    """Return whether a path of the archive leads elsewhere (promise S13).

    The folder of the archive (`recordings`) may be a symbolic link to a larger disk. Below it neither the
    file nor a day folder may be one, and `..` is not allowed.
    """
    names = Path(relative_path).parts
    if len(names) < 2 or ".." in names or Path(relative_path).is_absolute():
        return True
    path = data_dir / names[0]
    for name in names[1:]:
        path /= name
        if path.is_symlink():
            return True
    return False
