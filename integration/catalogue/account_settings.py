"""Settings module: call tracking, contacts, conferences, numbers, queues, groups, IVRs. 36 operations.

The specification ends this module with POST /ivrs and shows no update or delete of queues and IVRs; real
clients use PATCH /queues/{id} (docs/platform.md#7-resources).
"""

from __future__ import annotations

from integration.catalogue.rows import (
    COLLECTION_QUERY,
    EXAMPLES_UNRELATED,
    ModuleOperations,
    make_bare_resource,
    make_dictionary_resource,
    make_fields,
)
from integration.catalogue.shapes import Field, Relation, Resource

_AGENTS = Relation("users", "users", is_list=True, is_includable=True, member_fields=("status",))
"""Users of a queue or ring group. `status`: the user is logged in (docs/platform.md#3-collections)."""
_ASSIGNED_NUMBERS = Relation(
    "ddis", "ddis", is_list=True, is_includable=True, reference_fields=("id", "e164")
)
"""Numbers of a queue or ring group: ids, or E.164 as in the body of `POST /ringgroups`."""

RESOURCES = (
    make_bare_resource("calltracking_ddi", "calltracking/ddis", "Call tracking number", EXAMPLES_UNRELATED),
    Resource(
        name="calltracking_campaign",
        collection="calltracking/campaigns",
        title="Call tracking campaign",
        fields=make_fields("integer", "id"),
        item=False,
        about="The examples in the specification show another resource; id is known as campaign_id of PATCH "
        "/calltracking/ddis. Stored as received.",
    ),
    Resource(
        name="contact",
        collection="contacts",
        title="Contact",
        fields=(
            *make_fields(
                "integer", "id dialler_source_id nb_call_attempts outcome_id rel_user_id type:code user_id"
            ),
            *make_fields(
                "string",
                "company email ext:extension first_name group_name last_name mobile:contact_phone "
                "mobile_1:contact_phone mobile_2:contact_phone notes:text tel:contact_phone "
                "tel_1:contact_phone tel_2:contact_phone created_at",
            ),
            *make_fields("boolean", "global internal"),
            *make_fields("timestamp", "last_call_at next_call_at"),
        ),
        date="created_at",
        relations=(Relation("user_id", "users"), Relation("rel_user_id", "users")),
        audience="viewer",
        user_key="user_id",
    ),
    Resource(
        name="conference",
        collection="conferences",
        title="Conference",
        fields=(
            *make_fields("integer", "id confno confno_pstn:contact_phone"),
            *make_fields("boolean", "ann_join_leave monitor:choice"),
            *make_fields("string", "name"),
            *make_fields("string", "pin:secret pin_pstn:secret"),
        ),
    ),
    Resource(
        name="ddi",
        collection="ddis",
        title="Telephone number (DDI)",
        fields=(
            *make_fields("string", "id e164:phone fax_email info name sms_email uri"),
            *make_fields(
                "integer", "channels cli_prefix flag:choice status:code target_id target_type:choice"
            ),
            *make_fields(
                "boolean", "cli_hide esc_enabled fax_enabled has_fax_password sms_enabled tel_verified"
            ),
            *make_fields("timestamp", "created_at"),
            *make_fields("number", "rate:cost"),
        ),
        date="created_at",
        item=False,
        about="The path of one record contains its number, /ddis/{e164}, not its id.",
        audience="viewer",
        is_shared=True,
    ),
    make_bare_resource(
        "tracked_ddi",
        "ddis/calltracking",
        "Number under call tracking",
        EXAMPLES_UNRELATED,
    ),
    Resource(
        name="queue",
        collection="queues",
        title="Queue",
        fields=(
            *make_fields(
                "integer",
                "id ann_freq:seconds final_dst_id ivr language max_callers max_wait_time:seconds moh "
                "monitor:choice number:extension post_call_ivr_id retry:seconds",
            ),
            Field(
                "ring_strategy",
                "integer",
                "A is ring all",
                observed="string",
                meaning="choice",
            ),
            *make_fields(
                "integer",
                "ring_time:seconds wrap_up_panel_timeout:seconds wrap_up_time:seconds final_dst_type:choice",
            ),
            *make_fields("string", "caller_sounds email_missed name"),
            *make_fields(
                "boolean",
                "cli_prefix hash_to_exit hold_ann join_empty liaf pos_ann skip_busy wait_time_prefix "
                "wrap_up_panel",
            ),
            Field(
                "users",
                "array",
                "user ids; objects {id, first_name, last_name, status, …} with include=users",
                documented=False,
            ),
            Field(
                "ddis",
                "array",
                "assigned numbers, with include=ddis",
                documented=False,
                meaning="contact_phone",
            ),
        ),
        relations=(
            _AGENTS,
            _ASSIGNED_NUMBERS,
            Relation("post_call_ivr_id", "ivrs"),
        ),
        audience="viewer",
        is_shared=True,
    ),
    Resource(
        name="ring_group",
        collection="ringgroups",
        title="Ring group",
        fields=(
            *make_fields(
                "integer",
                "id final_dst_id final_dst_type:choice moh_id number:extension ring_time:seconds "
                "strategy:choice",
            ),
            *make_fields("boolean", "cli_prefix"),
            *make_fields("string", "name"),
            Field("users", "array", "users of the ring group, with include=users", documented=False),
            Field(
                "ddis",
                "array",
                "assigned numbers, with include=ddis",
                documented=False,
                meaning="contact_phone",
            ),
        ),
        relations=(
            _AGENTS,
            _ASSIGNED_NUMBERS,
        ),
        audience="viewer",
        is_shared=True,
    ),
    Resource(
        name="pickup_group",
        collection="pickupgroups",
        title="Pickup group",
        fields=(*make_fields("integer", "id users"), *make_fields("string", "name")),
        audience="viewer",
        is_shared=True,
    ),
    Resource(
        name="routing_rule",
        collection="routingrules",
        title="Routing rule",
        fields=(
            *make_fields("integer", "id customer direction:code pos"),
            *make_fields("string", "action:choice destination:code source time_interval"),
            *make_fields("boolean", "final_dst"),
        ),
    ),
    Resource(
        name="ivr",
        collection="ivrs",
        title="IVR",
        fields=(
            *make_fields(
                "integer",
                "id final_dst_id final_dst_type:choice language number:extension repeats "
                "ring_time:seconds timeout:seconds",
            ),
            *make_fields("boolean", "ext_dialing random_choice"),
            *make_fields("string", "name post_sounds random_dst sounds hash star zero"),
            *make_fields("string", "one two three four five six seven eight nine"),
            *make_fields("string", "one_sounds two_sounds three_sounds four_sounds five_sounds"),
            *make_fields("string", "six_sounds seven_sounds eight_sounds nine_sounds"),
        ),
        item=False,
    ),
    make_dictionary_resource("ddis", "ddi", "Codes of telephone numbers"),
    make_dictionary_resource("ringgroups", "ring_group", "Codes of ring groups"),
)

_CONTACT_BODY = (
    *make_fields("string", "type"),
    *make_fields("integer", "dialler_source_id outcome_id"),
    *make_fields("string", "group_name first_name last_name email company tel tel_1 tel_2"),
    *make_fields("string", "speed_dial_phone speed_dial_phone_1 speed_dial_phone_2 mobile mobile_1 mobile_2"),
    *make_fields("string", "speed_dial_mobile speed_dial_mobile_1 speed_dial_mobile_2 notes"),
    *make_fields("array", "labels groups"),
    *make_fields("boolean", "transfer_list"),
    *make_fields("integer", "user_id"),
)
_CONFERENCE_BODY = (
    *make_fields("string", "name"),
    *make_fields("string", "pin:secret pin_pstn:secret"),
    *make_fields("boolean", "ann_join_leave monitor"),
    *make_fields("array", "ddis"),
)
_QUEUE_BODY = (
    *make_fields("integer", "moh_id ivr_id"),
    Field("ddis", "array"),
    Field(
        "users",
        "array",
        "objects {id, status}: user id, and whether logged in to the queue by default",
        members=("id", "status"),
    ),
    *make_fields("string", "name"),
    *make_fields("integer", "number"),
    *make_fields("boolean", "cli_prefix wait_time_prefix"),
    *make_fields("any", "agent_sounds caller_sounds"),
    *make_fields("integer", "max_wait_time max_callers"),
    *make_fields("boolean", "join_empty"),
    *make_fields("string", "ring_strategy"),
    *make_fields("integer", "ring_time retry wrap_up_time"),
    *make_fields("boolean", "wrap_up_panel"),
    *make_fields("integer", "wrap_up_panel_timeout"),
    *make_fields("boolean", "skip_busy"),
    *make_fields("string", "language"),
    *make_fields("boolean", "pos_ann hold_ann"),
    *make_fields("integer", "ann_freq"),
    *make_fields("string", "final_dst_type"),
    *make_fields("integer", "final_dst_id post_call_ivr_id"),
    *make_fields("boolean", "hash_to_exit liaf"),
    *make_fields("array", "groups"),
    *make_fields("string", "monitor email_missed"),
)
_RING_GROUP_BODY = (
    Field("name", "string"),
    Field("users", "array", "user ids"),
    Field("ddis", "array", "numbers, E.164"),
    *make_fields("string", "strategy final_dst_type"),
    *make_fields("integer", "final_dst_id ring_time"),
    *make_fields("boolean", "cli_prefix"),
    *make_fields("integer", "moh_id number"),
)
_ROUTING_RULE_BODY = (
    Field("pos", "integer"),
    Field("source", "array", "user id or E.164 number, by direction"),
    Field("destination", "array", "number pattern id or group, by direction"),
    Field("time_interval", "array", "time interval ids"),
    Field("action", "string", "e.g. block, redirect to IVR or user"),
    Field("direction", "string", "cannot be changed afterwards"),
)
_IVR_BODY = (
    *make_fields("string", "name"),
    *make_fields("integer", "ring_time"),
    *make_fields("array", "post_sounds ddis"),
    *make_fields("integer", "timeout repeats"),
    *make_fields("boolean", "ext_dialing"),
    *make_fields("string", "language final_dst_type"),
    *make_fields("integer", "final_dst_id number"),
    *make_fields("boolean", "random_choice"),
)
_INCLUDE = Field("include", "string", "comma list of ddis, users")
_INCLUDE_OBSERVED = Field("include", "string", "users; fields[users]=… narrows them", documented=False)

_SETTINGS = ModuleOperations("settings")

OPERATIONS = (
    _SETTINGS.list("/calltracking/ddis", "Call tracking numbers.", "calltracking_ddi"),
    _SETTINGS.change_many(
        "/calltracking/ddis",
        "Assigns numbers to campaigns.",
        "calltracking_ddi",
        body=(Field("e164", "string"), Field("campaign_id", "integer"), Field("id", "integer", "optional")),
    ),
    _SETTINGS.list("/calltracking/campaigns", "Call tracking campaigns.", "calltracking_campaign"),
    _SETTINGS.create(
        "/calltracking/campaigns",
        "Creates a campaign.",
        "calltracking_campaign",
        body=(
            *make_fields("integer", "chat_setting_id call_me_back_setting_id call_tracking_setting_id"),
            *make_fields("string", "name url"),
            *make_fields("array", "rules"),
        ),
    ),
    _SETTINGS.list("/contacts", "Contacts.", "contact"),
    _SETTINGS.create("/contacts", "Creates a contact.", "contact", _CONTACT_BODY, errors=(400,)),
    _SETTINGS.change_many(
        "/contacts",
        "Groups and labels many contacts.",
        "contact",
        body=(Field("id", "integer"), Field("group_name", "string"), Field("labels", "array")),
    ),
    _SETTINGS.read("/contacts/{id}", "One contact.", "contact"),
    _SETTINGS.change("/contacts/{id}", "Changes a contact.", "contact", _CONTACT_BODY, errors=(400, 404)),
    _SETTINGS.delete(
        "/contacts/{ids}",
        "Deletes contacts; 202 if the deletion is accepted and runs later.",
        "contact",
        success=(204, 202),
    ),
    _SETTINGS.list("/conferences", "Conferences.", "conference"),
    _SETTINGS.create("/conferences", "Creates a conference.", "conference", _CONFERENCE_BODY),
    _SETTINGS.read("/conferences/{id}", "One conference.", "conference"),
    _SETTINGS.change("/conferences/{id}", "Changes a conference.", "conference", _CONFERENCE_BODY),
    _SETTINGS.delete("/conferences/{id}", "Deletes a conference.", "conference"),
    _SETTINGS.list("/ddis", "Telephone numbers.", "ddi"),
    _SETTINGS.list("/ddis/calltracking", "Numbers under call tracking.", "tracked_ddi"),
    _SETTINGS.list_codes("/ddis/dictionaries", "Dictionaries of telephone numbers.", "ddi_dictionary"),
    _SETTINGS.read("/ddis/{e164}", "The telephone number's record.", "ddi"),
    _SETTINGS.list("/queues", "Queues.", "queue", query=(*COLLECTION_QUERY, _INCLUDE_OBSERVED)),
    _SETTINGS.create("/queues", "Creates a queue.", "queue", _QUEUE_BODY),
    _SETTINGS.read("/queues/{id}", "One queue.", "queue"),
    _SETTINGS.list("/ringgroups", "Ring groups.", "ring_group", query=(*COLLECTION_QUERY, _INCLUDE)),
    _SETTINGS.create("/ringgroups", "Creates a ring group.", "ring_group", _RING_GROUP_BODY),
    _SETTINGS.list_codes("/ringgroups/dictionaries", "Dictionaries of ring groups.", "ring_group_dictionary"),
    _SETTINGS.read("/ringgroups/{id}", "One ring group.", "ring_group"),
    _SETTINGS.change("/ringgroups/{id}", "Changes a ring group.", "ring_group", _RING_GROUP_BODY),
    _SETTINGS.delete("/ringgroups/{id}", "Deletes a ring group.", "ring_group"),
    _SETTINGS.list("/pickupgroups", "Pickup groups.", "pickup_group"),
    _SETTINGS.read("/pickupgroups/{id}", "One pickup group.", "pickup_group"),
    _SETTINGS.list("/routingrules", "Routing rules.", "routing_rule"),
    _SETTINGS.create(
        "/routingrules", "Creates a routing rule.", "routing_rule", _ROUTING_RULE_BODY, errors=(400,)
    ),
    _SETTINGS.read("/routingrules/{id}", "One routing rule.", "routing_rule"),
    _SETTINGS.change(
        "/routingrules/{id}",
        "Changes a routing rule; its direction cannot be changed.",
        "routing_rule",
        body=_ROUTING_RULE_BODY,
        errors=(400, 404),
    ),
    _SETTINGS.list("/ivrs", "IVRs.", "ivr"),
    _SETTINGS.create("/ivrs", "Creates an IVR.", "ivr", _IVR_BODY),
)
