"""Calls module: live calls, webcalls, lead calls, media sessions, call labels. 18 operations."""

from __future__ import annotations

from integration.catalogue.rows import COLLECTION_QUERY, dictionary, fields
from integration.catalogue.shapes import Field, Operation, Relation, Resource

RESOURCES = (
    Resource(
        name="call",
        collection="calls",
        title="Live call",
        fields=(
            Field("id", "integer", "call_id of the webhooks, live_id of CDRs and monitors"),
            Field("clid", "string", "caller ID with number"),
            *fields(
                "string",
                "context dst dst_call_id dst_codec dst_contact dst_id dst_name dst_ua queue_state "
                "referred_by src src_call_id src_codec src_contact src_id src_name src_ua",
            ),
            Field("connected_at", "integer", "Unix seconds"),
            Field("start_time", "integer", "Unix seconds"),
            *fields("integer", "duration destination monitor_state"),
            Field("parent_id", "integer", "id of the parent (previous) live call"),
            Field("state", "integer", "a word such as RINGING; open set", observed="string"),
            *fields("number", "dst_connection dst_rate min_charge src_rate"),
        ),
        relations=(Relation("parent_id", "calls"),),
        about="One leg while it lives; afterwards only in CDRs and monitors, by live_id.",
    ),
    Resource(
        name="webcall",
        collection="webcalls",
        title="Webcall",
        fields=(
            *fields("integer", "id"),
            *fields("string", "calldate"),
            *fields("number", "charge from_charge from_rate to_charge to_rate"),
            *fields("string", "from to"),
            *fields("integer", "from_duration to_duration"),
        ),
        date="calldate",
        item=False,
    ),
    Resource(
        name="media_session",
        collection="mediasessions",
        title="Media session",
        fields=(
            *fields("integer", "id"),
            *fields("string", "call_id dst_id dst_ua src_id src_ua status type"),
            *fields("timestamp", "created_at updated_at"),
            *fields("integer", "duration user"),
        ),
        date="created_at",
        relations=(Relation("user", "users"),),
    ),
    Resource(
        name="call_label",
        collection="calllabels",
        title="Call label",
        fields=fields("integer", "id"),
        about="Fields not shown; id is known from the record's path alone. Kept as received.",
    ),
    dictionary("mediasessions", "media_session", "Codes of media sessions"),
)

OPERATIONS = (
    Operation("calls", "GET", "/calls", "collection", "The live calls.", "call", query=COLLECTION_QUERY),
    Operation(
        "calls",
        "POST",
        "/calls",
        "item",
        "Click to call: the user's own phone rings first, then the destination. 412 where no phone is "
        "registered, after about 10 s (observed.md §5).",
        "call",
        success=(201,),
        errors=(400, 401),
        body=(
            Field("to", "string", "destination, E.164", required=True),
            Field("from", "string", "user id the call originates from"),
            Field("caller_id", "string", "E.164 number or the word anonymous"),
        ),
    ),
    Operation(
        "calls",
        "GET",
        "/calls/{id}",
        "item",
        "One live call; 404 once it has ended.",
        "call",
        errors=(401, 403, 404),
    ),
    Operation(
        "calls",
        "PATCH",
        "/calls/{id}",
        "item",
        "Transfers, answers, labels or records a live call. The success status is listed as 301; "
        "clients meet 200 too (observed.md §5).",
        "call",
        success=(301,),
        errors=(400, 401, 403, 404),
        body=(
            Field("dst", "string", "transfer target, E.164 or extension"),
            Field("state", "string", "answers a ringing call: answer, or CONNECTED (observed.md §5)"),
            Field("labels", "array"),
            Field("action_url", "string", "link attached to the call"),
            Field("action_text", "string", "text shown for action_url"),
            Field("monitor_state", "string", "start, pause or resume recording"),
        ),
    ),
    Operation(
        "calls",
        "DELETE",
        "/calls/{id}",
        "none",
        "Terminates the live call.",
        success=(204,),
        errors=(401, 403, 404),
    ),
    Operation("calls", "GET", "/calls/{id}/trace", "unknown", "Call trace."),
    Operation("calls", "GET", "/calls/{id}/monitors", "unknown", "Recordings of the call."),
    Operation("calls", "GET", "/webcalls", "collection", "Webcalls.", "webcall", query=COLLECTION_QUERY),
    Operation(
        "calls",
        "POST",
        "/webcalls",
        "item",
        "Calls two numbers and connects them.",
        "webcall",
        success=(201,),
        errors=(400, 401),
        body=(
            Field("from", "string", "source, E.164"),
            Field("to", "string", "destination, E.164 or extension"),
        ),
    ),
    Operation(
        "calls",
        "POST",
        "/leadcalls",
        "item",
        "Calls a lead. caller_id is in fact required and must be a number of the account (observed.md §5).",
        "call",
        success=(201,),
        errors=(400, 401),
        body=(
            Field("caller_id", "string", required=True),
            Field("to", "string", "E.164 or extension"),
            Field("tts", "string"),
        ),
    ),
    Operation(
        "calls",
        "GET",
        "/mediasessions",
        "collection",
        "Media sessions.",
        "media_session",
        query=COLLECTION_QUERY,
    ),
    Operation(
        "calls",
        "GET",
        "/mediasessions/{id}",
        "item",
        "One media session.",
        "media_session",
        errors=(401, 403, 404),
    ),
    Operation(
        "calls",
        "GET",
        "/mediasessions/dictionaries",
        "dictionary",
        "Dictionaries of media sessions.",
        "media_session_dictionary",
        errors=(),
    ),
    Operation(
        "calls", "GET", "/calllabels", "collection", "Call labels.", "call_label", query=COLLECTION_QUERY
    ),
    Operation(
        "calls",
        "POST",
        "/calllabels",
        "item",
        "Makes a call label.",
        "call_label",
        success=(201,),
        errors=(400,),
        body=(),
    ),
    Operation(
        "calls", "GET", "/calllabels/{id}", "item", "One call label.", "call_label", errors=(401, 403, 404)
    ),
    Operation(
        "calls",
        "PATCH",
        "/calllabels/{id}",
        "item",
        "Changes a call label.",
        "call_label",
        errors=(400, 404),
        body=(),
    ),
    Operation(
        "calls",
        "DELETE",
        "/calllabels/{id}",
        "none",
        "Deletes a call label.",
        success=(204,),
        errors=(401, 403, 404),
    ),
)
