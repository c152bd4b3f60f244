"""Editable records of the account, and the widget of each field.

Operations and fields come from the catalogue. `RULES` adds roles, `_WIDGETS` the input of a field if its type
does not decide it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from integration.access.rights import Role, has
from integration.access.visibility import Visibility
from integration.catalogue import OPERATIONS, field_labels
from integration.catalogue.shapes import Field, FieldType, Method, Operation
from integration.catalogue.undocumented_operations import UNDOCUMENTED_OPERATIONS
from integration.dashboard.account.sections import Section

ValueKind = Literal[
    "text", "prose", "number", "decimal", "yes", "choice", "date", "phone", "colour", "secret", "file"
]
ReferenceKind = Literal["one", "destination", "many", "ordered", "agents"]
RowsKind = Literal["lines", "parties", "frequency", "rules"]
WidgetKind = Literal[ValueKind, ReferenceKind, RowsKind]
"""Inputs of the three widgets: one value, references to records, and rows."""

Mode = Literal["create", "change", "many"]
"""Purpose of a form: a new record, one record, or the same values for several records."""


@dataclass(frozen=True, slots=True)
class Widget:
    """Input of one field.

    `target`: collection of the records to choose from. `target_key`: field of them that is sent. `read_from`:
    field with the current value, if the record has another name for it. `has_suggestions`: values of other
    records are proposed. `is_required`: an empty list is never sent.
    """

    kind: WidgetKind
    target: str = ""
    target_key: str = "id"
    read_from: str = ""
    label: str = ""
    hint: str = ""
    has_suggestions: bool = False
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class FormSpec:
    """Field of a form. `name`: its name in the request body."""

    name: str
    field: Field
    widget: Widget
    label: str
    hint: str = ""

    @property
    def source(self) -> str:
        """Field of the record that has the current value."""
        return self.widget.read_from or self.name


@dataclass(frozen=True, slots=True)
class Rule:
    """Form of a collection.

    `role`: lowest role that may change records, `delete_role` and `many_role` those that may delete records
    and change several at once. `right`: right that is required in addition. `fields`: body fields if the
    specification shows none. `fixed`: fields that only a new record can have. `create_path`: path of the
    POST if it is not the collection's. `many_by`: reference field of which a new form sends one object for
    each choice. `new_label`: label of the button for a new record.
    """

    role: Role = "supervisor"
    delete_role: Role | None = None
    many_role: Role = "admin"
    right: str | None = None
    fields: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    create_path: str = ""
    many_by: str = ""
    new_label: str = "New"


RULES: Mapping[str, Rule] = {
    "calls": Rule(create_path="/leadcalls", new_label="Call with an announcement"),
    "webcalls": Rule(new_label="Connect two numbers"),
    "calllabels": Rule(fields=("name", "color")),
    "sms/cannedresponses": Rule(),
    "vmannouncements": Rule(),
    "calltracking/ddis": Rule("admin", many_by="e164", new_label="Assign numbers"),
    "calltracking/campaigns": Rule("admin"),
    "contacts": Rule("agent", many_role="supervisor"),
    "conferences": Rule(),
    "queues": Rule(),
    "ringgroups": Rule(),
    "routingrules": Rule("admin", fixed=("direction",)),
    "ivrs": Rule("admin"),
    "queuegroups": Rule(fields=("name",)),
    "users": Rule("admin"),
    "usergroups": Rule("admin"),
    "usergrouppolicies": Rule("admin"),
    "chatmsgs": Rule("admin"),
    "monitors": Rule(delete_role="admin", right="recordings"),
    "voicemessages": Rule("admin", right="recordings"),
    "callmeback/settings": Rule("admin"),
    "callmeback/buttons": Rule("admin", fields=("name", "data_online", "data_offline")),
    "reportschedules": Rule(),
}
"""By collection. Collections without a rule have no form."""

OMITTED_FIELDS: Mapping[str, str] = {
    "monitors metadata": "the specification does not show its structure",
    "reportschedules tz": "the older name of timezone",
    "users id": "identifies the record",
    "contacts id": "identifies the record",
    "calltracking/ddis id": "the number identifies the record",
}
"""Reasons for body fields without an input, by 'collection field'."""

_BULK_ACTIONS = frozenset({"cdrs", "voicemessages"})
"""Collections whose bulk PATCH is an action of another page: labels of calls, played voicemail."""

_PHONE = Widget("phone")
_PROSE = Widget("prose")
_SUGGESTED_TEXT = Widget("text", has_suggestions=True)
_SUGGESTED_NUMBER = Widget("number", has_suggestions=True)

_WIDGETS: Mapping[str, Widget] = {
    **dict.fromkeys(("text", "notes", "description", "transcript", "transcript_speakers", "summary"), _PROSE),
    **dict.fromkeys(("from", "to", "tel", "tel_1", "tel_2", "mobile", "mobile_1", "mobile_2"), _PHONE),
    **dict.fromkeys(
        ("action", "email_missed", "format", "group_name", "language", "monitor", "position"),
        _SUGGESTED_TEXT,
    ),
    **dict.fromkeys(
        ("ring_strategy", "sentiment", "status", "strategy", "timezone", "type", "direction"), _SUGGESTED_TEXT
    ),
    **dict.fromkeys(
        ("dialler_source_id", "moh_id", "outcome_id", "report_id", "button_id"), _SUGGESTED_NUMBER
    ),
    **dict.fromkeys(("agent_sounds", "caller_sounds"), Widget("text")),
    **dict.fromkeys(("pin", "pin_pstn"), Widget("secret")),
    "max_call_rate": Widget("decimal", label="Highest call rate"),
    "culture": Widget("text", label="Language", has_suggestions=True),
    "number": Widget("number", label="Internal number"),
    "start_at": Widget("date", label="First day"),
    "end_at": Widget("date", label="Last day"),
    "welcome_screen_msg": Widget("prose", label="Welcome text"),
    "data_online": Widget("prose", label="Text when people are available"),
    "data_offline": Widget("prose", label="Text when no one is available"),
    "tts": Widget("prose", label="Announcement", hint="Read to the person who answers"),
    "ext_dialing": Widget("yes", label="Callers can dial extensions"),
    "repeats": Widget("number", label="Repetitions"),
    "timeout": Widget("number", label="Wait for a key", hint="seconds"),
    "time_interval": Widget("lines", label="Time intervals", hint="Ids, one per line"),
    "post_sounds": Widget("lines", hint="One per line"),
    "location_id": Widget("number", label="Location", hint="Id of the location"),
    "color": Widget("colour"),
    "data": Widget("file", label="Audio file", hint="MP3, MP4, WAV or AAC, at most 5 MB"),
    "cx_score": Widget("number", hint="1 to 10"),
    "allowed_countries": Widget("text", hint="Country codes with commas: GB, IE"),
    "user_id": Widget("one", "users"),
    "extension_id": Widget("one", "users", read_from="extension"),
    "ivr_id": Widget("one", "ivrs"),
    "post_call_ivr_id": Widget("one", "ivrs", label="IVR after the call"),
    "campaign_id": Widget("one", "calltracking/campaigns"),
    "call_me_back_setting_id": Widget("one", "callmeback/settings"),
    "ddi_e164": Widget("one", "ddis", "e164", read_from="ddi", label="Number"),
    "caller_id": Widget("one", "ddis", "e164", label="Caller ID"),
    "final_dst_id": Widget("destination", label="If no one answers"),
    "users": Widget("ordered", "users", label="People", hint="Called in this order if not all ring at once"),
    "queues users": Widget("agents", "users", label="People"),
    "ddis": Widget("many", "ddis", "e164", label="Numbers"),
    "calltracking/ddis e164": Widget("many", "ddis", "e164", label="Numbers"),
    "users groups": Widget("many", "usergroups"),
    "queues groups": Widget("many", "queuegroups"),
    "contacts groups": Widget("lines"),
    "labels": Widget("lines"),
    "emails": Widget("lines", hint="One per line"),
    # A rule without a source can apply to every caller.
    "source": Widget(
        "parties",
        "users",
        hint="Inbound rules: callers’ numbers. Outbound rules: people. At least one",
        is_required=True,
    ),
    "destination": Widget("parties", "users", hint="Inbound rules: dialled numbers"),
    "frequency": Widget("frequency"),
    "rules": Widget("rules", "calltracking/campaigns"),
    "conferences monitor": Widget("yes"),
}
"""By field, or by 'collection field' where collections differ."""

_KIND_BY_TYPE: Mapping[FieldType, ValueKind] = {
    "string": "text",
    "integer": "number",
    "number": "decimal",
    "boolean": "yes",
}


def find_operation(method: Method, path: str) -> Operation | None:
    operations = (*OPERATIONS, *UNDOCUMENTED_OPERATIONS)
    return next((row for row in operations if (row.method, row.path) == (method, path)), None)


def find_write(collection: str, mode: Mode) -> Operation | None:
    """Return the platform's operation behind a form, or None."""
    rule = RULES.get(collection)
    if rule is None or (rule.create_path and mode != "create"):
        return None
    bulk = find_operation("PATCH", f"/{collection}") if collection not in _BULK_ACTIONS else None
    if mode == "create":
        create = find_operation("POST", rule.create_path or f"/{collection}")
        return create or (bulk if rule.many_by else None)
    if mode == "change":
        return find_operation("PATCH", f"/{collection}/{{id}}") or (None if rule.many_by else bulk)
    return bulk if not rule.many_by else None


def find_delete(collection: str) -> Operation | None:
    """Return the operation that deletes records of the collection, or None."""
    rule = RULES.get(collection)
    if rule is None or rule.create_path:
        return None
    paths = (f"/{collection}/{{id}}", f"/{collection}/{{ids}}")
    return next((found for path in paths if (found := find_operation("DELETE", path))), None)


def can_write(visibility: Visibility, collection: str, mode: Mode | Literal["delete"]) -> bool:
    """Return whether the viewer may use a form of the collection."""
    rule = RULES.get(collection)
    if rule is None or (rule.right is not None and not has(visibility, rule.right)):
        return False
    if mode == "delete":
        return find_delete(collection) is not None and has(visibility, rule.delete_role or rule.role)
    return find_write(collection, mode) is not None and has(
        visibility, rule.many_role if mode == "many" else rule.role
    )


def list_specs(section: Section, mode: Mode) -> tuple[FormSpec, ...]:
    """Return the fields of a form, in the order of the specification."""
    collection, operation = section.collection, find_write(section.collection, mode)
    if operation is None:
        return ()
    rule = RULES[collection]
    fields = operation.body or tuple(Field(name, "string") for name in rule.fields)
    specs = []
    for field in fields:
        is_fixed = mode != "create" and field.name in rule.fixed
        is_part = field.name in field_labels.DESTINATION_TYPE_FIELDS.values()
        if is_fixed or is_part or f"{collection} {field.name}" in OMITTED_FIELDS:
            continue
        widget = find_widget(collection, field)
        label = widget.label or field_labels.label_field(field.name)
        specs.append(FormSpec(field.name, field, widget, label, _make_hint(section, widget, field)))
    # The name is first: it identifies the record for the user.
    return tuple(sorted(specs, key=lambda spec: spec.name != "name"))


def _make_hint(section: Section, widget: Widget, field: Field) -> str:
    """Return the hint of the widget, or the catalogue's description."""
    if widget.hint or widget.kind in ("date", "one", "many", "ordered", "agents", "destination", "frequency"):
        return widget.hint
    record_field = section.resource.field(widget.read_from or field.name)
    if record_field is not None and record_field.meaning == "seconds":
        return "seconds"
    return field_labels.describe(field)


def find_widget(collection: str, field: Field) -> Widget:
    """Return the widget of a body field.

    Raises KeyError if it has none.
    """
    named = _WIDGETS.get(f"{collection} {field.name}") or _WIDGETS.get(field.name)
    return named or Widget(_KIND_BY_TYPE[field.actual_type])
