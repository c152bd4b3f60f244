"""System's own pages and buttons: events that need a look, backups, what doctor says, the write journal."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, abort, redirect, request

from integration.access import audit
from integration.context import House, this_house
from integration.core.errors import SwitchroomError
from integration.dashboard.site import layout as shell
from integration.dashboard.site.background_jobs import Job, Tell, these_jobs
from integration.dashboard.site.guard import current_person, needs
from integration.inbox.replay_command import REPLAY
from integration.maintenance import backup, doctor, manifest
from integration.server.control_channel import Progress
from integration.sync.writing import write_log as journal

blueprint = Blueprint("system_work", __name__, url_prefix="/system")

JOURNAL_PAGE = 100
BACKUPS_SHOWN = 30


def back(place: str) -> Response:
    return redirect(f"/system#{place}", 303)  # type: ignore[return-value]


def begin(name: str, what: str, work: Any) -> None:
    """Start a job and put it into the audit: when it begins, and how it ended."""
    house, who, address = this_house(), current_person().email, request.remote_addr or ""

    def ended(job: Job) -> None:
        audit.record(house.house, who, what, job.said, job.state, address=address)

    if these_jobs().begin(name, who, work, ended) is not None:
        audit.record(house.house, who, what, result="begun", address=address)


@blueprint.post("/replay")
@needs("admin")
def replay() -> Response:
    """Failed webhooks once more, by the handler that the command hands its work to."""
    jobs = these_jobs()
    handler = jobs.commands.get(REPLAY)
    if handler is None:
        abort(503, "This process applies no webhooks.")

    def work(tell: Tell) -> str:
        progress = Progress(lambda facts: tell("webhooks", facts["done"], facts["total"]), lambda: True)
        result = handler({"failed": True}, progress)
        return f"{result['applied']} applied, {result['failed']} failed again"

    begin("replay", "failed webhooks replayed", work)
    return back("troubled")


@blueprint.post("/backup")
@needs("admin")
def back_up() -> Response:
    house = this_house()
    data_dir, dest = house.settings.storage.data_dir, backup.destination(house.settings)

    def work(tell: Tell) -> str:
        made = backup.make(data_dir, dest, tell)
        notes = f"; {len(made.notes)} files need a look: {made.notes[0]}" if made.notes else ""
        return f"{made.path.name}: {made.files} files, {made.bytes / 1e6:,.0f} MB{notes}"

    begin("backup", "backup", work)
    return back("backups")


def backups(house: House) -> tuple[list[dict[str, Any]], str]:
    """Finished backups, newest first (name, made_at, version, files, bytes, error), and why there are none to
    be seen, if the folder can't be read."""
    try:
        folders = sorted(backup.destination(house.settings).glob(backup.NAMES), reverse=True)[:BACKUPS_SHOWN]
    except OSError as error:
        return [], error.strerror or str(error)
    found: list[dict[str, Any]] = []
    for folder in folders:
        try:
            made = manifest.read(folder)
        except SwitchroomError as error:
            found.append({"name": folder.name, "error": str(error)})
            continue
        found.append(
            {
                "name": folder.name,
                "made_at": made.made_at,
                "version": made.version,
                "files": len(made.files),
                "bytes": sum(entry.size for entry in made.files),
            }
        )
    return found, ""


@blueprint.get("/events/<int:seq>")
@needs("supervisor")
def event(seq: int) -> str:
    """One webhook as it was received."""
    row = this_house().inbox.one(seq)
    if row is None:
        abort(404)
    return shell.page("system", "system_event.html", event=row, body=row["body"].decode("utf-8", "replace"))


@blueprint.get("/doctor")
@needs("admin")
def examined() -> str:
    """What `switchroom doctor` says. It asks the platform and our public address, so it may take seconds."""
    return shell.page("system", "system_doctor.html", lines=list(doctor.examine(this_house().settings)))


@blueprint.get("/journal")
@needs("admin")
def written() -> str:
    before = request.args.get("before", "")
    number = int(before) if before.isdecimal() and len(before) <= 18 else None
    found = journal.newest(this_house().house, JOURNAL_PAGE + 1, number)
    older = found[JOURNAL_PAGE - 1].id if len(found) > JOURNAL_PAGE else None
    return shell.page(
        "system", "system_journal.html", entries=found[:JOURNAL_PAGE], older=older, newest=not before
    )
