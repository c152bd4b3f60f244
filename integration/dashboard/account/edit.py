"""Account page: forms that create, change and delete records through the platform.

`editable.py` lists the forms, `form.py` reads their fields. The forms need no scripts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from flask import abort, make_response, request
from werkzeug.wrappers import Response

from integration.access.visibility import Visibility
from integration.catalogue import field_labels
from integration.context import app_context
from integration.core.ids import parse_id
from integration.dashboard.account import blocking
from integration.dashboard.account import form as forms
from integration.dashboard.account.editable import (
    RULES,
    Mode,
    can_write,
    find_delete,
    find_operation,
    find_write,
)
from integration.dashboard.account.form import BLANK_ROWS, RecordForm
from integration.dashboard.account.sections import SECTIONS, Section
from integration.dashboard.account.widgets import describe
from integration.dashboard.site import confirmation, edit_versions, form_responses, layout
from integration.dashboard.site.edit_versions import Edit
from integration.dashboard.site.guard import current_person
from integration.mirror.records import single_record
from integration.sqlite.errors import STORAGE_FAILURES
from integration.sqlite.transaction import Transaction
from integration.sync.writing.write_through import WriteResult
from integration.workspace import announcement_files

log = logging.getLogger(__name__)

MAX_CHANGED_TOGETHER = 200
"""Records that one form changes."""
_PARENT_PATHS = {"callmeback/buttons": "/account/callmeback/settings", "chatmsgs": "/account/chats"}
"""Pages after the deletion of records without a list."""


# --- links of other pages --------------------------------------------------------------------------------


def list_new_actions(visibility: Visibility, section: Section) -> list[tuple[str, str]]:
    """Return (label, URL) of the forms for new records of a collection."""
    actions = []
    if can_write(visibility, section.collection, "create"):
        url = "/contacts/new" if section.collection == "contacts" else f"{section.path}?edit=1"
        actions.append((RULES[section.collection].new_label, url))
    if section.collection == "callmeback/settings" and can_write(visibility, "callmeback/buttons", "create"):
        actions.append(("New button", "/account/callmeback/buttons?edit=1"))
    return actions


def list_record_actions(
    visibility: Visibility, section: Section, key: int | str, values: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """Return (label, URL) of the forms of a record."""
    collection, actions = section.collection, []
    if can_write(visibility, collection, "change"):
        url = f"/contacts/{key}" if collection == "contacts" else f"{section.path}/{key}?edit=1"
        actions.append(("Edit", url))
    elif can_write(visibility, collection, "delete"):
        actions.append(("Delete", f"{section.path}/{key}?edit=1"))
    button_id = values.get("button_id")
    if button_id and can_write(visibility, "callmeback/buttons", "change"):
        actions.append(("Edit button", f"/account/callmeback/buttons/{button_id}?edit=1"))
    return actions


# --- pages -----------------------------------------------------------------------------------------------


def show_form(visibility: Visibility, section: Section, key: str | None) -> Response:
    """Show the form of a record, a new record or several records.

    `key` is None for a new record and for several.
    """
    mode = _get_mode(key)
    _require_form(visibility, section, key, mode)
    form = _open(visibility, section, mode, key, is_submitted=False)
    if number := _get_blocked_number(form):
        if refusal := blocking.find_refusal(number):
            return _render(visibility, form, key, WriteResult(400, refusal, {"source": refusal}))
        form = blocking.fill(form, number)
    return _render(visibility, form, key)


def save(visibility: Visibility, section: Section, key: str | None) -> Response:
    """Send the form to the platform: create, change or delete records.

    Of a changed record only fields that the user changed are sent, so that the others are not overwritten. If
    another user has changed one of them since the form was shown, nothing is sent.
    """
    mode = _get_mode(key)
    _require_form(visibility, section, key, mode)
    if request.form.get("drop") or request.form.get("reset_audio"):
        return _delete(visibility, section, key)
    if find_write(section.collection, mode) is None or not can_write(visibility, section.collection, mode):
        abort(404)
    form = _open(visibility, section, mode, key, is_submitted=True)
    edit = edit_versions.compare(form.entered_texts(), form.stored_texts())
    result = _check_and_send(form, key, edit)
    if not result.is_done:
        return _render(visibility, form if key is None else form.with_entries(edit.changed), key, result)
    new_id = result.record.values.get("id") if result.record is not None else None
    record_key = key or new_id
    _keep_announcement(section, record_key)
    has_page = record_key and section.collection in SECTIONS and not RULES[section.collection].create_path
    message = "Sent." if RULES[section.collection].create_path else "Saved."
    return form_responses.respond_done(
        message, f"{section.path}/{record_key}" if has_page else _list_url(section)
    )


def _get_blocked_number(form: RecordForm) -> str:
    """Return the number for which a new routing rule is opened or sent, or ''."""
    is_rule = form.section.collection == "routingrules" and form.mode == "create"
    return request.values.get(blocking.PARAMETER, "").strip() if is_rule else ""


def _get_mode(key: str | None) -> Mode:
    if key is not None:
        return "change"
    return "many" if request.values.get("edit") == "many" else "create"


def _require_form(visibility: Visibility, section: Section, key: str | None, mode: Mode) -> None:
    collection = section.collection
    can_delete = key is not None and find_delete(collection) is not None
    if find_write(collection, mode) is None and not can_delete:
        abort(404)
    if section.resource.is_listed and not visibility.can_open(section.resource):
        abort(403)
    if not can_write(visibility, collection, mode) and not (
        can_delete and can_write(visibility, collection, "delete")
    ):
        abort(403)


def _open(
    visibility: Visibility, section: Section, mode: Mode, key: str | None, *, is_submitted: bool
) -> RecordForm:
    if not can_write(visibility, section.collection, mode):
        # Records that can only be deleted have a form without fields.
        record, read_error = forms.fetch_record(visibility, section, key or "") if key else ({}, None)
        return RecordForm(section, mode, (), record, read_error)
    return forms.open_form(visibility, section, mode, key, is_submitted=is_submitted)


def _render(
    visibility: Visibility,
    form: RecordForm,
    key: str | None,
    result: WriteResult | None = None,
) -> Response:
    section, collection = form.section, form.section.collection
    page = layout.render_page(
        "account",
        "account_edit.html",
        section=section,
        list_url=_list_url(section),
        record_url=f"{section.path}/{key}" if key and collection in SECTIONS else None,
        form=form,
        key=key,
        heading=_make_heading(form, key),
        confirmation=_confirmation_name(form, key),
        together=_find_together(section) if form.mode == "many" else [],
        version=edit_versions.make_version(form.stored_texts()) if key is not None else "",
        can_delete=key is not None and can_write(visibility, collection, "delete"),
        can_reset_audio=collection == "users" and can_write(visibility, "users", "delete"),
        blocked=_get_blocked_number(form),
        has_file=any(one.kind == "file" for one in form.fields),
        result=result,
        BLANK_ROWS=BLANK_ROWS,
        dropped="reset_audio" if request.form.get("reset_audio") else "drop",
        typed_name=request.form.get(confirmation.NAME_FIELD, ""),
    )
    return make_response(page, (result.status or 502) if result is not None else 200)


def _make_heading(form: RecordForm, key: str | None) -> str:
    title = form.section.resource.title
    if form.mode == "many":
        return f"Edit several {form.section.title[0].lower()}{form.section.title[1:]}"
    if key is None:
        label = RULES[form.section.collection].new_label
        return f"New: {title}" if label == "New" else label
    return field_labels.record_title(form.record) or f"{title} {key}"


def _confirmation_name(form: RecordForm, key: str | None) -> str:
    """Return the text that the user types to confirm a deletion."""
    return " ".join(field_labels.record_title(form.record).split()) or str(key)


def _list_url(section: Section) -> str:
    return _PARENT_PATHS.get(section.collection, section.path)


# --- writes ----------------------------------------------------------------------------------------------


def _check_and_send(form: RecordForm, key: str | None, edit: Edit) -> WriteResult:
    """Send the form.

    The result is a refusal if the form has mistakes or conflicts.
    """
    if key is not None and edit.conflicts:
        stored_labels = {
            one.name: describe(one.spec, one.stored, one.choices)
            for one in form.fields
            if one.name in edit.conflicts
        }
        return edit_versions.make_refusal(stored_labels)
    filled = {one.name for one in form.fields if one.entry and one.entry != one.stored}
    mistakes: dict[str, str] = {}
    body = form.make_body(edit.changed if key is not None else filled, mistakes)
    if _get_blocked_number(form):
        for refusal in filter(None, map(blocking.find_refusal, map(str, body.get("source", ())))):
            mistakes["source"] = refusal
    if mistakes:
        return WriteResult(400, "Not sent: " + " ".join(mistakes.values()), mistakes)
    collection, rule = form.section.collection, RULES[form.section.collection]
    if form.mode == "many":
        keys = _selected_keys()
        if not keys or not body:
            return WriteResult(400, "Not sent: choose at least one record, and enter at least one value.")
        return form_responses.send_write("PATCH", f"/{collection}", [{"id": one, **body} for one in keys])
    if key is None and rule.many_by:
        values = body.pop(rule.many_by, [])
        if not values:
            missing = {rule.many_by: "Choose at least one."}
            return WriteResult(400, "Not sent: nothing is chosen.", missing)
        entries = [{rule.many_by: value, **body} for value in values]
        return form_responses.send_write("PATCH", f"/{collection}", entries)
    if key is None:
        return form_responses.send_write("POST", rule.create_path or f"/{collection}", body, once=True)
    if not body:
        return WriteResult(200)
    operation = find_write(collection, "change")
    if operation is not None and operation.is_bulk:
        return form_responses.send_write("PATCH", f"/{collection}", [{"id": parse_id(key), **body}])
    return form_responses.send_write("PATCH", f"/{collection}/{key}", body)


def _delete(visibility: Visibility, section: Section, key: str | None) -> Response:
    """Delete the record if its name was typed.

    `reset_audio` deletes only the audio of a user.
    """
    is_audio = bool(request.form.get("reset_audio"))
    operation = (
        find_operation("DELETE", f"/{section.collection}/{{id}}/audio")
        if is_audio
        else find_delete(section.collection)
    )
    if key is None or operation is None:
        abort(404)
    if not can_write(visibility, section.collection, "delete"):
        abort(403)
    form = _open(visibility, section, "change", key, is_submitted=False)
    name = _confirmation_name(form, key)
    if not confirmation.is_name_typed(name):
        message = f"Type “{name}” to confirm."
        result = WriteResult(
            400, f"Not deleted: the name differs. {message}", {confirmation.NAME_FIELD: message}
        )
        return _render(visibility, form, key, result)
    path = f"/{section.collection}/{key}" + ("/audio" if is_audio else "")
    result = form_responses.send_write("DELETE", path)
    if not result.is_done:
        return _render(visibility, form, key, result)
    if is_audio:
        return form_responses.respond_done("Audio reset.", f"{section.path}/{key}")
    if section.collection == "vmannouncements":
        _write_copy(lambda tx: announcement_files.delete(tx, parse_id(key) or 0))
    return form_responses.respond_done("Deleted.", _list_url(section))


def _keep_announcement(section: Section, key: Any) -> None:
    """Keep a copy of an uploaded announcement.

    The platform does not return its audio.
    """
    upload = request.files.get("data")
    announcement_id = parse_id(str(key)) if key is not None else None
    if (
        section.collection != "vmannouncements"
        or not upload
        or not upload.filename
        or announcement_id is None
    ):
        return
    upload.stream.seek(0)
    content, email = upload.stream.read(forms.MAX_FILE_BYTES), current_person().email
    _write_copy(lambda tx: announcement_files.save(tx, announcement_id, content, email))


def _write_copy(work: Callable[[Transaction], None]) -> None:
    """Run a write job on the copies of announcements.

    A failure is logged, not raised: the platform has done the write, and the user must not repeat it.
    """
    try:
        app_context().app_db.write(work)
    except STORAGE_FAILURES as error:
        log.warning("the copy of an announcement is not updated: %s", error)


def _selected_keys() -> list[int]:
    keys = (parse_id(text) for text in request.values.getlist("id")[:MAX_CHANGED_TOGETHER])
    return list(dict.fromkeys(key for key in keys if key is not None))


def _find_together(section: Section) -> list[tuple[int, str]]:
    """Return (id, name) of the selected records."""
    with app_context().mirror_db.read() as connection:
        found = single_record.fetch_by_key(
            connection, section.resource, _selected_keys(), include_missing=True
        )
    return [(int(key), field_labels.record_title(record) or key) for key, record in found.items()]
