"""System's pages and buttons about the mirror: each day of the ledger, a proof now, fields made columns."""

from __future__ import annotations

from flask import Blueprint, Response, abort, request

from integration.catalogue import UnknownResource, resource
from integration.catalogue.shapes import Resource
from integration.context import this_house
from integration.dashboard.site import layout as shell
from integration.dashboard.site.background_jobs import Tell, these_jobs
from integration.dashboard.site.guard import current_person, needs
from integration.dashboard.system.work import back, begin
from integration.mirror.sync_state import completeness as coverage
from integration.server.control_channel import Progress
from integration.sync.plan import PLAN
from integration.sync.reading.verify import PROVE, Proof
from integration.workspace import promoted_fields as promoted

blueprint = Blueprint("system_mirror", __name__, url_prefix="/system")


@blueprint.get("/coverage/<path:collection>")
def days(collection: str) -> str:
    """Every day of a collection that was counted, newest first."""
    of = _mirrored(collection)
    with this_house().mirror.read() as connection:
        found = coverage.days(connection, of.collection)
    return shell.page("system", "system_coverage.html", collection=of.collection, days=found)


@blueprint.post("/prove")
@needs("admin")
def prove() -> Response:
    """The same as `switchroom verify --coverage`, by the same handler."""
    handler = these_jobs().commands.get(PROVE)
    if handler is None:
        abort(503, "This process asks the platform for nothing.")

    def work(tell: Tell) -> str:
        progress = Progress(
            lambda facts: tell(f"/{facts['collection']}", facts["done"] or 0, facts["total"] or 0),
            lambda: True,
        )
        proofs = [Proof(**one) for one in handler({"resources": list(PLAN)}, progress)["proofs"]]
        missing = [one.collection for one in proofs if not one.proved]
        days = sum(one.days for one in proofs)
        said = f"{len(proofs) - len(missing)} of {len(proofs)} collections proved, {days:,} days counted"
        return f"{said}; not proved: {', '.join(missing)}" if missing else said

    begin("prove", "completeness proved", work)
    return back("coverage")


@blueprint.post("/promote")
@needs("admin")
def promote() -> Response:
    """Make an undocumented field a column."""
    house, who = this_house(), current_person().email
    of, name = _mirrored(request.form.get("collection", "")), request.form.get("field", "")

    def work(tell: Tell) -> str:
        def told(done: int, total: int) -> None:
            tell(f"{of.collection}.{name}", done, total)

        promoted.promote(house.house, house.mirror, of, name, who, told)
        return f"{name[:64]} is a column of {of.table}"

    begin("promote", f"{of.collection}.{name[:64]} made a column", work)
    return back("drift")


@blueprint.post("/demote")
@needs("admin")
def demote() -> Response:
    """Take such a column away."""
    house = this_house()
    of, name = _mirrored(request.form.get("collection", "")), request.form.get("field", "")

    def work(_tell: Tell) -> str:
        promoted.demote(house.house, house.mirror, of, name)
        return f"{name[:64]} is no longer a column of {of.table}"

    begin("promote", f"{of.collection}.{name[:64]} no longer a column", work)
    return back("drift")


def _mirrored(name: str) -> Resource:
    try:
        of = resource(name)
    except UnknownResource:
        abort(404)
    if of.collection not in PLAN:
        abort(404)
    return of
