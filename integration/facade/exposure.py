"""Source of the response to each operation of the specification, for the facade.

Every operation has an explicit entry; a test checks this. The catalogue contains the facts about the
platform.
"""

from __future__ import annotations

from enum import Enum


class Exposure(Enum):
    """Source of the response to an operation.

    The value is the description in command `catalogue`.
    """

    MIRROR = "served from the mirror"
    READ_THROUGH = "requested from the platform each time"
    WRITE_THROUGH = "sent to the platform, then stored in the mirror"
    DESTRUCTIVE = "sent to the platform, only with facade.destructive"
    FILE = "served from the archive, downloaded and stored if missing"
    PUBLIC = "passed to the platform without credentials"
    LOCAL = "handled by Switchroom"


MIRROR = Exposure.MIRROR
READ_THROUGH = Exposure.READ_THROUGH
WRITE_THROUGH = Exposure.WRITE_THROUGH
DESTRUCTIVE = Exposure.DESTRUCTIVE
FILE = Exposure.FILE
PUBLIC = Exposure.PUBLIC
LOCAL = Exposure.LOCAL

EXPOSURE: dict[str, Exposure] = {
    "POST /login": PUBLIC,
    "POST /login2fa": PUBLIC,
    "POST /logout": LOCAL,
    "GET /ping": LOCAL,
    "POST /confirmation": PUBLIC,
    "POST /password": PUBLIC,
    "POST /reset": PUBLIC,
    "GET /aclroles": MIRROR,
    "GET /aclroles/{id}": MIRROR,
    "GET /calls": MIRROR,
    "POST /calls": WRITE_THROUGH,
    "GET /calls/{id}": MIRROR,
    "PATCH /calls/{id}": WRITE_THROUGH,
    "DELETE /calls/{id}": WRITE_THROUGH,
    "GET /calls/{id}/trace": READ_THROUGH,
    "GET /calls/{id}/monitors": MIRROR,
    "GET /webcalls": MIRROR,
    "POST /webcalls": WRITE_THROUGH,
    "POST /leadcalls": WRITE_THROUGH,
    "GET /mediasessions": MIRROR,
    "GET /mediasessions/{id}": MIRROR,
    "GET /mediasessions/dictionaries": MIRROR,
    "GET /calllabels": MIRROR,
    "POST /calllabels": WRITE_THROUGH,
    "GET /calllabels/{id}": MIRROR,
    "PATCH /calllabels/{id}": WRITE_THROUGH,
    "DELETE /calllabels/{id}": WRITE_THROUGH,
    "GET /sms": MIRROR,
    "POST /sms": WRITE_THROUGH,
    "DELETE /sms": DESTRUCTIVE,
    "GET /sms/{id}": MIRROR,
    "GET /sms/dictionaries": MIRROR,
    "GET /sms/cannedresponses": MIRROR,
    "POST /sms/cannedresponses": WRITE_THROUGH,
    "GET /sms/cannedresponses/{id}": MIRROR,
    "PATCH /sms/cannedresponses/{id}": WRITE_THROUGH,
    "DELETE /sms/cannedresponses/{id}": WRITE_THROUGH,
    "GET /faxes": MIRROR,
    "GET /vmannouncements": MIRROR,
    "POST /vmannouncements": WRITE_THROUGH,
    "GET /vmannouncements/{id}": MIRROR,
    "PATCH /vmannouncements/{id}": WRITE_THROUGH,
    "DELETE /vmannouncements/{id}": WRITE_THROUGH,
    "GET /calltracking/ddis": MIRROR,
    "PATCH /calltracking/ddis": WRITE_THROUGH,
    "GET /calltracking/campaigns": MIRROR,
    "POST /calltracking/campaigns": WRITE_THROUGH,
    "GET /contacts": MIRROR,
    "POST /contacts": WRITE_THROUGH,
    "PATCH /contacts": WRITE_THROUGH,
    "GET /contacts/{id}": MIRROR,
    "PATCH /contacts/{id}": WRITE_THROUGH,
    "DELETE /contacts/{ids}": WRITE_THROUGH,
    "GET /conferences": MIRROR,
    "POST /conferences": WRITE_THROUGH,
    "GET /conferences/{id}": MIRROR,
    "PATCH /conferences/{id}": WRITE_THROUGH,
    "DELETE /conferences/{id}": WRITE_THROUGH,
    "GET /ddis": MIRROR,
    "GET /ddis/calltracking": MIRROR,
    "GET /ddis/dictionaries": MIRROR,
    "GET /ddis/{e164}": MIRROR,
    "GET /queues": MIRROR,
    "POST /queues": WRITE_THROUGH,
    "GET /queues/{id}": MIRROR,
    "GET /ringgroups": MIRROR,
    "POST /ringgroups": WRITE_THROUGH,
    "GET /ringgroups/dictionaries": MIRROR,
    "GET /ringgroups/{id}": MIRROR,
    "PATCH /ringgroups/{id}": WRITE_THROUGH,
    "DELETE /ringgroups/{id}": WRITE_THROUGH,
    "GET /pickupgroups": MIRROR,
    "GET /pickupgroups/{id}": MIRROR,
    "GET /routingrules": MIRROR,
    "POST /routingrules": WRITE_THROUGH,
    "GET /routingrules/{id}": MIRROR,
    "PATCH /routingrules/{id}": WRITE_THROUGH,
    "GET /ivrs": MIRROR,
    "POST /ivrs": WRITE_THROUGH,
    "GET /contacts/{id}/cdrs": MIRROR,
    "GET /queuegroups": MIRROR,
    "POST /queuegroups": WRITE_THROUGH,
    "GET /queuegroups/{id}": MIRROR,
    "PATCH /queuegroups/{id}": WRITE_THROUGH,
    "DELETE /queuegroups/{id}": WRITE_THROUGH,
    "DELETE /customers/{id}": DESTRUCTIVE,
    "GET /users": MIRROR,
    "PATCH /users": WRITE_THROUGH,
    "GET /users/{id}": MIRROR,
    "DELETE /users/{id}": WRITE_THROUGH,
    "GET /me": MIRROR,
    "GET /users/{id}/contacts": MIRROR,
    "GET /users/{id}/cdrs": MIRROR,
    "GET /users/{id}/chatmsgs": MIRROR,
    "GET /users/{id}/calls": MIRROR,
    "GET /usergroups": MIRROR,
    "POST /usergroups": WRITE_THROUGH,
    "GET /usergroups/{id}": MIRROR,
    "PATCH /usergroups/{id}": WRITE_THROUGH,
    "DELETE /usergroups/{id}": WRITE_THROUGH,
    "GET /usergrouppolicies": MIRROR,
    "POST /usergrouppolicies": WRITE_THROUGH,
    "GET /usergrouppolicies/{id}": MIRROR,
    "PATCH /usergrouppolicies/{id}": WRITE_THROUGH,
    "DELETE /usergrouppolicies/{id}": WRITE_THROUGH,
    "GET /users/{id}/audio": MIRROR,
    "DELETE /users/{id}/audio": WRITE_THROUGH,
    "GET /users/{id}/smsthreads/{from}/{to}": MIRROR,
    "GET /users/{id}/sms/threads/{from}/{to}": MIRROR,
    "GET /chats": MIRROR,
    "GET /chats/{id}": MIRROR,
    "DELETE /chatmsgs/{ids}": WRITE_THROUGH,
    "DELETE /chatmsgs": DESTRUCTIVE,
    "GET /cdrs": MIRROR,
    "PATCH /cdrs": WRITE_THROUGH,
    "DELETE /cdrs": DESTRUCTIVE,
    "GET /cdrs/{id}": MIRROR,
    "GET /cdrs/{id}.trace": FILE,
    "GET /cdrs/{id}.pcap": FILE,
    "GET /cdrs/calltracking": MIRROR,
    "GET /cdrs/dictionaries": MIRROR,
    "GET /cdrs/{id}/notes": MIRROR,
    "GET /calltracking/cdrs": MIRROR,
    "GET /users/{id}/cdrs.csv": FILE,
    "GET /monitors": MIRROR,
    "DELETE /monitors": DESTRUCTIVE,
    "GET /monitors/{id}": MIRROR,
    "GET /monitors/{id}.mp3": FILE,
    "PATCH /monitors/{id}": WRITE_THROUGH,
    "DELETE /monitors/{ids}": WRITE_THROUGH,
    "GET /msdrs": MIRROR,
    "GET /msdrs/{id}": MIRROR,
    "GET /msdrs/{id}.trace": FILE,
    "GET /msdrs/{id}.pcap": FILE,
    "GET /msdrs/dictionaries": MIRROR,
    "DELETE /statements": DESTRUCTIVE,
    "GET /voicemessages": MIRROR,
    "PATCH /voicemessages": WRITE_THROUGH,
    "DELETE /voicemessages": DESTRUCTIVE,
    "GET /voicemessages/{id}": MIRROR,
    "GET /voicemessages/{id}.mp3": FILE,
    "DELETE /voicemessages/{ids}": WRITE_THROUGH,
    "GET /callmeback/websites": MIRROR,
    "GET /callmeback/settings": MIRROR,
    "POST /callmeback/settings": WRITE_THROUGH,
    "GET /callmeback/settings/{id}": MIRROR,
    "PATCH /callmeback/settings/{id}": WRITE_THROUGH,
    "DELETE /callmeback/settings/{id}": WRITE_THROUGH,
    "GET /callmeback/cdrs": MIRROR,
    "GET /callmeback/visitors": MIRROR,
    "POST /callmeback/buttons": WRITE_THROUGH,
    "GET /callmeback/buttons/{id}": READ_THROUGH,
    "PATCH /callmeback/buttons/{id}": WRITE_THROUGH,
    "DELETE /callmeback/buttons/{id}": WRITE_THROUGH,
    "GET /reportschedules": MIRROR,
    "POST /reportschedules": WRITE_THROUGH,
    "GET /reportschedules/{id}": MIRROR,
    "PATCH /reportschedules/{id}": WRITE_THROUGH,
    "DELETE /reportschedules/{id}": WRITE_THROUGH,
    "GET /reportschedules/dictionaries": MIRROR,
    "POST /registrations": PUBLIC,
    "GET /registrations/{hash}": PUBLIC,
    "PATCH /registrations/{hash}": PUBLIC,
    "POST /registrations/{hash}/resend": PUBLIC,
    "GET /registrations/{hash}/numbers/{areacode}": PUBLIC,
}

UNDOCUMENTED_EXPOSURE = {"GET /faxes/{id}.pdf": FILE}
"""Operations that the specification lacks and that are not passed through."""

UNDOCUMENTED_METHODS = frozenset({("PATCH", "queues")})
"""Undocumented (method, first path segment) pairs on documented paths, passed through.

Real clients use them (docs/platform.md#16-clients, the queue script)."""
