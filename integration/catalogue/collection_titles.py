"""Titles of collections in the plural, for pages and messages."""

from __future__ import annotations

from collections.abc import Mapping

from integration.catalogue.shapes import Resource

_TITLES: Mapping[str, str] = {
    "users": "Users",
    "contacts": "Contacts",
    "usergroups": "User groups",
    "pickupgroups": "Pickup groups",
    "aclroles": "ACL roles",
    "usergrouppolicies": "User group policies",
    "ddis": "Telephone numbers",
    "ddis/calltracking": "Tracked numbers",
    "conferences": "Conferences",
    "queues": "Queues",
    "ringgroups": "Ring groups",
    "queuegroups": "Queue groups",
    "routingrules": "Routing rules",
    "ivrs": "IVRs",
    "vmannouncements": "Voicemail announcements",
    "cdrs": "Call detail records",
    "calls": "Live calls",
    "monitors": "Recordings",
    "voicemessages": "Voice messages",
    "faxes": "Faxes",
    "chats": "Chats",
    "webcalls": "Webcalls",
    "mediasessions": "Media sessions",
    "msdrs": "Media session detail records",
    "calltracking/campaigns": "Campaigns",
    "calltracking/ddis": "Campaign numbers",
    "calltracking/cdrs": "Campaign call records",
    "cdrs/calltracking": "Tracked call records",
    "callmeback/settings": "Call-me-back widgets",
    "callmeback/websites": "Call-me-back websites",
    "callmeback/visitors": "Call-me-back visitors",
    "callmeback/cdrs": "Call-me-back call records",
    "me": "Switchroom's own user",
    "calllabels": "Call labels",
    "sms/cannedresponses": "SMS templates",
    "reportschedules": "Report schedules",
}


def get_title(resource: Resource) -> str:
    """Return the plural title of a collection, or else the resource's title."""
    return _TITLES.get(resource.collection, resource.title)
