"""`verify --coverage`: every collection held against the platform now, every day of what has days.

What the schedule proves piece by piece is proved here in one go, and repaired on the way: a day that differs
is read again, a collection that differs still is walked once from its newest record to its oldest, which
also settles what the platform deleted. A collection that can't be read is not proved, whatever was known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from integration.core import clock
from integration.core.errors import PlatformError
from integration.mirror.sync_state import collection_state as walks
from integration.mirror.sync_state import completeness as ledger
from integration.mirror.sync_state.completeness import WHOLE, Day
from integration.server.control_channel import Arguments, Handler, Progress, Result, Unfinished
from integration.sync.context import Parts
from integration.sync.plan import PLAN, Policy
from integration.sync.reading import day_counts as coverage
from integration.sync.reading import live_poll as live
from integration.sync.reading.full_sync import walk
from integration.sync.reading.incremental_sync import look_back
from integration.sync.reading.page_store import Interrupted, Tally, is_off, note_failure

PROVE = "prove"


@dataclass(slots=True)
class Proof:
    """What came of one collection. `there` is the platform's count of records, `here` ours; `days` UTC days
    that were asked for and `agree` those on which both count the same; `gaps` the others; `came` records
    that were missing and are here now; `off` means that the platform refuses the whole collection."""

    collection: str
    there: int | None = None
    here: int = 0
    days: int = 0
    agree: int = 0
    came: int = 0
    off: bool = False
    held: int = 0
    error: str | None = None
    gaps: list[dict[str, Any]] = field(default_factory=list)
    every: list[dict[str, Any]] = field(default_factory=list)

    @property
    def proved(self) -> bool:
        """Whether nothing is missing. What the platform shows to nobody is not missing here."""
        return self.off or (self.error is None and not self.gaps)


def handler(parts: Parts) -> Handler:
    """`prove` {resources: collections of the plan, every_day}: `proofs` as above, `complete`."""

    def prove(arguments: Arguments, progress: Progress) -> Result:
        proofs = [Proof(**done) for done in arguments.get("done", ())]
        left = list(arguments["resources"])
        while left:
            try:
                proofs.append(
                    prove_collection(
                        parts, PLAN[left[0]], progress, every_day=bool(arguments.get("every_day"))
                    )
                )
            except Interrupted as early:
                done = [asdict(proof) for proof in proofs]
                raise Unfinished({**arguments, "resources": left, "done": done}) from early
            left.pop(0)
        coverage.tell(parts)
        return {
            "proofs": [asdict(proof) for proof in proofs],
            "complete": all(proof.proved for proof in proofs),
        }

    return prove


def prove_collection(parts: Parts, policy: Policy, progress: Progress, *, every_day: bool = False) -> Proof:
    """Hold one collection against the platform. The platform's failures stand in the proof.

    Raises Interrupted, StorageError.
    """
    proof = Proof(policy.collection)

    def show(done: int, total: int | None) -> None:
        progress(collection=policy.collection, done=done, total=total)

    tally = Tally(show=show, wanted=lambda: progress.wanted)
    tally.check()
    show(0, None)
    try:
        if policy.kind == "grows":
            _prove_history(parts, policy, tally, proof)
        elif policy.kind == "live":
            live.poll(parts)
        else:
            # A list is small: reading all of it, which is believed only if it is as long as the platform
            # says, proves more than counting.
            walk(parts, policy, tally)
    except PlatformError as error:
        tally.check()
        proof.error, proof.off = str(error), is_off(error)
        note_failure(parts, policy, error)
    proof.came = tally.inserted
    _describe(parts, policy, proof, every_day)
    return proof


def _prove_history(parts: Parts, policy: Policy, tally: Tally, proof: Proof) -> None:
    with parts.mirror.read() as connection:
        complete = walks.state_of(connection, policy.collection).complete_at
    if complete is None:
        proof.error = "never read completely yet; `switchroom sync` does, or goes on with it"
        return
    # What came since the last look-back is no gap.
    look_back(parts, policy, replace(tally, show=lambda _done, _total: None, changed=[]))
    with parts.mirror.read() as connection:
        oldest = ledger.oldest(connection, policy.resource, coverage.kept_since(parts, policy))
        days = coverage.every_day(oldest, clock.now())
    proof.days = coverage.prove_days(parts, policy, days, tally)
    coverage.prove_whole(parts, policy)
    differing = _gaps(parts, policy)
    if differing:
        walk(parts, policy, tally, afresh=True)
        coverage.prove_days(parts, policy, [day.day for day in differing if day.day != WHOLE], tally)
        coverage.prove_whole(parts, policy)


def _gaps(parts: Parts, policy: Policy) -> Sequence[Day]:
    with parts.mirror.read() as connection:
        return ledger.gaps(connection, policy.collection)


def _describe(parts: Parts, policy: Policy, proof: Proof, every_day: bool) -> None:
    """What the tables say now."""
    with parts.mirror.read() as connection:
        state = walks.state_of(connection, policy.collection)
        gaps = ledger.gaps(connection, policy.collection)
        days = ledger.days(connection, policy.collection)
    proof.here, proof.there, proof.held = state.rows, state.total, state.held or 0
    whole = next((day for day in days if day.day == WHOLE), None)
    if whole is not None:
        proof.there = whole.total
    proof.gaps = [asdict(gap) for gap in gaps]
    proof.agree = proof.days - sum(1 for gap in gaps if gap.day != WHOLE)
    if every_day:
        proof.every = [asdict(day) for day in days if day.day != WHOLE]
