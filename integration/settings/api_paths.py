"""Paths of the two REST APIs: base paths of the facade, and OWN_API_PATH of the own API."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from integration.settings.model import Settings

OWN_API_PATH = "/api"


def list_base_paths(settings: Settings) -> tuple[str, ...]:
    """Return the base paths of the facade, longest first.

    These are the configured paths, and the path of `platform.base_url` with either version segment.
    """
    paths = {path.rstrip("/") for path in settings.facade.base_paths}
    platform_path = urlsplit(str(settings.platform.base_url)).path.rstrip("/")
    if platform_path:
        paths.add(platform_path)
        segments = platform_path.split("/")
        for index, segment in enumerate(segments):
            if segment in ("v1.1", "v1.2"):
                paths |= {
                    "/".join([*segments[:index], version, *segments[index + 1 :]])
                    for version in ("v1.1", "v1.2")
                }
    return tuple(sorted((path for path in paths if path), key=lambda path: (-len(path), path)))


def find_conflicting_base_path(settings: Settings) -> str | None:
    """Return the base path of the facade at or below OWN_API_PATH. It has precedence: the own API is off.

    None if there is none.
    """
    return next(
        (path for path in list_base_paths(settings) if f"{path}/".startswith(f"{OWN_API_PATH}/")), None
    )
