"""Calls module: live calls, webcalls, lead calls, media sessions, call labels.

18 operations.
"""

from __future__ import annotations

from integration.catalogue.rows import (
    ModuleOperations,
    make_dictionary_resource,
    make_fields,
)
from integration.catalogue.shapes import Field, Operation, Relation, Resource

RESOURCES = (
    Resource(
        name="call",
        collection="calls",
        title="Live call",
        fields=(
            Field("id", "integer", "call_id of the webhooks, live_id of CDRs and monitors"),
            Field("clid", "string", "caller ID with number", meaning="caller_id"),
            *make_fields(
                "string",
                "context:code dst:phone dst_call_id dst_codec dst_contact dst_id dst_name dst_ua queue_state "
                "referred_by src:phone src_call_id src_codec src_contact src_id src_name src_ua",
            ),
            Field("connected_at", "integer", "Unix seconds", meaning="unix_time"),
            Field("start_time", "integer", "Unix seconds", meaning="unix_time"),
            *make_fields("integer", "duration:duration destination:code monitor_state:choice"),
            Field("parent_id", "integer", "id of the parent (previous) live call"),
            Field("state", "integer", "a word such as RINGING; open set", observed="string", meaning="code"),
            *make_fields("number", "dst_connection:unix_time dst_rate min_charge src_rate"),
        ),
        relations=(Relation("parent_id", "calls"),),
        about="One leg until it ends; afterwards only in CDRs and monitors, by live_id.",
        audience="viewer",
    ),
    Resource(
        name="webcall",
        collection="webcalls",
        title="Webcall",
        fields=(
            *make_fields("integer", "id"),
            *make_fields("string", "calldate"),
            *make_fields("number", "charge:cost from_charge from_rate to_charge to_rate"),
            *make_fields("string", "from:phone to:phone"),
            *make_fields("integer", "from_duration:duration to_duration:duration"),
        ),
        date="calldate",
        history=True,
        item=False,
    ),
    Resource(
        name="media_session",
        collection="mediasessions",
        title="Media session",
        fields=(
            *make_fields("integer", "id"),
            *make_fields("string", "call_id dst_id dst_ua src_id src_ua status:code type:code"),
            *make_fields("timestamp", "created_at updated_at"),
            *make_fields("integer", "duration:duration user"),
        ),
        date="created_at",
        history=True,
        relations=(Relation("user", "users"),),
        user_key="user",
    ),
    Resource(
        name="call_label",
        collection="calllabels",
        title="Call label",
        fields=make_fields("integer", "id"),
        about="The specification does not show the fields; id is known only from the record's path. "
        "Stored as received.",
        audience="viewer",
        is_shared=True,
    ),
    make_dictionary_resource("mediasessions", "media_session", "Codes of media sessions"),
)

_CALLS = ModuleOperations("calls")

OPERATIONS = (
    _CALLS.list("/calls", "The live calls.", "call"),
    _CALLS.create(
        "/calls",
        "Click to call: the user's own phone rings first, then the destination. Returns 412 after about "
        "10 s if no phone is registered.",
        "call",
        body=(
            Field("to", "string", "destination, E.164", required=True),
            Field("from", "string", "user id the call originates from"),
            Field("caller_id", "string", "E.164 number or the word anonymous"),
        ),
    ),
    _CALLS.read("/calls/{id}", "One live call; 404 after its end.", "call"),
    _CALLS.change(
        "/calls/{id}",
        "Transfers, answers, labels or records a live call. The specification lists the success "
        "status 301; clients receive 200 too.",
        "call",
        body=(
            Field("dst", "string", "transfer target, E.164 or extension"),
            Field("state", "string", "answers a ringing call: answer, or CONNECTED"),
            Field("labels", "array"),
            Field("action_url", "string", "link attached to the call"),
            Field("action_text", "string", "text shown for action_url"),
            Field("monitor_state", "string", "start, pause or resume recording"),
        ),
        success=(301,),
    ),
    _CALLS.delete("/calls/{id}", "Terminates the live call."),
    Operation("calls", "GET", "/calls/{id}/trace", "unknown", "Call trace."),
    Operation("calls", "GET", "/calls/{id}/monitors", "unknown", "Recordings of the call."),
    _CALLS.list("/webcalls", "Webcalls.", "webcall"),
    _CALLS.create(
        "/webcalls",
        "Calls two numbers and connects them.",
        "webcall",
        body=(
            Field("from", "string", "source, E.164"),
            Field("to", "string", "destination, E.164 or extension"),
        ),
    ),
    _CALLS.create(
        "/leadcalls",
        "Calls a lead. The platform requires caller_id, and it must be a number of the account.",
        "call",
        body=(
            Field("caller_id", "string", required=True),
            Field("to", "string", "E.164 or extension"),
            Field("tts", "string"),
        ),
    ),
    _CALLS.list("/mediasessions", "Media sessions.", "media_session"),
    _CALLS.read("/mediasessions/{id}", "One media session.", "media_session"),
    _CALLS.list_codes(
        "/mediasessions/dictionaries", "Dictionaries of media sessions.", "media_session_dictionary"
    ),
    _CALLS.list("/calllabels", "Call labels.", "call_label"),
    _CALLS.create("/calllabels", "Creates a call label.", "call_label", body=(), errors=(400,)),
    _CALLS.read("/calllabels/{id}", "One call label.", "call_label"),
    _CALLS.change("/calllabels/{id}", "Changes a call label.", "call_label", body=(), errors=(400, 404)),
    _CALLS.delete("/calllabels/{id}", "Deletes a call label."),
)
