"""Account page: forms that change records through the platform.

EDIT_RULES lists the fields; their types and descriptions come from the catalogue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from flask import abort, make_response, request
from werkzeug.wrappers import Response

from integration.access.rights import Role, has
from integration.access.visibility import Visibility
from integration.catalogue import OPERATIONS, field_labels
from integration.catalogue.field_meanings import get_meaning
from integration.catalogue.shapes import Field, Meaning
from integration.catalogue.undocumented_operations import UNDOCUMENTED_OPERATIONS
from integration.context import app_context
from integration.core.errors import PlatformError
from integration.core.ids import parse_id
from integration.core.json_records import read_record
from integration.dashboard.account.sections import SECTIONS, Section
from integration.dashboard.site import form_responses, layout
from integration.mirror.page_queries import history
from integration.mirror.query import browse
from integration.mirror.records import dictionaries
from integration.platform_api.budget import INTERACTIVE
from integration.sync.writing.write_through import WriteResult

InputKind = Literal["text", "prose", "number", "yes", "choice", "people", "agents"]
MEMBERS_FIELD = "users"
"""Field of ring groups and queues that lists their members."""
MAX_TEXT_LENGTH = 2000
"""Characters of one field; longer input is truncated."""


@dataclass(frozen=True, slots=True)
class EditRule:
    """Form of a collection: fields in order and minimum role.

    `can_add_and_delete` also allows the creation and deletion of records.
    """

    fields: tuple[str, ...]
    can_add_and_delete: bool = False
    min_role: Role = "supervisor"


EDIT_RULES: Mapping[str, EditRule] = {
    "sms/cannedresponses": EditRule(("name", "text"), can_add_and_delete=True),
    "calllabels": EditRule(("name", "color"), can_add_and_delete=True),
    "ringgroups": EditRule(("name", MEMBERS_FIELD, "strategy", "ring_time", "cli_prefix")),
    # The platform can change only the members of queues (docs/platform.md#7-resources).
    "queues": EditRule((MEMBERS_FIELD,)),
}


@dataclass(frozen=True, slots=True)
class FormField:
    """Field of a form with its current value.

    `options` are (value, label) of a choice or of all platform users. `members` maps the ids of members to
    whether they are logged in.
    """

    name: str
    label: str
    kind: InputKind
    value: str = ""
    description: str = ""
    options: tuple[tuple[str, str], ...] = ()
    members: Mapping[str, bool] | None = None


def find_edit_rule(visibility: Visibility, section: Section) -> EditRule | None:
    """Return the edit rule of the collection.

    Returns None if the collection has no rule or the viewer may not edit its records.
    """
    rule = EDIT_RULES.get(section.collection)
    return rule if rule is not None and has(visibility, rule.min_role) else None


def new_record_url(visibility: Visibility, section: Section) -> str | None:
    """Return the URL of the form for a new record.

    Returns None if the collection has no such form or the viewer may not create records.
    """
    if section.collection == "contacts":
        return "/contacts/new" if has(visibility, "agent") else None
    rule = find_edit_rule(visibility, section)
    return f"{section.path}?edit=1" if rule is not None and rule.can_add_and_delete else None


def body_fields(collection: str) -> dict[str, Field]:
    """Return the body fields of the collection's PATCH operation, by name.

    Where the specification has no body (calllabels), these are the fields of the record.
    """
    for operation in (*OPERATIONS, *UNDOCUMENTED_OPERATIONS):
        if operation.method == "PATCH" and operation.path == f"/{collection}/{{id}}" and operation.body:
            return {field.name: field for field in operation.body}
    return {field.name: field for field in SECTIONS[collection].resource.fields}


def show_form(
    visibility: Visibility, section: Section, key: str | None, result: WriteResult | None = None
) -> Response:
    """Show the form of a record.

    If `key` is None, the form creates a record. With the `result` of a refused write, the form shows the
    entered values and the error.
    """
    rule = _require_edit_rule(visibility, section, key)
    values, read_error = _read_record(section, key) if key is not None else ({}, None)
    form_fields = _build_fields(section, rule, values)
    form_values = request.form if result is not None else None
    page = layout.render_page(
        "account",
        "account_edit.html",
        shelf=section,
        resource=section.resource,
        key=key,
        called=field_labels.record_title(values) if key is not None else "",
        inputs=form_fields,
        entered=form_values,
        can_delete=rule.can_add_and_delete,
        result=result,
        trouble=read_error,
        MEMBERS=MEMBERS_FIELD,
    )
    return make_response(page, (result.status or 502) if result is not None else 200)


def save(visibility: Visibility, section: Section, key: str | None) -> Response:
    """Send the form to the platform: create, change or delete a record.

    Only fields that differ from the record on the platform are sent, so that the others are not overwritten.
    """
    rule = _require_edit_rule(visibility, section, key)
    collection = section.collection
    if request.form.get("drop"):
        if key is None or not rule.can_add_and_delete:
            abort(404)
        result = form_responses.send_write("DELETE", f"/{collection}/{key}")
        return (
            form_responses.respond_done("Deleted.", section.path)
            if result.is_done
            else show_form(visibility, section, key, result)
        )
    current_values, _ = _read_record(section, key) if key is not None else ({}, None)
    form_fields = _build_fields(section, rule, current_values)
    mistakes: dict[str, str] = {}
    body = {
        form_field.name: value
        for form_field in form_fields
        if (value := _parse_input(form_field, mistakes)) is not None
    }
    if mistakes:
        return show_form(
            visibility, section, key, WriteResult(400, "Not sent: " + " ".join(mistakes.values()), mistakes)
        )
    if key is None:
        result = form_responses.send_write("POST", f"/{collection}", body, once=True)
    elif body:
        result = form_responses.send_write("PATCH", f"/{collection}/{key}", body)
    else:
        result = WriteResult(200)
    if not result.is_done:
        return show_form(visibility, section, key, result)
    new_id = result.record.values.get("id") if result.record is not None else None
    return form_responses.respond_done(
        "Saved.", f"{section.path}/{key or new_id}" if key or new_id else section.path
    )


def _require_edit_rule(visibility: Visibility, section: Section, key: str | None) -> EditRule:
    rule = find_edit_rule(visibility, section)
    if rule is None:
        abort(403 if section.collection in EDIT_RULES else 404)
    if key is None and not rule.can_add_and_delete:
        abort(404)
    return rule


def _read_record(section: Section, key: str | None) -> tuple[dict[str, Any], str | None]:
    """Return (record, read error).

    The record includes its members and whether they are logged in. It comes from the platform, or from the
    mirror if the request fails; only then there is a read error. Aborts with 404 if the mirror does not have
    the record.
    """
    context, resource = app_context(), section.resource
    record_key = browse.parse_key(resource, key or "")
    if record_key is None:
        abort(404)
    with context.mirror_db.read() as connection:
        row = browse.find_record(connection, resource, record_key)
    if row is None:
        abort(404)
    path = f"/{section.collection}/{record_key}"
    if any(relation.name == MEMBERS_FIELD for relation in resource.relations):
        path += f"?include={MEMBERS_FIELD}"
    try:
        return dict(context.platform.item(path, priority=INTERACTIVE, tries=1).values), None
    except PlatformError as error:
        stored_values = read_record(row["_item"] or row["_doc"]).values
        return dict(
            stored_values
        ), f"Phone system unreachable ({error}). The values shown are from the last sync."


def _build_fields(section: Section, rule: EditRule, values: Mapping[str, Any]) -> list[FormField]:
    context, fields_by_name = app_context(), body_fields(section.collection)
    resource = section.resource
    with context.mirror_db.read() as connection:
        code_labels = dictionaries.load_labels(connection, resource)
        users_by_id = {str(row["id"]): row for row in history.list_users(connection)}
    form_fields = []
    for name in rule.fields:
        field = fields_by_name.get(name) or Field(name, "string")
        value = values.get(name)
        description = field_labels.describe(field)
        label = field_labels.label_field(name)
        if name == MEMBERS_FIELD:
            kind: InputKind = "agents" if "status" in field.about else "people"
            members = _parse_members(value)
            # Show every member, even if deleted or not mirrored: saving the form would remove the others.
            options = {
                user: row["name"] for user, row in users_by_id.items() if user in members or not row["gone"]
            }
            options |= {user: "" for user in members if user not in options}
            member_options = tuple((user, member_name or user) for user, member_name in options.items())
            form_fields.append(FormField(name, "People", kind, "", "", member_options, members))
            continue
        record_field = resource.field(name)
        choice_labels = code_labels.get(name) or field_labels.parse_codes(record_field or field, name)
        kind = _field_kind(field, bool(choice_labels), get_meaning(name, record_field))
        text = "1" if value in (True, 1, "1", "true") and kind == "yes" else str(value or "")
        form_fields.append(FormField(name, label, kind, text, description, tuple(choice_labels.items())))
    return form_fields


def _field_kind(field: Field, has_codes: bool, meaning: Meaning | None) -> InputKind:
    if has_codes:
        return "choice"
    if field.actual_type == "boolean":
        return "yes"
    if field.actual_type in ("integer", "number"):
        return "number"
    return "prose" if meaning == "text" else "text"


def _parse_members(value: Any) -> dict[str, bool]:
    """Map the ids of members to whether they are logged in.

    `value` is a list of ids or of objects {id, status}. Members without a status count as logged in.
    """
    entries: Sequence[Any] = value if isinstance(value, list) else ()
    logged_in_by_user = {}
    for entry in entries:
        for user in browse.extract_ids(entry):
            is_logged_out = isinstance(entry, dict) and entry.get("status") in (False, 0, "0")
            logged_in_by_user[user] = not is_logged_out
    return logged_in_by_user


def _parse_input(form_field: FormField, mistakes: dict[str, str]) -> Any:
    """Parse an input to a value of the request body.

    Returns None if the input is unchanged or invalid. `mistakes` gets the message of an invalid input.
    """
    if form_field.kind == "people":
        user_ids = [
            user_id
            for text in request.form.getlist(form_field.name)
            if (user_id := parse_id(text)) is not None
        ]
        return user_ids if {str(user) for user in user_ids} != set(form_field.members or {}) else None
    if form_field.kind == "agents":
        states = {user: request.form.get(f"{form_field.name} {user}", "") for user, _ in form_field.options}
        members = {user: state == "in" for user, state in states.items() if state}
        if members == dict(form_field.members or {}):
            return None
        return [{"id": int(user), "status": status} for user, status in members.items()]
    text = request.form.get(form_field.name, "").strip()[:MAX_TEXT_LENGTH]
    if text == form_field.value:
        return None
    if form_field.kind == "yes":
        return text == "1"
    if form_field.kind == "number":
        if not text.isdecimal():
            mistakes[form_field.name] = f"{form_field.label} must be a whole number."
            return None
        return int(text)
    return text
