"""A request body per operation, with the documented fields and types, written by hand."""

from __future__ import annotations

from typing import Any

_CONTACT = {
    "type": "C", "dialler_source_id": 3, "outcome_id": 4, "group_name": "Regulars", "first_name": "Zoe",
    "last_name": "Example", "email": "zoe@example.com", "company": "Example Ltd", "tel": "442079460101",
    "tel_1": "442079460102", "tel_2": "", "speed_dial_phone": "7", "mobile": "447700900777", "notes": "",
    "labels": ["vip"], "groups": [], "transfer_list": True, "user_id": 7,
}  # fmt: skip
_CONFERENCE = {
    "name": "Board", "pin": "1234", "pin_pstn": "9876", "ann_join_leave": True, "monitor": False,
    "ddis": ["442079460107"],
}  # fmt: skip
_RING_GROUP = {
    "name": "Night", "users": [7, 8], "ddis": ["442079460106"], "strategy": "A", "final_dst_type": "V",
    "final_dst_id": 7, "ring_time": 25, "cli_prefix": False, "moh_id": 2, "number": 610,
}  # fmt: skip
_RULE = {
    "pos": 9, "source": ["447700900666"], "destination": [3], "time_interval": [1], "action": "block",
    "direction": "in",
}  # fmt: skip
_ANNOUNCEMENT = {"extension_id": 7, "description": "Closed", "data": "UklGRiQAAABXQVZFZm10IA=="}
_WIDGET = {
    "button_id": 2001, "name": "Shop", "position": "left", "floating_icon": True, "culture": "en",
    "allowed_countries": ["GB"], "show_to_allowed_countries_only": False, "welcome_screen_msg": "Hello",
    "privacy_policy_url": "https://example.com/privacy", "ddi_e164": 442079460101, "max_call_rate": 0.15,
}  # fmt: skip
_SCHEDULE = {
    "report_id": 1, "name": "Weekly", "description": "Weekly report", "emails": ["john@example.com"],
    "format": "pdf", "culture": "en", "start_at": "2026-09-02", "end_at": "2026-12-31", "status": "A",
    "frequency": {"type": "W", "time_of_day": [10], "day_of_week": [1, 5], "day_of_month": []},
    "timezone": "Europe/London",
}  # fmt: skip
_GROUP = {"name": "Temps", "color": "#123456"}

REQUEST_BODIES: dict[str, Any] = {
    "POST /login": {
        "email": "ann@example.com",
        "password": "x",
        "remember_me": False,
        "device_fingerprint": "f",
    },
    "POST /login2fa": {"code": "123456", "nonce": "n", "add_device": False, "remember_me": False},
    "POST /confirmation": {"email": "ann@example.com"},
    "POST /password": {"email": "ann@example.com"},
    "POST /reset": {"token": "t", "password": "new"},
    "POST /calls": {"to": "447700900321", "from": "7", "caller_id": "anonymous"},
    "PATCH /calls/{id}": {"dst": "1002", "labels": [], "action_url": "https://example.com/1"},
    "POST /webcalls": {"from": "447700900321", "to": "1002"},
    "POST /leadcalls": {"caller_id": "442079460100", "to": "447700900321", "tts": "Hello"},
    "POST /calllabels": {"name": "Urgent"},
    "PATCH /calllabels/{id}": {"name": "Urgent"},
    "POST /sms": {"to": "447700900321", "from": "442079460100", "message": "Café"},
    "POST /sms/cannedresponses": {"name": "Hi", "text": "Hello"},
    "PATCH /sms/cannedresponses/{id}": {"name": "Hi", "text": "Hello"},
    "POST /vmannouncements": _ANNOUNCEMENT,
    "PATCH /vmannouncements/{id}": _ANNOUNCEMENT,
    "PATCH /calltracking/ddis": [{"e164": "442079460103", "campaign_id": 81002, "id": 5}],
    "POST /calltracking/campaigns": {
        "chat_setting_id": 1, "call_me_back_setting_id": 2, "call_tracking_setting_id": 3, "name": "Radio",
        "url": "https://example.com/radio", "rules": [],
    },
    "POST /contacts": _CONTACT,
    "PATCH /contacts": [{"id": 7, "group_name": "Regulars", "labels": []}],
    "PATCH /contacts/{id}": _CONTACT,
    "POST /conferences": _CONFERENCE,
    "PATCH /conferences/{id}": _CONFERENCE,
    "POST /queues": {
        "moh_id": 1, "ivr_id": 2, "ddis": [], "users": [{"id": 7, "status": True}], "name": "Returns",
        "number": 602, "cli_prefix": True, "max_wait_time": 60, "ring_strategy": "A", "ring_time": 15,
        "email_missed": "N",
    },
    "POST /ringgroups": _RING_GROUP,
    "PATCH /ringgroups/{id}": _RING_GROUP,
    "POST /routingrules": _RULE,
    "PATCH /routingrules/{id}": {name: value for name, value in _RULE.items() if name != "direction"},
    "POST /ivrs": {
        "name": "Holidays", "ring_time": 10, "post_sounds": [1], "ddis": [], "timeout": 4, "repeats": 2,
        "ext_dialing": True, "language": "en", "final_dst_type": "H", "final_dst_id": 0, "number": 650,
        "random_choice": False,
    },
    "POST /queuegroups": {"name": "Evening"},
    "PATCH /queuegroups/{id}": {"name": "Evening"},
    "PATCH /users": [{"id": 7, "location_id": 3, "groups": [1]}],
    "POST /usergroups": _GROUP,
    "PATCH /usergroups/{id}": _GROUP,
    "POST /usergrouppolicies": _GROUP,
    "PATCH /usergrouppolicies/{id}": _GROUP,
    "PATCH /cdrs": [{"id": 7, "labels": ["vip"]}],
    "PATCH /monitors/{id}": {
        "transcript": "Hello", "transcript_speakers": "[]", "summary": "Short", "sentiment": "positive",
        "cx_score": 7, "metadata": {},
    },
    "PATCH /voicemessages": [{"id": 7, "folder": "Old"}],
    "POST /callmeback/settings": _WIDGET,
    "PATCH /callmeback/settings/{id}": _WIDGET,
    "POST /callmeback/buttons": {"name": "Square"},
    "PATCH /callmeback/buttons/{id}": {"name": "Square", "data_online": "Call", "data_offline": "Closed"},
    "POST /reportschedules": _SCHEDULE,
    "PATCH /reportschedules/{id}": _SCHEDULE,
    "POST /registrations": {"email": "new@example.org"},
    "PATCH /registrations/{hash}": {"company": "Example Ltd"},
}  # fmt: skip
