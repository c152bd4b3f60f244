"""Names of collections and exports for the completion of a shell."""

from __future__ import annotations

import click


def complete_collections(_context: click.Context, _parameter: click.Parameter, start: str) -> list[str]:
    """Return the collections that the commands `sync` and `verify --coverage` accept."""
    # Imported here because only a completion needs the lists.
    from integration.sync.plan import PLAN

    return sorted(name for name in PLAN if name.startswith(start))


def complete_exports(_context: click.Context, _parameter: click.Parameter, start: str) -> list[str]:
    """Return the collections and ready-made exports that the command `export` accepts."""
    from integration.exports.presets import PRESETS

    presets = [name for name in PRESETS if name.startswith(start)]
    return sorted({*presets, *complete_collections(_context, _parameter, start)})
