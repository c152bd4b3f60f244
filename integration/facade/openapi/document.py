"""OpenAPI 3.1 document of the facade, generated from the catalogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from integration import __version__
from integration.catalogue import OPERATIONS, RESOURCES
from integration.catalogue.shapes import Operation
from integration.catalogue.undocumented_operations import UNDOCUMENTED_OPERATIONS
from integration.facade.exposure import EXPOSURE
from integration.facade.openapi.operation_ids import build_operation_id
from integration.facade.openapi.parameters import build_parameters, write_path
from integration.facade.openapi.responses import build_body, build_error, build_responses
from integration.facade.openapi.schemas import ERROR, Json, build_record_schema

_MODULE_TITLES = {
    "authentication": "Authentication",
    "calls": "Calls",
    "storage": "SMS, fax, contacts",
    "settings": "Settings",
    "customer": "Customer and users",
    "history": "History",
    "callmeback": "Call me back",
    "reports": "Reports",
    "registration": "Registration",
}
_DESCRIPTION = (
    "The REST API of the hosted phone system, served from a mirror. A program written for the platform works "
    "here with another base URL. Reads work while the platform is unreachable. Writes are sent to the "
    "platform first; nothing is queued. Times are UTC. Paths that are not listed are passed through with the "
    "client's rights."
)


def build_document(
    base_paths: Sequence[str], max_limit: int, own_paths: Mapping[str, Json] | None = None
) -> Json:
    """Build the document.

    `base_paths` are the servers, `max_limit` is the largest page size. `own_paths`: paths of the own API,
    whose operations have a server and a tag of their own.
    """
    paths: dict[str, Json] = {}
    for operation in (*OPERATIONS, *UNDOCUMENTED_OPERATIONS):
        path_item = paths.setdefault(write_path(operation), {})
        path_item[operation.method.lower()] = _build_operation(operation, max_limit)
    own_paths = own_paths or {}
    own_tags = {tag: None for item in own_paths.values() for own in item.values() for tag in own["tags"]}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Switchroom API", "version": __version__, "description": _DESCRIPTION},
        "servers": [{"url": path} for path in base_paths],
        "security": [{"basic": []}, {"token": []}],
        "tags": [{"name": title} for title in (*_MODULE_TITLES.values(), *own_tags)],
        "paths": {**paths, **own_paths},
        "components": {
            "securitySchemes": {
                "basic": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "`user_id:secret`; a local key, a login's token or an API key",
                },
                "token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"},
            },
            "responses": {"error": build_error(None)},
            "schemas": {
                "error": ERROR,
                **{
                    schema_resource.name: build_record_schema(schema_resource)
                    for schema_resource in RESOURCES
                },
            },
        },
    }


def _build_operation(operation: Operation, max_limit: int) -> Json:
    exposure = EXPOSURE.get(operation.name)
    policy = exposure.value if exposure else "passed through to the platform"
    result: Json = {
        "operationId": build_operation_id(operation),
        "tags": [_MODULE_TITLES[operation.module]],
        "summary": operation.about,
        "description": f"{policy[0].upper()}{policy[1:]}.",
        "parameters": build_parameters(operation, max_limit),
        "responses": build_responses(operation),
        "x-policy": exposure.name.lower() if exposure else "pass_through",
    }
    if operation.is_public:
        result["security"] = []
    if operation.body is not None:
        result["requestBody"] = build_body(operation)
    return result
