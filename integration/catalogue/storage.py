"""Storage module: SMS, fax, voicemail announcements. 16 operations."""

from __future__ import annotations

from integration.catalogue.rows import COLLECTION_QUERY, make_dictionary_resource, make_fields
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
    ),
    Resource(
        name="sms_canned_response",
        collection="sms/cannedresponses",
        title="SMS canned response",
        fields=make_fields("integer", "id"),
        about="Its examples show another resource; id is known from the record's path. Kept as received.",
    ),
    Resource(
        name="fax",
        collection="faxes",
        title="Fax",
        fields=(
            *make_fields("integer", "id pages status:code type:code"),
            *make_fields("number", "charge:cost"),
            *make_fields("timestamp", "created_at"),
            Field("filename", "string", "fax-to-<to>-from-<from>-at-YYYYMMDDHHMMSS.pdf (observed.md §4)"),
            Field("from", "string", "can't be filtered on (observed.md §3)", meaning="phone"),
            Field("to", "string", "can't be filtered on (observed.md §3)", meaning="phone"),
        ),
        date="created_at",
        history=True,
        item=False,
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

OPERATIONS = (
    Operation(
        "storage", "GET", "/sms", "collection", "SMS, inbound and outbound.", "sms", query=COLLECTION_QUERY
    ),
    Operation(
        "storage",
        "POST",
        "/sms",
        "item",
        "Sends an SMS.",
        "sms",
        success=(201,),
        errors=(400, 401),
        body=(
            Field("to", "string", "E.164", required=True),
            Field("from", "string", "E.164"),
            Field("message", "string", required=True),
        ),
    ),
    Operation("storage", "DELETE", "/sms", "unknown", "Deletes the SMS collection.", success=(202,)),
    Operation("storage", "GET", "/sms/{id}", "item", "One SMS.", "sms", errors=(401, 403, 404)),
    Operation(
        "storage",
        "GET",
        "/sms/dictionaries",
        "dictionary",
        "Dictionaries of SMS.",
        "sms_dictionary",
        errors=(),
    ),
    Operation(
        "storage",
        "GET",
        "/sms/cannedresponses",
        "collection",
        "Canned responses.",
        "sms_canned_response",
        query=COLLECTION_QUERY,
    ),
    Operation(
        "storage",
        "POST",
        "/sms/cannedresponses",
        "item",
        "Makes a canned response.",
        "sms_canned_response",
        success=(201,),
        errors=(400, 401),
        body=_CANNED_RESPONSE_BODY,
    ),
    Operation(
        "storage",
        "GET",
        "/sms/cannedresponses/{id}",
        "item",
        "One canned response.",
        "sms_canned_response",
        errors=(401, 403, 404),
    ),
    Operation(
        "storage",
        "PATCH",
        "/sms/cannedresponses/{id}",
        "item",
        "Changes a canned response.",
        "sms_canned_response",
        errors=(400, 401, 403, 404),
        body=_CANNED_RESPONSE_BODY,
    ),
    Operation(
        "storage",
        "DELETE",
        "/sms/cannedresponses/{id}",
        "none",
        "Deletes a canned response.",
        success=(204,),
        errors=(401, 403),
    ),
    Operation("storage", "GET", "/faxes", "collection", "Faxes.", "fax", query=COLLECTION_QUERY),
    Operation(
        "storage",
        "GET",
        "/vmannouncements",
        "collection",
        "Voicemail announcements.",
        "vm_announcement",
        query=COLLECTION_QUERY,
    ),
    Operation(
        "storage",
        "POST",
        "/vmannouncements",
        "item",
        "Makes a voicemail announcement.",
        "vm_announcement",
        success=(201,),
        errors=(400, 401),
        body=_ANNOUNCEMENT_BODY,
    ),
    Operation(
        "storage",
        "GET",
        "/vmannouncements/{id}",
        "item",
        "One voicemail announcement.",
        "vm_announcement",
        errors=(401, 403, 404),
    ),
    Operation(
        "storage",
        "PATCH",
        "/vmannouncements/{id}",
        "item",
        "Changes a voicemail announcement.",
        "vm_announcement",
        errors=(400, 401, 403, 404),
        body=_ANNOUNCEMENT_BODY,
    ),
    Operation(
        "storage",
        "DELETE",
        "/vmannouncements/{id}",
        "none",
        "Deletes a voicemail announcement.",
        success=(204,),
        errors=(401, 403, 404),
    ),
)
