"""Documented fields of the platform's records, written by hand from the specification (chapter Resources).

Per record: names by JSON type. `timestamp` is text such as '2026-09-02 08:45:55'.
"""

from __future__ import annotations

from typing import Any

RECORD_FIELDS: dict[str, dict[str, str]] = {
    "user": {
        "integer": "id customer_id_id final_dst_id vm_new vm_old fm_init_ring_time fm_final_dst_id "
        "nun_ring_time nb_sip_locations pickup_group_id vm_announcement_id fm_announcement_id",
        "boolean": "is_initial active is_root mobile_activated vm_to_email cw dnd rec_allowed "
        "rec_never_internal fm fm_only_direct fm_announcement_enabled fm_confirm_required fm_allowed "
        "nun_only_direct log_missed_calls cnam call_barge_allowed",
        "string": "email first_name last_name two_factor_auth created_at mobile ext cli esc_cli cc area_code "
        "ring_time final_dst_type vm_pin vm_tts fm_ring_time fm_strategy fm_final_dst_type fm_cli nun "
        "monitor monitor_transcript auto_answer_header language email_missed transfer_cli location_id "
        "legacy_api_key",
        "array": "roles visited_apps vm_emails fm_targets",
    },
    "user_in_list": {
        "integer": "id customer",
        "boolean": "active is_initial is_root",
        "string": "created_at email first_name last_name two_factor_auth",
        "array": "roles visited_apps",
    },
    "cdr": {
        "integer": "id duration live_id parent_live_id user_id sip_endpoint_id server_id billsec call_id",
        "string": "type calldate clid src_id src_name src src_ua src_codec dst_id dst dst_name dst_ua "
        "dst_codec disposition destination context t_cause info",
        "number": "rate charge",
    },
    "live_call": {
        "integer": "id connected_at start_time duration destination monitor_state parent_id state",
        "string": "clid context dst dst_call_id dst_codec dst_contact dst_id dst_name dst_ua queue_state "
        "referred_by src src_call_id src_codec src_contact src_id src_name src_ua",
        "number": "dst_connection dst_rate min_charge src_rate",
    },
    "webcall": {
        "integer": "id from_duration to_duration",
        "string": "calldate from to",
        "number": "charge from_charge from_rate to_charge to_rate",
    },
    "media_session": {
        "integer": "id duration user",
        "string": "call_id dst_id dst_ua src_id src_ua status type",
        "timestamp": "created_at updated_at",
    },
    "sms": {
        "integer": "id user_id",
        "timestamp": "created_at",
        "string": "from from_id from_name message result to to_id to_name type",
    },
    "fax": {
        "integer": "id pages status type",
        "number": "charge",
        "timestamp": "created_at",
        "string": "filename from to",
    },
    "voicemail_announcement": {
        "integer": "id extension",
        "timestamp": "created_at",
        "string": "description",
    },
    "ddi": {
        "string": "id e164 fax_email info name sms_email uri",
        "integer": "channels cli_prefix flag status target_id target_type",
        "boolean": "cli_hide esc_enabled fax_enabled has_fax_password sms_enabled tel_verified",
        "timestamp": "created_at",
        "number": "rate",
    },
    "contact": {
        "integer": "id dialler_source_id nb_call_attempts outcome_id rel_user_id type user_id",
        "string": "company email ext first_name group_name last_name mobile mobile_1 mobile_2 notes tel "
        "tel_1 tel_2 created_at",
        "boolean": "global internal",
        "timestamp": "last_call_at next_call_at",
    },
    "conference": {
        "integer": "id confno confno_pstn",
        "boolean": "ann_join_leave monitor",
        "string": "name pin pin_pstn",
    },
    "queue": {
        "integer": "id ann_freq final_dst_id ivr language max_callers max_wait_time moh monitor number "
        "post_call_ivr_id retry ring_strategy ring_time wrap_up_panel_timeout wrap_up_time final_dst_type",
        "string": "caller_sounds email_missed name",
        "boolean": "cli_prefix hash_to_exit hold_ann join_empty liaf pos_ann skip_busy wait_time_prefix "
        "wrap_up_panel",
    },
    "ring_group": {
        "integer": "id final_dst_id final_dst_type moh_id number ring_time strategy",
        "boolean": "cli_prefix",
        "string": "name",
    },
    "pickup_group": {"integer": "id users", "string": "name"},
    "routing_rule": {
        "integer": "id customer direction pos",
        "string": "action destination source time_interval",
        "boolean": "final_dst",
    },
    "ivr": {
        "integer": "id final_dst_id final_dst_type language number repeats ring_time timeout",
        "boolean": "ext_dialing random_choice",
        "string": "name post_sounds random_dst sounds hash star zero one two three four five six seven eight "
        "nine one_sounds two_sounds three_sounds four_sounds five_sounds six_sounds seven_sounds "
        "eight_sounds nine_sounds",
    },
    "queue_group": {"integer": "id", "string": "name"},
    "user_group": {"integer": "id", "string": "color name"},
    "acl_role": {"integer": "id", "string": "_name name product_code"},
    "current_user": {
        "integer": "id",
        "string": "cc cli currency_iso is_root language",
        "number": "balance",
    },
    "chat": {
        "integer": "id customer_id duration operator_id state website_id",
        "timestamp": "created_at",
        "string": "operator_ua visitor_city visitor_country visitor_email visitor_geo visitor_id visitor_ip "
        "visitor_name visitor_referer visitor_ua",
    },
    "monitor": {
        "integer": "id duration live_id sentiment sip_endpoint_id size user_id",
        "string": "called caller context dst_id dst_name src_id summary transcript type",
        "timestamp": "timestamp",
    },
    "msdr": {
        "integer": "id duration media_session_id user_id",
        "string": "call_id dst dst_id dst_ua src src_id src_ua t_cause type",
        "timestamp": "created_at",
    },
    "voicemessage": {
        "integer": "id duration extension_id folder live_id parent_live_id",
        "string": "caller callerid dialled transcript",
        "boolean": "is_new",
        "timestamp": "origtime",
    },
    "callmeback_setting": {
        "integer": "id button_id culture ddi position",
        "string": "allowed_countries name privacy_policy_url title welcome_screen_msg",
        "boolean": "floating_icon show_to_allowed_countries_only",
        "number": "max_call_rate",
        "timestamp": "created_at",
    },
    "report_schedule": {
        "integer": "id culture format report_id status",
        "timestamp": "created_at end_at last_run_at next_run_at start_at",
        "string": "description emails frequency name timezone",
    },
}

SHAPELESS = {"integer": "id", "string": "name text", "array": "rules"}
"""Fields of records that the specification does not show: an id and some others."""

DATES = frozenset({"calldate", "created_at", "updated_at", "timestamp", "origtime"})
"""Fields of type string or timestamp that hold a time."""


def make_values(record: str, key: int) -> dict[str, Any]:
    """Create a value of the documented type for each documented field of `record`.

    The values of two records with different `key` differ.
    """
    values: dict[str, Any] = {}
    for kind, names in RECORD_FIELDS.get(record, SHAPELESS).items():
        for name in names.split():
            values[name] = _make_value(kind, name, key)
    values["id"] = str(key) if record == "ddi" else key
    if "e164" in values:
        values["e164"] = f"4420794600{key:02}"
    return values


def _make_value(kind: str, name: str, key: int) -> Any:
    if kind == "timestamp" or name in DATES:
        return f"2026-09-02 08:45:{key % 60:02}"
    return {
        "integer": 4278000100 + key,
        "number": 0.25 + key,
        "boolean": key % 2 == 0,
        "string": f"{name} “{key}” é / \\",
        "array": [f"a{key}", key],
    }[kind]
