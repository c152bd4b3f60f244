"""Customer module: users, user groups, queue groups, the current user, the account.

30 operations.
"""

from __future__ import annotations

from integration.catalogue.rows import ModuleOperations, make_fields
from integration.catalogue.shapes import Field, FieldType, Meaning, Operation, Relation, Resource


def _make_item_field(
    name: str, type: FieldType, about: str, meaning: Meaning | None = None, codes: str = ""
) -> Field:
    """Create a field that only a user's own path returns.

    Each letter of `codes` is one code.
    """
    return Field(name, type, about, item_only=True, meaning=meaning, codes=tuple(codes))


RESOURCES = (
    Resource(
        name="queue_group",
        collection="queuegroups",
        title="Queue group",
        fields=(*make_fields("integer", "id"), *make_fields("string", "name")),
        audience="viewer",
        is_shared=True,
    ),
    Resource(
        name="user",
        collection="users",
        title="User",
        fields=(
            Field("id", "integer", "object id"),
            Field("is_initial", "boolean", "created the account"),
            Field("email", "string", "e-mail address"),
            Field("first_name", "string"),
            Field("last_name", "string"),
            Field("roles", "array", "ACL roles assigned"),
            Field("active", "boolean", "account is active"),
            Field("visited_apps", "array", "applications used by the user"),
            Field("is_root", "boolean", "root admin account"),
            Field(
                "two_factor_auth",
                "string",
                "D (disabled) or E (code by e-mail); an integer in list examples",
                meaning="choice",
                codes=tuple("DE"),
            ),
            Field("created_at", "string", "creation time, UTC"),
            _make_item_field("customer_id_id", "integer", "customer id of the account; `customer` in lists"),
            _make_item_field("mobile_activated", "boolean", "mobile number for outbound SMS is active"),
            _make_item_field("mobile", "string", "mobile number", "contact_phone"),
            Field("ext", "string", "extension number", meaning="extension"),
            Field("cli", "string", "default caller ID", meaning="contact_phone"),
            _make_item_field("esc_cli", "string", "emergency services caller ID", "contact_phone"),
            _make_item_field("cc", "string", "dialplan country code"),
            _make_item_field("area_code", "string", "dialplan area code"),
            _make_item_field(
                "ring_time", "string", "seconds the phone rings before the final destination", "seconds"
            ),
            _make_item_field(
                "final_dst_type",
                "string",
                "U (user), V (voicemail), R (ring group), I (IVR), Q (queue), C (conference), H (hang up)",
                "choice",
                codes="UVRIQCH",
            ),
            _make_item_field("final_dst_id", "integer", "id of the final destination"),
            _make_item_field("vm_pin", "string", "four-digit voicemail PIN", "secret"),
            _make_item_field("vm_to_email", "boolean", "send voicemail to the user's e-mail"),
            _make_item_field("vm_emails", "array", "addresses that receive voicemail"),
            _make_item_field("vm_tts", "string", "voicemail converted to a text transcript"),
            _make_item_field("vm_new", "integer", "count of new voicemail messages"),
            _make_item_field("vm_old", "integer", "count of old voicemail messages"),
            _make_item_field("cw", "boolean", "call waiting enabled"),
            Field("dnd", "boolean", "do not disturb: calls go straight to the final destination"),
            _make_item_field("rec_allowed", "boolean", "ad-hoc call recording allowed"),
            _make_item_field("rec_never_internal", "boolean", "never record calls between extensions"),
            _make_item_field("fm", "boolean", "Follow Me (forwarding) enabled"),
            _make_item_field(
                "fm_only_direct", "boolean", "forward only calls made directly to the user's number"
            ),
            _make_item_field(
                "fm_init_ring_time", "integer", "seconds the user's phone rings before forwarding", "seconds"
            ),
            _make_item_field("fm_announcement_enabled", "boolean", "play an announcement before forwarding"),
            _make_item_field("fm_confirm_required", "boolean", "the forwarding destination must confirm"),
            _make_item_field("fm_allowed", "boolean", "Follow Me allowed"),
            _make_item_field(
                "fm_targets", "array", "forwarding destinations: phone numbers or SIP URIs", "contact_phone"
            ),
            _make_item_field("fm_ring_time", "string", "seconds a forwarding destination rings", "seconds"),
            _make_item_field(
                "fm_strategy", "string", "A (ring all), H (hunt), M (memory hunt)", "choice", codes="AHM"
            ),
            _make_item_field(
                "fm_final_dst_type", "string", "same codes as final_dst_type", "choice", codes="UVRIQCH"
            ),
            _make_item_field("fm_final_dst_id", "integer", "id of the Follow Me final destination"),
            _make_item_field(
                "fm_cli", "string", "caller ID of forwarded calls: R (remote party), L (local user)", "choice"
            ),
            _make_item_field(
                "nun",
                "string",
                "network-unavailability number, used when the phone is offline",
                "contact_phone",
            ),
            _make_item_field(
                "nun_only_direct", "boolean", "use nun only for calls made directly to the user's number"
            ),
            _make_item_field(
                "nun_ring_time", "integer", "seconds nun rings before the final destination", "seconds"
            ),
            _make_item_field(
                "monitor",
                "string",
                "recording: N (off), A (all), I (inbound only), O (outbound only)",
                "choice",
                codes="NAIO",
            ),
            _make_item_field(
                "monitor_transcript", "string", "D (disabled) or Y (transcript, summary, sentiment)"
            ),
            _make_item_field("auto_answer_header", "string", "add an Auto Answer header to incoming calls"),
            _make_item_field(
                "log_missed_calls", "boolean", "make missed-call CDRs for ring group and queue calls"
            ),
            _make_item_field("language", "string", "language of audio announcements"),
            _make_item_field("cnam", "boolean", "CNAM lookups on incoming calls"),
            _make_item_field("email_missed", "string", "send missed-call e-mail notifications"),
            _make_item_field("call_barge_allowed", "boolean", "may monitor other users' calls"),
            _make_item_field("transfer_cli", "string", "caller ID of blind transfers: R or L", "choice"),
            Field("nb_sip_locations", "integer", "SIP clients; above 0 does not mean online"),
            _make_item_field("pickup_group_id", "integer", "pickup group of the user"),
            _make_item_field("location_id", "string", "location of the user"),
            _make_item_field("vm_announcement_id", "integer", "voicemail announcement id"),
            _make_item_field("fm_announcement_id", "integer", "Follow Me announcement id"),
            _make_item_field("legacy_api_key", "string", "deprecated", "secret"),
            Field("customer", "integer", "customer id of the account, as lists name it"),
        ),
        date="created_at",
        relations=(
            Relation("pickup_group_id", "pickupgroups"),
            Relation("vm_announcement_id", "vmannouncements"),
        ),
        audience="viewer",
        user_key="id",
        is_shared=True,
    ),
    Resource(
        name="me",
        collection="me",
        title="Current user",
        fields=(
            Field("id", "string", observed="integer"),
            *make_fields("string", "cc cli:contact_phone currency_iso"),
            Field("is_root", "string", observed="boolean"),
            *make_fields("string", "language"),
            *make_fields("number", "balance"),
            *make_fields("string", "email first_name last_name", documented=False),
            *make_fields("integer", "customer_id", documented=False),
            *make_fields("string", "sip_password:secret sip_domain:secret", documented=False),
        ),
        item=False,
        about="One record, returned by the collection's path in the envelope of a single record.",
    ),
    Resource(
        name="user_group",
        collection="usergroups",
        title="User group",
        fields=(*make_fields("integer", "id"), *make_fields("string", "color name")),
        audience="viewer",
        is_shared=True,
    ),
    Resource(
        name="user_group_policy",
        collection="usergrouppolicies",
        title="User group policy",
        fields=(*make_fields("integer", "id"), *make_fields("string", "color name")),
    ),
)

_GROUP_BODY = make_fields("string", "name color")

_CUSTOMER = ModuleOperations("customer")

OPERATIONS = (
    Operation("customer", "GET", "/contacts/{id}/cdrs", "unknown", "CDRs of a contact."),
    _CUSTOMER.list("/queuegroups", "Queue groups.", "queue_group"),
    _CUSTOMER.create("/queuegroups", "Creates a queue group.", "queue_group", body=(), errors=(400,)),
    _CUSTOMER.read("/queuegroups/{id}", "One queue group.", "queue_group"),
    _CUSTOMER.change(
        "/queuegroups/{id}", "Changes a queue group.", "queue_group", body=(), errors=(400, 404)
    ),
    _CUSTOMER.delete("/queuegroups/{id}", "Deletes a queue group.", "queue_group"),
    _CUSTOMER.delete("/customers/{id}", "Deletes the customer account.", errors=(401, 403)),
    _CUSTOMER.list("/users", "Users.", "user"),
    _CUSTOMER.change_many(
        "/users",
        "Sets location and groups of many users.",
        "user",
        body=(
            Field("id", "integer"),
            Field("location_id", "integer"),
            Field("groups", "array"),
        ),
    ),
    _CUSTOMER.read("/users/{id}", "One user.", "user"),
    _CUSTOMER.delete("/users/{id}", "Deletes a user.", "user", errors=(401, 403)),
    _CUSTOMER.read("/me", "The current user.", "me", errors=(401, 403)),
    Operation("customer", "GET", "/users/{id}/contacts", "unknown", "Contacts of a user."),
    Operation("customer", "GET", "/users/{id}/cdrs", "unknown", "CDRs of a user."),
    Operation("customer", "GET", "/users/{id}/chatmsgs", "unknown", "Chat messages of a user."),
    Operation("customer", "GET", "/users/{id}/calls", "unknown", "Live calls of a user."),
    _CUSTOMER.list("/usergroups", "User groups.", "user_group"),
    _CUSTOMER.create("/usergroups", "Creates a user group.", "user_group", _GROUP_BODY, errors=(400,)),
    _CUSTOMER.read("/usergroups/{id}", "One user group.", "user_group"),
    _CUSTOMER.change(
        "/usergroups/{id}", "Changes a user group.", "user_group", _GROUP_BODY, errors=(400, 404)
    ),
    _CUSTOMER.delete("/usergroups/{id}", "Deletes a user group.", "user_group"),
    _CUSTOMER.list("/usergrouppolicies", "User group policies.", "user_group_policy"),
    _CUSTOMER.create(
        "/usergrouppolicies", "Creates a user group policy.", "user_group_policy", _GROUP_BODY, errors=(400,)
    ),
    _CUSTOMER.read("/usergrouppolicies/{id}", "One user group policy.", "user_group_policy"),
    _CUSTOMER.change(
        "/usergrouppolicies/{id}",
        "Changes a user group policy.",
        "user_group_policy",
        body=_GROUP_BODY,
        errors=(400, 404),
    ),
    _CUSTOMER.delete("/usergrouppolicies/{id}", "Deletes a user group policy.", "user_group_policy"),
    Operation("customer", "GET", "/users/{id}/audio", "unknown", "Audio of a user.", errors=(401, 403, 404)),
    _CUSTOMER.delete("/users/{id}/audio", "Resets the user's audio.", errors=(401, 403)),
    Operation(
        "customer",
        "GET",
        "/users/{id}/smsthreads/{from}/{to}",
        "unknown",
        "SMS between two numbers, grouped.",
    ),
    Operation(
        "customer",
        "GET",
        "/users/{id}/sms/threads/{from}/{to}",
        "unknown",
        "SMS between two numbers, grouped.",
    ),
)
