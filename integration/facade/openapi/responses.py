"""Request bodies and responses of the operations in the OpenAPI document."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

import orjson

from integration.catalogue.shapes import Operation
from integration.facade.exposure import EXPOSURE, Exposure
from integration.facade.files import CONTENT_TYPES
from integration.facade.openapi.parameters import has_ranges
from integration.facade.openapi.schemas import LINKS, Json, build_fields_schema
from integration.facade.subcollections import SUBCOLLECTIONS, RelatedRecords

_FILE_TYPES = {**CONTENT_TYPES, "csv": "text/csv"}
_ANY_BYTES = "application/octet-stream"
_MIRROR_HEADERS: Json = {
    "X-Mirror-Age": {
        "description": "maximum age of the data in seconds",
        "schema": {"type": "integer", "minimum": 0},
    },
    "X-Mirror-Complete": {
        "description": "true if the collection has ever been synced completely",
        "schema": {"enum": ["true", "false"]},
    },
}


def build_body(operation: Operation) -> Json:
    """Return the request body of an operation that has one."""
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


def build_responses(operation: Operation) -> Json:
    """Return the responses of an operation by status.

    Every error has the schema `error`.
    """
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
    if has_ranges(operation):
        responses["206"] = {**responses["200"], "description": HTTPStatus(206).phrase}
        example_statuses.add(416)
    facade_statuses = {400, 404, 405, 429, 502, 504} | (set() if operation.is_public else {401, 403})
    if operation.method != "GET":
        facade_statuses |= {409, 413, 415, 422, 503}
    for status in sorted({*operation.errors, *facade_statuses, *example_statuses} - set(success_statuses)):
        example = examples.get(str(status))
        responses[str(status)] = build_error(example) if example else {"$ref": "#/components/responses/error"}
    responses["default"] = {"$ref": "#/components/responses/error"}
    return responses


def build_error(example: Any) -> Json:
    """Return the response of an error."""
    content: Json = {"schema": {"$ref": "#/components/schemas/error"}}
    if example is not None:
        content["example"] = example
    return {
        "description": "Error with its reason in `message`. The status of a write is that of the platform.",
        "content": {"application/json": content},
    }


def _build_headers(operation: Operation) -> Json:
    return _MIRROR_HEADERS if EXPOSURE.get(operation.name) is Exposure.MIRROR else {}


def _build_content(operation: Operation, status: int, example: Any) -> Json:
    if operation.response_kind == "file":
        return _build_file_content(_FILE_TYPES[operation.path.rpartition(".")[2]])
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


def _build_file_content(media_type: str) -> Json:
    """Return the content of a file response.

    A file that is passed through keeps the Content-Type of the platform, often `application/octet-stream`.
    Generators of clients support this type; they refuse an operation with other binary types only.
    """
    content: Json = {media_type: {"schema": {"type": "string", "contentMediaType": media_type}}}
    if not media_type.startswith("text/"):
        content[_ANY_BYTES] = {"schema": {"type": "string", "format": "binary"}}
    return content


@cache
def _load_examples() -> dict[str, dict[str, Any]]:
    """Return example bodies by operation, then by `request` or status.

    Values are invented.
    """
    parsed: dict[str, dict[str, Any]] = orjson.loads(Path(__file__).with_name("examples.json").read_bytes())
    return parsed
