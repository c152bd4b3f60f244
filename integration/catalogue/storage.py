"""Storage module: SMS, fax, voicemail announcements. 16 operations."""

from __future__ import annotations

from integration.catalogue.rows import (
    ModuleOperations,
    make_dictionary_resource,
    make_fields,
)
from integration.catalogue.shapes import Field, Operation, Relation, Resource

RESOURCES = (
    Resource(
        name="sms",
        collection="sms",
        title="SMS",
        fields=(
            *make_fields("integer", "id user_id"),
            *make_fields("timestamp", "created_at"),
            *make_fields(
                "string",
                "from:phone from_id from_name message:text result:code to:phone to_id to_name type:code",
            ),
        ),
        date="created_at",
        history=True,
        relations=(Relation("user_id", "users"),),
        about="Inbound and outbound.",
        audience="viewer",
        user_key="user_id",
    ),
    Resource(
        name="sms_canned_response",
        collection="sms/cannedresponses",
        title="SMS template",
        fields=make_fields("integer", "id"),
        about="The examples in the specification show another resource; id is known from the record's path. "
        "Stored as received.",
        audience="viewer",
        is_shared=True,
    ),
    Resource(
        name="fax",
        collection="faxes",
        title="Fax",
        fields=(
            *make_fields("integer", "id pages status:code type:code"),
            *make_fields("number", "charge:cost"),
            *make_fields("timestamp", "created_at"),
            Field("filename", "string", "fax-to-<to>-from-<from>-at-YYYYMMDDHHMMSS.pdf"),
            Field("from", "string", "not available in filters", meaning="phone"),
            Field("to", "string", "not available in filters", meaning="phone"),
        ),
        date="created_at",
        history=True,
        item=False,
        audience="viewer",
    ),
    Resource(
        name="vm_announcement",
        collection="vmannouncements",
        title="Voicemail announcement",
        fields=(
            *make_fields("integer", "id extension:extension"),
            *make_fields("timestamp", "created_at"),
            *make_fields("string", "description:text"),
        ),
        date="created_at",
    ),
    make_dictionary_resource("sms", "sms", "Codes of SMS"),
)

_CANNED_RESPONSE_BODY = make_fields("string", "name text")
_ANNOUNCEMENT_BODY = (
    Field("extension_id", "integer"),
    Field("description", "string"),
    Field("data", "string", "the file in base64: MP3, MP4, WAV or AAC"),
)

_STORAGE = ModuleOperations("storage")

OPERATIONS = (
    _STORAGE.list("/sms", "SMS, inbound and outbound.", "sms"),
    _STORAGE.create(
        "/sms",
        "Sends an SMS.",
        "sms",
        body=(
            Field("to", "string", "E.164", required=True),
            Field("from", "string", "E.164"),
            Field("message", "string", required=True),
        ),
    ),
    Operation("storage", "DELETE", "/sms", "unknown", "Deletes the SMS collection.", success=(202,)),
    _STORAGE.read("/sms/{id}", "One SMS.", "sms"),
    _STORAGE.list_codes("/sms/dictionaries", "Dictionaries of SMS.", "sms_dictionary"),
    _STORAGE.list("/sms/cannedresponses", "Canned responses.", "sms_canned_response"),
    _STORAGE.create(
        "/sms/cannedresponses", "Creates a canned response.", "sms_canned_response", _CANNED_RESPONSE_BODY
    ),
    _STORAGE.read("/sms/cannedresponses/{id}", "One canned response.", "sms_canned_response"),
    _STORAGE.change(
        "/sms/cannedresponses/{id}",
        "Changes a canned response.",
        "sms_canned_response",
        body=_CANNED_RESPONSE_BODY,
    ),
    _STORAGE.delete("/sms/cannedresponses/{id}", "Deletes a canned response.", errors=(401, 403)),
    _STORAGE.list("/faxes", "Faxes.", "fax"),
    _STORAGE.list("/vmannouncements", "Voicemail announcements.", "vm_announcement"),
    _STORAGE.create(
        "/vmannouncements", "Creates a voicemail announcement.", "vm_announcement", _ANNOUNCEMENT_BODY
    ),
    _STORAGE.read("/vmannouncements/{id}", "One voicemail announcement.", "vm_announcement"),
    _STORAGE.change(
        "/vmannouncements/{id}", "Changes a voicemail announcement.", "vm_announcement", _ANNOUNCEMENT_BODY
    ),
    _STORAGE.delete("/vmannouncements/{id}", "Deletes a voicemail announcement."),
)
