"""Authentication module: sessions, the second factor, passwords, ACL roles. 9 operations."""

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
    _AUTHENTICATION.public(
        "POST",
        "/login",
        "Opens a session. Returns message, user_token and user_id without an envelope. If a second factor "
        "is enabled, the platform returns 202 with a nonce without an envelope instead.",
        body=(
            Field("email", "string"),
            Field("password", "string", meaning="secret"),
            Field("remember_me", "boolean"),
            Field("device_fingerprint", "string", meaning="secret"),
        ),
        response_kind="message",
    ),
    _AUTHENTICATION.public(
        "POST",
        "/login2fa",
        "Completes a login with the code sent by e-mail. Returns message, user_token and user_id without "
        "an envelope.",
        body=(
            Field("code", "string", meaning="secret"),
            Field("nonce", "string", meaning="secret"),
            Field("add_device", "boolean"),
            Field("remember_me", "boolean"),
        ),
        response_kind="message",
    ),
    Operation(
        "authentication", "POST", "/logout", "message", "Revokes the token. Returns 401 for an unknown token."
    ),
    Operation(
        "authentication",
        "GET",
        "/ping",
        "message",
        "Keeps the token alive. The response is {data: {response: 'Pong', …}}.",
        errors=(),
    ),
    _AUTHENTICATION.public(
        "POST", "/confirmation", "Resends the confirmation e-mail.", body=(Field("email", "string"),)
    ),
    _AUTHENTICATION.public("POST", "/password", "Starts a password reset.", body=(Field("email", "string"),)),
    _AUTHENTICATION.public(
        "POST",
        "/reset",
        "Sets a new password with the token from the reset e-mail.",
        body=(
            Field("token", "string", meaning="secret"),
            Field("password", "string", "the new password", meaning="secret"),
        ),
    ),
    _AUTHENTICATION.list("/aclroles", "ACL roles.", "acl_role"),
    _AUTHENTICATION.read("/aclroles/{id}", "One ACL role.", "acl_role"),
)
