"""History module: chats, CDRs, recordings (monitors), media session records, voicemail. 33 operations."""

from __future__ import annotations

from integration.catalogue.rows import (
    ModuleOperations,
    make_bare_resource,
    make_dictionary_resource,
    make_fields,
)
from integration.catalogue.shapes import Field, Operation, Relation, Resource

RESOURCES = (
    Resource(
        name="chat",
        collection="chats",
        title="Chat",
        fields=(
            *make_fields("integer", "id customer_id duration:duration operator_id state:code website_id"),
            *make_fields("timestamp", "created_at"),
            *make_fields(
                "string",
                "operator_ua visitor_city visitor_country visitor_email visitor_geo visitor_id visitor_ip "
                "visitor_name visitor_referer visitor_ua",
            ),
        ),
        date="created_at",
        history=True,
    ),
    Resource(
        name="cdr",
        collection="cdrs",
        title="Call detail record",
        fields=(
            Field("id", "integer", "object id"),
            Field("duration", "integer", "call duration in seconds", meaning="duration"),
            Field("live_id", "integer", "id of the live call that produced the record"),
            Field("parent_live_id", "integer", "id of the parent (previous) live call"),
            Field("user_id", "integer", "user who made the call"),
            Field("sip_endpoint_id", "integer", "SIP endpoint that made or received the call"),
            Field("server_id", "integer", "media server that handled the call"),
            Field(
                "type", "string", "O (outbound), I (inbound), M (missed)", meaning="code", codes=tuple("OIM")
            ),
            Field("calldate", "string", "call time, UTC"),
            Field("clid", "string", "caller ID with number, when available", meaning="caller_id"),
            Field("src_id", "string", "source identifier (user id, or a contact reference)"),
            Field("src_name", "string", "source display name"),
            Field("src", "string", "source telephone number", meaning="phone"),
            Field("src_ua", "string", "source user agent"),
            Field("src_codec", "string", "source audio codec"),
            Field("dst_id", "string", "destination identifier (user, contact, IVR or queue reference)"),
            Field("dst", "string", "destination telephone number", meaning="phone"),
            Field("dst_name", "string", "destination display name"),
            Field("dst_ua", "string", "destination user agent"),
            Field("dst_codec", "string", "destination audio codec"),
            Field("billsec", "integer", "billable (connected) time in seconds", meaning="duration"),
            Field(
                "disposition",
                "string",
                "INITIAL, RINGING, CONNECTED, ON_HOLD, VM; open set",
                meaning="code",
                codes=("INITIAL", "RINGING", "CONNECTED", "ON_HOLD", "VM"),
            ),
            Field(
                "destination",
                "string",
                "direction: in, out, webcall or callmeback",
                meaning="code",
                codes=("in", "out", "webcall", "callmeback"),
            ),
            Field(
                "context", "string", "call context, e.g. PSTN_CALL, USER_LOCAL, IVR; open set", meaning="code"
            ),
            Field("rate", "number", "per-minute rate", meaning="cost"),
            Field("charge", "number", "cost of the call", meaning="cost"),
            Field(
                "t_cause",
                "string",
                "termination reason, e.g. Normal Clearing, User busy",
                meaning="open_code",
            ),
            Field("info", "string", "additional information"),
            Field("call_id", "integer", "deprecated; integer or null"),
            Field("root_live_id", "integer", "live id of the first leg of the call", documented=False),
            Field("is_root", "boolean", "this is the first leg", documented=False),
            Field("labels", "array", documented=False),
            Field("metadata", "string", documented=False),
            Field("nb_notes", "integer", documented=False),
        ),
        date="calldate",
        history=True,
        relations=(
            Relation("user_id", "users"),
            *(Relation(name, "calls") for name in ("live_id", "parent_live_id", "root_live_id")),
        ),
        about="One leg, or a part of one: several may share a live_id. The specification's examples show "
        "type, disposition and destination as integers; the platform sends strings.",
        audience="viewer",
        user_key="user_id",
    ),
    make_bare_resource("tracked_cdr", "cdrs/calltracking", "CDR under call tracking", "Fields not shown."),
    make_bare_resource(
        "calltracking_cdr", "calltracking/cdrs", "Call tracking CDR", "Its examples show another resource."
    ),
    Resource(
        name="monitor",
        collection="monitors",
        title="Call recording (monitor)",
        fields=(
            *make_fields("integer", "id duration:duration live_id sentiment:choice sip_endpoint_id"),
            Field("size", "integer", "bytes of the MP3, exactly", meaning="bytes"),
            *make_fields("integer", "user_id"),
            *make_fields(
                "string",
                "called:phone caller:phone context:code dst_id dst_name src_id summary:text "
                "transcript:text type:code",
            ),
            *make_fields("timestamp", "timestamp"),
            Field("transcript_speakers", "string", documented=False, meaning="text"),
            Field("cx_score", "integer", "1 to 10", documented=False),
            Field("metadata", "object", "with a timeline when the add-on is on", documented=False),
        ),
        date="timestamp",
        history=True,
        relations=(Relation("user_id", "users"), Relation("live_id", "calls")),
        audience="viewer",
        user_key="user_id",
    ),
    Resource(
        name="msdr",
        collection="msdrs",
        title="Media session detail record",
        fields=(
            *make_fields("integer", "id duration:duration media_session_id user_id"),
            *make_fields(
                "string",
                "call_id dst:phone dst_id dst_ua src:phone src_id src_ua t_cause:open_code type:code",
            ),
            *make_fields("timestamp", "created_at"),
        ),
        date="created_at",
        history=True,
        relations=(Relation("user_id", "users"), Relation("media_session_id", "mediasessions")),
        user_key="user_id",
    ),
    Resource(
        name="voicemessage",
        collection="voicemessages",
        title="Voice message",
        fields=(
            *make_fields("integer", "id duration:duration extension_id folder:choice live_id parent_live_id"),
            # `callerid` is no caller_id: its number becomes `erased`, which marks the file as erased.
            *make_fields("string", "caller:phone callerid:extension dialled:phone transcript:text"),
            *make_fields("boolean", "is_new"),
            *make_fields("timestamp", "origtime"),
        ),
        date="origtime",
        history=True,
        relations=(Relation("live_id", "calls"), Relation("parent_live_id", "calls")),
        audience="viewer",
        user_key="extension_id",
    ),
    make_dictionary_resource("cdrs", "cdr", "Codes of CDRs"),
    make_dictionary_resource("msdrs", "msdr", "Codes of media session detail records"),
)

_HISTORY = ModuleOperations("history")

OPERATIONS = (
    _HISTORY.list("/chats", "Chats.", "chat"),
    _HISTORY.read("/chats/{id}", "One chat.", "chat"),
    _HISTORY.delete("/chatmsgs/{ids}", "Deletes chat messages."),
    _HISTORY.delete("/chatmsgs", "Deletes the chat message collection.", errors=(401,)),
    _HISTORY.list("/cdrs", "Call detail records.", "cdr"),
    _HISTORY.change_many("/cdrs", "Changes many CDRs.", "cdr", body=()),
    _HISTORY.delete("/cdrs", "Deletes the CDR collection.", "cdr", errors=(401,)),
    _HISTORY.read("/cdrs/{id}", "One CDR.", "cdr"),
    _HISTORY.download("/cdrs/{id}.trace", "SIP trace of the CDR.", "cdr"),
    _HISTORY.download("/cdrs/{id}.pcap", "PCAP file of the CDR.", "cdr"),
    _HISTORY.list("/cdrs/calltracking", "CDRs under call tracking.", "tracked_cdr"),
    _HISTORY.list_codes("/cdrs/dictionaries", "Dictionaries of CDRs.", "cdr_dictionary"),
    Operation("history", "GET", "/cdrs/{id}/notes", "unknown", "Notes for the CDR.", errors=(401, 403, 404)),
    _HISTORY.list("/calltracking/cdrs", "Call tracking CDRs.", "calltracking_cdr"),
    _HISTORY.download("/users/{id}/cdrs.csv", "CSV export of the user's CDRs.", "cdr", errors=(401,)),
    _HISTORY.list("/monitors", "Call recordings.", "monitor"),
    Operation(
        "history",
        "DELETE",
        "/monitors",
        "unknown",
        "Deletes all recordings of the customer.",
        "monitor",
        success=(202,),
    ),
    _HISTORY.read("/monitors/{id}", "One recording's record.", "monitor"),
    _HISTORY.download(
        "/monitors/{id}.mp3",
        "The recording. The platform sends the whole body and ignores Range.",
        "monitor",
    ),
    _HISTORY.change(
        "/monitors/{id}",
        "Changes transcript, summary and scores.",
        "monitor",
        body=(
            *make_fields("string", "transcript transcript_speakers summary sentiment"),
            *make_fields("integer", "cx_score"),
            *make_fields("any", "metadata"),
        ),
        errors=(400, 404),
    ),
    _HISTORY.delete("/monitors/{ids}", "Deletes recordings.", "monitor"),
    _HISTORY.list("/msdrs", "Media session detail records.", "msdr"),
    _HISTORY.read("/msdrs/{id}", "One media session detail record.", "msdr"),
    _HISTORY.download("/msdrs/{id}.trace", "SIP trace of the record.", "msdr"),
    _HISTORY.download("/msdrs/{id}.pcap", "PCAP file of the record.", "msdr"),
    _HISTORY.list_codes("/msdrs/dictionaries", "Dictionaries of msdrs.", "msdr_dictionary"),
    _HISTORY.delete("/statements", "Deletes the statement collection.", errors=(401,)),
    _HISTORY.list("/voicemessages", "Voice messages.", "voicemessage"),
    _HISTORY.change_many(
        "/voicemessages",
        "Moves many voice messages.",
        "voicemessage",
        body=(Field("id", "integer"), Field("folder", "string")),
    ),
    Operation(
        "history",
        "DELETE",
        "/voicemessages",
        "unknown",
        "Deletes the voice message collection.",
        "voicemessage",
        success=(202,),
    ),
    _HISTORY.read("/voicemessages/{id}", "One voice message's record.", "voicemessage"),
    _HISTORY.download("/voicemessages/{id}.mp3", "The voice message as MP3.", "voicemessage"),
    _HISTORY.delete("/voicemessages/{ids}", "Deletes voice messages.", "voicemessage"),
)
