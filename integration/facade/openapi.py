"""OpenAPI 3.1 document of the facade, generated from the catalogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

import orjson

from integration import __version__
from integration.catalogue import OPERATIONS, RESOURCES, get_resource
from integration.catalogue.json_schemas import (
    ERROR,
    FILTER,
    LINKS,
    Json,
    build_fields_schema,
    build_record_schema,
)
from integration.catalogue.shapes import Operation, Resource
from integration.catalogue.undocumented_operations import UNDOCUMENTED_OPERATIONS
from integration.core.ids import MAX_ID
from integration.facade.exposure import EXPOSURE, UNDOCUMENTED_EXPOSURE, Exposure
from integration.facade.query_parameters import list_query_names
from integration.facade.subcollections import SUBCOLLECTIONS, RelatedRecords

_EXPOSURE = EXPOSURE | UNDOCUMENTED_EXPOSURE

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
_FILE_TYPES = {
    "mp3": "audio/mpeg",
    "trace": "text/plain",
    "pcap": "application/vnd.tcpdump.pcap",
    "csv": "text/csv",
    "pdf": "application/pdf",
}
_POLICIES = {
    Exposure.MIRROR: "Served from the mirror; requested from the platform if the mirror lacks data.",
    Exposure.READ_THROUGH: "Requested from the platform each time; the cached last response is returned "
    "while the platform is unreachable.",
    Exposure.WRITE_THROUGH: "Sent to the platform; the result is in the mirror before the response is sent.",
    Exposure.DESTRUCTIVE: "Sent to the platform; refused with 403 unless `facade.destructive` is set.",
    Exposure.FILE: "Served from the archive; a missing file is sent during its download, and stored.",
    Exposure.PUBLIC: "Passed to the platform; needs no credentials.",
    Exposure.LOCAL: "Handled by Switchroom.",
}
_DESCRIPTION = (
    "The REST API of the hosted phone system, served from a mirror. A program written for the platform works "
    "here with another base URL. Reads work while the platform is unreachable. Writes are sent to the "
    "platform first; nothing is queued. Times are UTC. Paths that are not listed are passed through with the "
    "client's rights."
)


def build_document(base_paths: Sequence[str], max_limit: int) -> Json:
    """Build the document.

    `base_paths` are the servers, `max_limit` is the largest page size.
    """
    paths: dict[str, Json] = {}
    for operation in (*OPERATIONS, *UNDOCUMENTED_OPERATIONS):
        paths.setdefault(operation.path, {})[operation.method.lower()] = _build_operation(
            operation, max_limit
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": "Switchroom API", "version": __version__, "description": _DESCRIPTION},
        "servers": [{"url": path} for path in base_paths],
        "security": [{"basic": []}, {"token": []}],
        "tags": [{"name": title} for title in _MODULE_TITLES.values()],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "basic": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "`user_id:secret`; a local key, a login's token or an API key",
                },
                "token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"},
            },
            "responses": {"error": _build_error(None)},
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
    exposure = _EXPOSURE.get(operation.name)
    policy = _POLICIES[exposure] if exposure else "Passed through to the platform."
    result: Json = {
        "operationId": operation.name,
        "tags": [_MODULE_TITLES[operation.module]],
        "summary": operation.about,
        "description": policy,
        "parameters": [*_build_path_parameters(operation), *_build_query_parameters(operation, max_limit)],
        "responses": _build_responses(operation),
        "x-policy": exposure.name.lower() if exposure else "pass_through",
    }
    if operation.is_public:
        result["security"] = []
    if operation.body is not None:
        result["requestBody"] = _build_body(operation)
    return result


def _build_path_parameters(operation: Operation) -> list[Json]:
    schemas: Mapping[str, Json] = {
        "id": {"type": "integer", "minimum": 0, "maximum": MAX_ID},
        "ids": {"type": "string", "pattern": "^[0-9]{1,18}(,[0-9]{1,18}){0,100}$"},
        "e164": {"type": "string", "pattern": "^[0-9]{1,20}$"},
    }
    default_schema = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}
    return [
        {"name": name, "in": "path", "required": True, "schema": schemas.get(name, default_schema)}
        for name in operation.parameters
    ]


def _build_query_parameters(operation: Operation, max_limit: int) -> list[Json]:
    if operation.method != "GET":
        key_parameter = {
            "name": "Idempotency-Key",
            "in": "header",
            "description": "A repeat with the same key within a day gets the first response.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
        }
        named_parameters = _build_named_parameters(operation, max_limit)
        return named_parameters if operation.is_public else [key_parameter, *named_parameters]
    parameters = []
    if _has_ranges(operation):
        range_schema = {"type": "string", "examples": ["bytes=0-99"]}
        parameters = [
            {"name": "Range", "in": "header", "description": "byte range of the file", "schema": range_schema}
        ]
    return parameters + _build_named_parameters(operation, max_limit)


def _build_named_parameters(operation: Operation, max_limit: int) -> list[Json]:
    subcollection = SUBCOLLECTIONS.get(operation.name)
    target = get_resource(operation.resource) if operation.resource else None
    if subcollection is not None:
        target = subcollection.resource
    described = {parameter["name"]: parameter for parameter in _build_paging_parameters(target, max_limit)}
    for relation in target.relations if target else ():
        if relation.is_includable:
            described["include"] = _build_query_parameter(
                "include", f"`{relation.name}` and others: ids become objects", {"type": "string"}
            )
            described[f"fields[{relation.name}]"] = _build_query_parameter(
                f"fields[{relation.name}]", "properties to return, separated by commas", {"type": "string"}
            )
    return [described[name] for name in list_query_names(operation)]


def _build_paging_parameters(target: Resource | None, max_limit: int) -> list[Json]:
    examples = {"examples": [target.fields[0].name]} if target is not None and target.fields else {}
    name_schema = {"type": "string", **examples}
    positive_integer = {"type": "integer", "minimum": 1}
    return [
        _build_query_parameter("page", "from 1", {**positive_integer, "default": 1}),
        _build_query_parameter("limit", f"records per page; a larger value is treated as {max_limit}",
               {**positive_integer, "default": max_limit}),
        {
            "name": "filter",
            "in": "query",
            "description": "Conditions are combined with AND. `eq` and `ne` accept null. A date without a "
            "time means its midnight. `like` without `%` means contains.",
            "content": {"application/json": {"schema": FILTER}},
        },
        _build_query_parameter("sort", "a property", name_schema),
        _build_query_parameter("dir", "order of `sort`", {"type": "string", "enum": ["ASC", "DESC"]}),
        _build_query_parameter(
            "group_by", "a property: the newest record of each value, with a `count`", name_schema
        ),
    ]  # fmt: skip


def _build_query_parameter(name: str, description: str, schema: Json) -> Json:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _build_responses(operation: Operation) -> Json:
    responses: Json = {}
    examples = _load_examples().get(operation.name, {})
    example_statuses = {int(status) for status in examples if status != "request"}
    success_statuses = sorted({*operation.success, *(status for status in example_statuses if status < 300)})
    for status in success_statuses:
        responses[str(status)] = {
            "description": HTTPStatus(status).phrase,
            "headers": _build_headers(operation),
            "content": _build_content(operation, status, examples.get(str(status))),
        }
        if not responses[str(status)]["content"]:
            del responses[str(status)]["content"]
    if _has_ranges(operation):
        responses["206"] = {**responses["200"], "description": HTTPStatus(206).phrase}
        example_statuses.add(416)
    facade_statuses = {400, 404, 405, 429, 502, 504} | (set() if operation.is_public else {401, 403})
    if operation.method != "GET":
        facade_statuses |= {409, 413, 415, 422, 503}
    for status in sorted({*operation.errors, *facade_statuses, *example_statuses} - set(success_statuses)):
        example = examples.get(str(status))
        responses[str(status)] = (
            _build_error(example) if example else {"$ref": "#/components/responses/error"}
        )
    responses["default"] = {"$ref": "#/components/responses/error"}
    return responses


def _has_ranges(operation: Operation) -> bool:
    """Return whether a response supports Range.

    Archived files support Range, generated CSV files do not.
    """
    return _EXPOSURE.get(operation.name) is Exposure.FILE and not operation.path.endswith(".csv")


def _build_error(example: Any) -> Json:
    content: Json = {"schema": {"$ref": "#/components/schemas/error"}}
    if example is not None:
        content["example"] = example
    return {
        "description": "Error with its reason in `message`. The status of a write is that of the platform.",
        "content": {"application/json": content},
    }


def _build_headers(operation: Operation) -> Json:
    if _EXPOSURE.get(operation.name) is not Exposure.MIRROR:
        return {}
    return {
        "X-Mirror-Age": {
            "description": "maximum age of the data in seconds",
            "schema": {"type": "integer", "minimum": 0},
        },
        "X-Mirror-Complete": {
            "description": "true if the collection has ever been synced completely",
            "schema": {"enum": ["true", "false"]},
        },
    }


def _build_content(operation: Operation, status: int, example: Any) -> Json:
    if operation.response_kind == "file":
        schema: Json = {"type": "string", "contentMediaType": _FILE_TYPES[operation.path.rpartition(".")[2]]}
        return {schema["contentMediaType"]: {"schema": schema}}
    if status == 204:
        return {}
    subcollection = SUBCOLLECTIONS.get(operation.name)
    related = subcollection.resource if isinstance(subcollection, RelatedRecords) else None
    record: Json = {"type": "object"}
    resource_name = operation.resource if related is None else related.name
    if resource_name is not None:
        record = {"$ref": f"#/components/schemas/{resource_name}"}
    shape: Json = {}
    if related is not None or operation.response_kind in ("collection", "dictionary"):
        shape = {
            "type": "object",
            "required": ["data", "total"],
            "properties": {"data": {"type": "array", "items": record}, "total": {"type": "integer"}},
        }
    elif operation.response_kind == "item":
        shape = {
            "type": "object",
            "required": ["data"],
            "properties": {"data": record, "links": LINKS},
        }
    elif operation.response_kind == "message":
        shape = {"type": "object", "properties": {"message": {"type": "string"}}}
    content: Json = {"schema": shape}
    if example is not None:
        content["example"] = example
    return {"application/json": content}


def _build_body(operation: Operation) -> Json:
    record = build_fields_schema(operation.body or (), required=True)
    schema = {"type": "array", "items": record} if operation.is_bulk else record
    content: Json = {"schema": schema}
    example = _load_examples().get(operation.name, {}).get("request")
    if example is not None:
        content["example"] = example
    return {
        "required": any(field.required for field in operation.body or ()),
        "content": {"application/json": content},
    }


@cache
def _load_examples() -> dict[str, dict[str, Any]]:
    """Return example bodies by operation, then by `request` or status.

    Values are invented.
    """
    parsed: dict[str, dict[str, Any]] = orjson.loads(Path(__file__).with_name("examples.json").read_bytes())
    return parsed
