"""The 165 operations of the platform, written by hand from the specification (chapter Endpoints).

Nothing here is derived from the catalogue or the simulator: a mistake that both share must not pass.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Envelope = Literal["list", "item", "message", "free", "empty", "file"]


class DocumentedOperation(NamedTuple):
    """Row of the specification.

    `refusals` are the other statuses. `envelope` is the form of a successful body: 'list' `{data: [...],
    total}`, 'item' `{data: {...}, links}`, 'message' `{message}`, 'free' any JSON because the specification
    shows none, 'empty' no body, 'file' other content than JSON. `record` is the key in RECORD_FIELDS, ''
    where the specification shows no fields or those of a different resource.
    """

    method: str
    path: str
    success: tuple[int, ...]
    refusals: tuple[int, ...]
    envelope: Envelope
    record: str = ""

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


_ROWS: tuple[tuple[str, str, tuple[int, ...], tuple[int, ...], Envelope, str], ...] = (
    # Authentication group
    ("POST", "/login", (200,), (400,), "message", ""),
    ("POST", "/login2fa", (200,), (400,), "message", ""),
    ("POST", "/logout", (200,), (401,), "message", ""),
    ("GET", "/ping", (200,), (), "message", ""),
    ("POST", "/confirmation", (200,), (400,), "free", ""),
    ("POST", "/password", (200,), (400,), "free", ""),
    ("POST", "/reset", (200,), (400,), "free", ""),
    ("GET", "/aclroles", (200,), (401,), "list", "acl_role"),
    ("GET", "/aclroles/{id}", (200,), (401, 403, 404), "item", "acl_role"),
    # Calls module
    ("GET", "/calls", (200,), (401,), "list", "live_call"),
    ("POST", "/calls", (201,), (400, 401), "item", "live_call"),
    ("GET", "/calls/{id}", (200,), (401, 403, 404), "item", "live_call"),
    ("PATCH", "/calls/{id}", (301,), (400, 401, 403, 404), "item", "live_call"),
    ("DELETE", "/calls/{id}", (204,), (401, 403, 404), "empty", ""),
    ("GET", "/calls/{id}/trace", (200,), (401,), "free", ""),
    ("GET", "/calls/{id}/monitors", (200,), (401,), "free", ""),
    ("GET", "/webcalls", (200,), (401,), "list", "webcall"),
    ("POST", "/webcalls", (201,), (400, 401), "item", "webcall"),
    ("POST", "/leadcalls", (201,), (400, 401), "item", "live_call"),
    ("GET", "/mediasessions", (200,), (401,), "list", "media_session"),
    ("GET", "/mediasessions/{id}", (200,), (401, 403, 404), "item", "media_session"),
    ("GET", "/mediasessions/dictionaries", (200,), (), "list", ""),
    ("GET", "/calllabels", (200,), (401,), "list", ""),
    ("POST", "/calllabels", (201,), (400,), "free", ""),
    ("GET", "/calllabels/{id}", (200,), (401, 403, 404), "free", ""),
    ("PATCH", "/calllabels/{id}", (200,), (400, 404), "free", ""),
    ("DELETE", "/calllabels/{id}", (204,), (401, 403, 404), "empty", ""),
    # Storage module
    ("GET", "/sms", (200,), (401,), "list", "sms"),
    ("POST", "/sms", (201,), (400, 401), "item", "sms"),
    ("DELETE", "/sms", (202,), (401,), "empty", ""),
    ("GET", "/sms/{id}", (200,), (401, 403, 404), "item", "sms"),
    ("GET", "/sms/dictionaries", (200,), (), "list", ""),
    ("GET", "/sms/cannedresponses", (200,), (401,), "list", ""),
    ("POST", "/sms/cannedresponses", (201,), (400, 401), "item", ""),
    ("GET", "/sms/cannedresponses/{id}", (200,), (401, 403, 404), "item", ""),
    ("PATCH", "/sms/cannedresponses/{id}", (200,), (400, 401, 403, 404), "item", ""),
    ("DELETE", "/sms/cannedresponses/{id}", (204,), (401, 403), "empty", ""),
    ("GET", "/faxes", (200,), (401,), "list", "fax"),
    ("GET", "/vmannouncements", (200,), (401,), "list", "voicemail_announcement"),
    ("POST", "/vmannouncements", (201,), (400, 401), "item", "voicemail_announcement"),
    ("GET", "/vmannouncements/{id}", (200,), (401, 403, 404), "item", "voicemail_announcement"),
    ("PATCH", "/vmannouncements/{id}", (200,), (400, 401, 403, 404), "item", "voicemail_announcement"),
    ("DELETE", "/vmannouncements/{id}", (204,), (401, 403, 404), "empty", ""),
    # Settings module
    ("GET", "/calltracking/ddis", (200,), (401,), "list", ""),
    ("PATCH", "/calltracking/ddis", (200,), (400, 401, 403, 404), "free", ""),
    ("GET", "/calltracking/campaigns", (200,), (401,), "list", ""),
    ("POST", "/calltracking/campaigns", (201,), (400, 401), "free", ""),
    ("GET", "/contacts", (200,), (401,), "list", "contact"),
    ("POST", "/contacts", (201,), (400,), "item", "contact"),
    ("PATCH", "/contacts", (200,), (400, 401, 403, 404), "free", ""),
    ("GET", "/contacts/{id}", (200,), (401, 403, 404), "item", "contact"),
    ("PATCH", "/contacts/{id}", (200,), (400, 404), "item", "contact"),
    ("DELETE", "/contacts/{ids}", (202, 204), (401, 403, 404), "empty", ""),
    ("GET", "/conferences", (200,), (401,), "list", "conference"),
    ("POST", "/conferences", (201,), (400, 401), "item", "conference"),
    ("GET", "/conferences/{id}", (200,), (401, 403, 404), "item", "conference"),
    ("PATCH", "/conferences/{id}", (200,), (400, 401, 403, 404), "item", "conference"),
    ("DELETE", "/conferences/{id}", (204,), (401, 403, 404), "empty", ""),
    ("GET", "/ddis", (200,), (401,), "list", "ddi"),
    ("GET", "/ddis/calltracking", (200,), (401,), "list", ""),
    ("GET", "/ddis/dictionaries", (200,), (), "list", ""),
    ("GET", "/ddis/{e164}", (200,), (401, 403, 404), "item", "ddi"),
    ("GET", "/queues", (200,), (401,), "list", "queue"),
    ("POST", "/queues", (201,), (400, 401), "item", "queue"),
    ("GET", "/queues/{id}", (200,), (401, 403, 404), "item", "queue"),
    ("GET", "/ringgroups", (200,), (401,), "list", "ring_group"),
    ("POST", "/ringgroups", (201,), (400, 401), "item", "ring_group"),
    ("GET", "/ringgroups/dictionaries", (200,), (), "list", ""),
    ("GET", "/ringgroups/{id}", (200,), (401, 403, 404), "item", "ring_group"),
    ("PATCH", "/ringgroups/{id}", (200,), (400, 401, 403, 404), "item", "ring_group"),
    ("DELETE", "/ringgroups/{id}", (204,), (401, 403, 404), "empty", ""),
    ("GET", "/pickupgroups", (200,), (401,), "list", "pickup_group"),
    ("GET", "/pickupgroups/{id}", (200,), (401, 403, 404), "item", "pickup_group"),
    ("GET", "/routingrules", (200,), (401,), "list", "routing_rule"),
    ("POST", "/routingrules", (201,), (400,), "item", "routing_rule"),
    ("GET", "/routingrules/{id}", (200,), (401, 403, 404), "item", "routing_rule"),
    ("PATCH", "/routingrules/{id}", (200,), (400, 404), "item", "routing_rule"),
    ("GET", "/ivrs", (200,), (401,), "list", "ivr"),
    ("POST", "/ivrs", (201,), (400, 401), "item", "ivr"),
    # Customer module
    ("GET", "/contacts/{id}/cdrs", (200,), (401,), "free", ""),
    ("GET", "/queuegroups", (200,), (401,), "list", "queue_group"),
    ("POST", "/queuegroups", (201,), (400,), "item", "queue_group"),
    ("GET", "/queuegroups/{id}", (200,), (401, 403, 404), "item", "queue_group"),
    ("PATCH", "/queuegroups/{id}", (200,), (400, 404), "item", "queue_group"),
    ("DELETE", "/queuegroups/{id}", (204,), (401, 403, 404), "empty", ""),
    ("DELETE", "/customers/{id}", (204,), (401, 403), "empty", ""),
    ("GET", "/users", (200,), (401,), "list", "user_in_list"),
    ("PATCH", "/users", (200,), (400, 401, 403, 404), "free", ""),
    ("GET", "/users/{id}", (200,), (401, 403, 404), "item", "user"),
    ("DELETE", "/users/{id}", (204,), (401, 403), "empty", ""),
    ("GET", "/me", (200,), (401, 403), "item", "current_user"),
    ("GET", "/users/{id}/contacts", (200,), (401,), "free", ""),
    ("GET", "/users/{id}/cdrs", (200,), (401,), "free", ""),
    ("GET", "/users/{id}/chatmsgs", (200,), (401,), "free", ""),
    ("GET", "/users/{id}/calls", (200,), (401,), "free", ""),
    ("GET", "/usergroups", (200,), (401,), "list", "user_group"),
    ("POST", "/usergroups", (201,), (400,), "item", "user_group"),
    ("GET", "/usergroups/{id}", (200,), (401, 403, 404), "item", "user_group"),
    ("PATCH", "/usergroups/{id}", (200,), (400, 404), "item", "user_group"),
    ("DELETE", "/usergroups/{id}", (204,), (401, 403, 404), "empty", ""),
    ("GET", "/usergrouppolicies", (200,), (401,), "list", "user_group"),
    ("POST", "/usergrouppolicies", (201,), (400,), "item", "user_group"),
    ("GET", "/usergrouppolicies/{id}", (200,), (401, 403, 404), "item", "user_group"),
    ("PATCH", "/usergrouppolicies/{id}", (200,), (400, 404), "item", "user_group"),
    ("DELETE", "/usergrouppolicies/{id}", (204,), (401, 403, 404), "empty", ""),
    ("GET", "/users/{id}/audio", (200,), (401, 403, 404), "free", ""),
    ("DELETE", "/users/{id}/audio", (204,), (401, 403), "empty", ""),
    ("GET", "/users/{id}/smsthreads/{from}/{to}", (200,), (401,), "free", ""),
    ("GET", "/users/{id}/sms/threads/{from}/{to}", (200,), (401,), "free", ""),
    # History module
    ("GET", "/chats", (200,), (401,), "list", "chat"),
    ("GET", "/chats/{id}", (200,), (401, 403, 404), "item", "chat"),
    ("DELETE", "/chatmsgs/{ids}", (204,), (401, 403, 404), "empty", ""),
    ("DELETE", "/chatmsgs", (204,), (401,), "empty", ""),
    ("GET", "/cdrs", (200,), (401,), "list", "cdr"),
    ("PATCH", "/cdrs", (200,), (400, 401, 403, 404), "free", ""),
    ("DELETE", "/cdrs", (204,), (401,), "empty", ""),
    ("GET", "/cdrs/{id}", (200,), (401, 403, 404), "item", "cdr"),
    ("GET", "/cdrs/{id}.trace", (200,), (401, 403, 404), "file", ""),
    ("GET", "/cdrs/{id}.pcap", (200,), (401, 403, 404), "file", ""),
    ("GET", "/cdrs/calltracking", (200,), (401,), "list", ""),
    ("GET", "/cdrs/dictionaries", (200,), (), "list", ""),
    ("GET", "/cdrs/{id}/notes", (200,), (401, 403, 404), "free", ""),
    ("GET", "/calltracking/cdrs", (200,), (401,), "list", ""),
    ("GET", "/users/{id}/cdrs.csv", (200,), (401,), "file", ""),
    ("GET", "/monitors", (200,), (401,), "list", "monitor"),
    ("DELETE", "/monitors", (202,), (401,), "empty", ""),
    ("GET", "/monitors/{id}", (200,), (401, 403, 404), "item", "monitor"),
    ("GET", "/monitors/{id}.mp3", (200,), (401, 403, 404), "file", ""),
    ("PATCH", "/monitors/{id}", (200,), (400, 404), "item", "monitor"),
    ("DELETE", "/monitors/{ids}", (204,), (401, 403, 404), "empty", ""),
    ("GET", "/msdrs", (200,), (401,), "list", "msdr"),
    ("GET", "/msdrs/{id}", (200,), (401, 403, 404), "item", "msdr"),
    ("GET", "/msdrs/{id}.trace", (200,), (401, 403, 404), "file", ""),
    ("GET", "/msdrs/{id}.pcap", (200,), (401, 403, 404), "file", ""),
    ("GET", "/msdrs/dictionaries", (200,), (), "list", ""),
    ("DELETE", "/statements", (204,), (401,), "empty", ""),
    ("GET", "/voicemessages", (200,), (401,), "list", "voicemessage"),
    ("PATCH", "/voicemessages", (200,), (400, 401, 403, 404), "free", ""),
    ("DELETE", "/voicemessages", (202,), (401,), "empty", ""),
    ("GET", "/voicemessages/{id}", (200,), (401, 403, 404), "item", "voicemessage"),
    ("GET", "/voicemessages/{id}.mp3", (200,), (401, 403, 404), "file", ""),
    ("DELETE", "/voicemessages/{ids}", (204,), (401, 403, 404), "empty", ""),
    # Call-me-back module
    ("GET", "/callmeback/websites", (200,), (401,), "list", ""),
    ("GET", "/callmeback/settings", (200,), (401,), "list", "callmeback_setting"),
    ("POST", "/callmeback/settings", (201,), (400, 401), "item", "callmeback_setting"),
    ("GET", "/callmeback/settings/{id}", (200,), (401, 403, 404), "item", "callmeback_setting"),
    ("PATCH", "/callmeback/settings/{id}", (200,), (400, 401, 403, 404), "item", "callmeback_setting"),
    ("DELETE", "/callmeback/settings/{id}", (204,), (401, 403), "empty", ""),
    ("GET", "/callmeback/cdrs", (200,), (401,), "list", ""),
    ("GET", "/callmeback/visitors", (200,), (401,), "list", ""),
    ("POST", "/callmeback/buttons", (201,), (400, 401), "item", ""),
    ("GET", "/callmeback/buttons/{id}", (200,), (401, 403, 404), "item", ""),
    ("PATCH", "/callmeback/buttons/{id}", (200,), (400, 401), "item", ""),
    ("DELETE", "/callmeback/buttons/{id}", (204,), (401, 403), "empty", ""),
    # Reports module
    ("GET", "/reportschedules", (200,), (401,), "list", "report_schedule"),
    ("POST", "/reportschedules", (201,), (400, 401), "item", "report_schedule"),
    ("GET", "/reportschedules/{id}", (200,), (401, 403, 404), "item", "report_schedule"),
    ("PATCH", "/reportschedules/{id}", (200,), (400, 401, 403, 404), "item", "report_schedule"),
    ("DELETE", "/reportschedules/{id}", (204,), (401, 403, 404), "empty", ""),
    ("GET", "/reportschedules/dictionaries", (200,), (), "list", ""),
    # Registration module
    ("POST", "/registrations", (200,), (400, 401, 403, 404), "free", ""),
    ("GET", "/registrations/{hash}", (200,), (400, 403, 404, 500), "free", ""),
    ("PATCH", "/registrations/{hash}", (200,), (400, 403, 404, 500), "free", ""),
    ("POST", "/registrations/{hash}/resend", (200,), (400, 403, 404, 500), "free", ""),
    ("GET", "/registrations/{hash}/numbers/{areacode}", (200,), (400, 403, 404, 500), "free", ""),
)

DOCUMENTED_OPERATIONS = tuple(DocumentedOperation(*row) for row in _ROWS)
