"""Opening of inbox.db before everything else of a start, so that no webhook is refused because of it.

The other databases may need a migration, a copy or a repair first, and the routes and jobs take most of the
time of a start.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path

from integration.core.errors import StorageDamaged, SwitchroomError
from integration.inbox import store
from integration.inbox.apply import read_last_applied
from integration.inbox.store import Inbox
from integration.maintenance import version_record
from integration.mirror.privacy.erasure_gate import ErasureGate
from integration.mirror.privacy.held_records import HeldRecords
from integration.privacy import erasures
from integration.settings.data_dir_secrets import load_erasure_key
from integration.sqlite import damage
from integration.sqlite.database_files import is_empty
from integration.sqlite.migrations import read_recorded_steps
from integration.sqlite.readers import open_readonly

log = logging.getLogger(__name__)

Redaction = Callable[[bytes], bytes]


def open_inbox_early(
    data_dir: Path,
    on_broken: Callable[[BaseException], None] | None,
    on_damaged: damage.DamageHandler | None,
) -> Inbox | None:
    """Open inbox.db if it needs no creation, migration, repair or other numbers, otherwise return None.

    The complete start then opens it, and reports what is wrong.
    """
    try:
        if not all((data_dir / name).is_file() for name in ("house.db", "inbox.db")):
            return None
        redact = _check(data_dir)
    except (_NotYet, SwitchroomError, sqlite3.Error, OSError) as reason:
        log.info("webhooks are stored when the product has started: %s", reason)
        return None
    path = data_dir / "inbox.db"
    inbox = Inbox(path, on_broken=on_broken, on_damaged=damage.mark_and_report(path, on_damaged))
    inbox.redact = redact
    return inbox


class _NotYet(Exception):
    """The complete start must do something with inbox.db first."""


def _check(data_dir: Path) -> Redaction | None:
    """Return the redaction of new webhooks.

    Raises _NotYet, SwitchroomError, sqlite3.Error and OSError.
    """
    path = data_dir / "inbox.db"
    version = version_record.read(data_dir)
    if version is None or version_record.is_newer(version):
        raise _NotYet("the version of the data must be checked")
    if path.name in damage.find_marks(data_dir) or damage.get_replacement_path(path).exists():
        raise _NotYet("inbox.db is damaged")
    with open_readonly(data_dir / "house.db") as app_connection, open_readonly(path) as inbox:
        if read_recorded_steps(inbox, path.name) != set(store.MIGRATIONS):
            raise _NotYet("inbox.db must be created or migrated")
        if _read_last_applied(data_dir / "mirror.db") > store.read_last_seq(inbox):
            raise _NotYet("inbox.db is older than mirror.db")
        return _load_redaction(data_dir, app_connection)


def _read_last_applied(path: Path) -> int:
    """Return the number of the newest webhook in mirror.db; 0 if the start builds that file again."""
    if not path.is_file() or is_empty(path) or path.name in damage.find_marks(path.parent):
        return 0
    try:
        with open_readonly(path) as mirror:
            return read_last_applied(mirror)
    except StorageDamaged:
        return 0


def _load_redaction(data_dir: Path, app_connection: sqlite3.Connection) -> Redaction | None:
    """Return what removes erased numbers from webhooks; None without an erasure."""
    if not erasures.has_tables(app_connection) or not erasures.list_all(app_connection):
        return None
    # Imported here, because it costs as much as all other imports of this module.
    from integration.privacy.holds import refresh_held

    with open_readonly(data_dir / "mirror.db") as mirror:
        held_records = refresh_held(app_connection, mirror, HeldRecords())
    erasure_gate = ErasureGate(load_erasure_key(data_dir, create=False), held_records)
    erasures.load_gate(app_connection, erasure_gate)
    return erasure_gate.filter_webhook
