"""Authentication group: sessions, the second factor, passwords, ACL roles. 9 operations."""

from __future__ import annotations

from integration.catalogue.rows import ModuleOperations, make_fields
from integration.catalogue.shapes import Field, Operation, Resource

RESOURCES = (
    Resource(
        name="acl_role",
        collection="aclroles",
        title="ACL role",
        fields=(*make_fields("integer", "id"), *make_fields("string", "_name name product_code")),
    ),
)

_AUTHENTICATION = ModuleOperations("authentication")

OPERATIONS = (
    Operation(
        "authentication",
        "POST",
        "/login",
        "message",
        "Opens a session: message, user_token and user_id, flat. With a second factor switched on the "
        "platform answers 202 with a flat nonce instead (observed.md §2).",
        errors=(400,),
        body=(
            Field("email", "string"),
            Field("password", "string", meaning="secret"),
            Field("remember_me", "boolean"),
            Field("device_fingerprint", "string", meaning="secret"),
        ),
        is_public=True,
    ),
    Operation(
        "authentication",
        "POST",
        "/login2fa",
        "message",
        "Completes a login with the code sent by e-mail: message, user_token and user_id, flat.",
        errors=(400,),
        body=(
            Field("code", "string", meaning="secret"),
            Field("nonce", "string", meaning="secret"),
            Field("add_device", "boolean"),
            Field("remember_me", "boolean"),
        ),
        is_public=True,
    ),
    Operation(
        "authentication", "POST", "/logout", "message", "Destroys the token; an unknown one is answered 401."
    ),
    Operation(
        "authentication",
        "GET",
        "/ping",
        "message",
        "Keeps the token alive. Observed answer: {data: {response: 'Pong', …}} (observed.md §2).",
        errors=(),
    ),
    Operation(
        "authentication",
        "POST",
        "/confirmation",
        "unknown",
        "Sends the confirmation e-mail again.",
        errors=(400,),
        body=(Field("email", "string"),),
        is_public=True,
    ),
    Operation(
        "authentication",
        "POST",
        "/password",
        "unknown",
        "Starts a password reset.",
        errors=(400,),
        body=(Field("email", "string"),),
        is_public=True,
    ),
    Operation(
        "authentication",
        "POST",
        "/reset",
        "unknown",
        "Sets a new password with the token from the reset e-mail.",
        errors=(400,),
        body=(
            Field("token", "string", meaning="secret"),
            Field("password", "string", "the new one", meaning="secret"),
        ),
        is_public=True,
    ),
    _AUTHENTICATION.list("/aclroles", "ACL roles.", "acl_role"),
    _AUTHENTICATION.read("/aclroles/{id}", "One ACL role.", "acl_role"),
)
