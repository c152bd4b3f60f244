"""Calls as rows: written where they differ, and announced; every id that they ever had leads to them."""

from __future__ import annotations

from collections.abc import Sequence

from integration.core.timestamps import stamp
from integration.mirror.calls import reading
from integration.mirror.calls.affected_legs import Region
from integration.mirror.calls.joins import Joined
from integration.mirror.calls.outcomes import CallRow
from integration.mirror.calls.schema import insert_sql, update_sql
from integration.mirror.page_queries import report_rollups as summary
from integration.sqlite.transaction import Transaction

PAST = 12 * 3600
"""Seconds after which a call that ended is history: a page shows no such call come, so that new ones need not
be told one by one."""

_DUE = CallRow._fields.index("due_at")
_STARTED = CallRow._fields.index("started_at")
_CALL_COLUMNS = (*CallRow._fields, "change_no")
_NEW_CALL, _SAME_CALL = insert_sql("_calls", _CALL_COLUMNS), update_sql("_calls", _CALL_COLUMNS)


def write_calls(
    tx: Transaction, rows: Sequence[CallRow], joined: Sequence[Joined], region: Region, now: float
) -> None:
    """Write what `region` came to, in place of the calls that its legs belonged to before."""
    former = {row[1] for row in region.before.values()}
    ids = {row.id for row in rows}
    old = {
        row[0]: tuple(row)
        for row in tx.execute(
            "SELECT * FROM _calls WHERE id IN (SELECT value FROM json_each(?))",
            (reading.ids_json(former | ids),),
        )
    }
    lost = sorted(id_ for id_ in former - ids if id_ in old)
    for id_ in lost:
        tx.execute("DELETE FROM _calls WHERE id = ?", (id_,))
        tx.announce("call_gone", id_)
    _lead_on(tx, joined, region, lost)
    past = stamp(now - PAST) or ""
    new: list[CallRow] = []
    history: list[CallRow] = []
    changed: list[CallRow] = []
    for row in rows:
        before = old.get(row.id)
        if before is None:
            over = row.state == "ended" and (row.ended_at or "") < past
            (history if over else new).append(row)
        elif before[:_DUE] != row[:_DUE]:
            changed.append(row)
        elif before[_DUE] != row.due_at:
            tx.execute("UPDATE _calls SET due_at = ? WHERE id = ?", (row.due_at, row.id))
    starts = {row.started_at for row in (*new, *history, *changed)}
    summary.due(tx, starts | {old[row.id][_STARTED] for row in changed})
    tx.executemany(_NEW_CALL, [(*row, _tell(tx, row)) for row in new])
    tx.executemany(_SAME_CALL, [(*row[1:], _tell(tx, row), row.id) for row in changed])
    if history:
        numbers = tx.announce_many("history", len(history))
        tx.executemany(_NEW_CALL, [(*row, number) for row, number in zip(history, numbers, strict=True)])


def _tell(tx: Transaction, row: CallRow) -> int:
    told = {"id": row.id, "state": row.state, "outcome": row.outcome, "direction": row.direction}
    return tx.announce("call", row.id, told)


def _lead_on(tx: Transaction, joined: Sequence[Joined], region: Region, lost: Sequence[int]) -> None:
    """Every id a call ever had leads to it: its legs' and roots', and those of calls merged into it."""
    leads: dict[int, int] = {}
    for call in joined:
        leads.update(dict.fromkeys(call.roots, call.id))
    for call in joined:
        leads.update(dict.fromkeys((*call.legs, call.id), call.id))
    known = dict(
        tuple(row)
        for row in tx.execute(
            "SELECT id, call_id FROM _call_ids WHERE id IN (SELECT value FROM json_each(?))",
            (reading.ids_json(leads),),
        )
    )
    fresh = [(id_, call_id) for id_, call_id in leads.items() if id_ not in known]
    moved = [(call_id, id_) for id_, call_id in leads.items() if known.get(id_, call_id) != call_id]
    tx.executemany("INSERT INTO _call_ids VALUES (?, ?)", fresh)
    tx.executemany("UPDATE _call_ids SET call_id = ? WHERE id = ?", moved)
    for id_ in lost:
        heirs = [leads[leg] for leg, row in region.before.items() if row[1] == id_ and leg in leads]
        heir = leads.get(id_) or min(heirs, default=None)
        if heir is None:
            tx.execute("DELETE FROM _call_ids WHERE call_id = ?", (id_,))
        else:
            tx.execute("UPDATE _call_ids SET call_id = ? WHERE call_id = ?", (heir, id_))
