"""The facade described as OpenAPI 3.1, made from the catalogue: nothing about an operation is said twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

import orjson

from integration import __version__
from integration.catalogue import OPERATIONS, RESOURCES, resource
from integration.catalogue.json_schemas import ERROR, FILTER, LINKS, Json, fields_of, record_of
from integration.catalogue.shapes import Operation, Resource
from integration.catalogue.undocumented_operations import BEYOND
from integration.facade.exposure import EXPOSED_BEYOND, EXPOSURE, Exposure

DOCUMENTED = (*OPERATIONS, *BEYOND)
_EXPOSURE = EXPOSURE | EXPOSED_BEYOND

_MODULES = {
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
_FILES = {
    "mp3": "audio/mpeg",
    "trace": "text/plain",
    "pcap": "application/vnd.tcpdump.pcap",
    "csv": "text/csv",
    "pdf": "application/pdf",
}
_POLICIES = {
    Exposure.MIRROR: "Answered from the mirror; asked of the platform where the mirror can't tell.",
    Exposure.READ_THROUGH: "Asked of the platform each time; its last answer serves while it is away.",
    Exposure.WRITE_THROUGH: "Done by the platform; the mirror knows before the answer leaves.",
    Exposure.DESTRUCTIVE: "Done by the platform, refused with 403 unless `facade.destructive` is set.",
    Exposure.FILE: "From the archive; what is not there yet is sent on while it is fetched, and kept.",
    Exposure.PUBLIC: "Passed to the platform; needs no credentials.",
    Exposure.LOCAL: "Answered here.",
}
_ABOUT = (
    "The hosted phone system's own REST API, served from a mirror of it. A program written for the platform "
    "works here with another base URL. Reads go on while the platform is away; writes are done by the "
    "platform first, and nothing is queued. Times are UTC. Paths that are not listed are passed through with "
    "the caller's rights."
)


def document(base_paths: Sequence[str], max_limit: int) -> Json:
    """The whole document. `base_paths` are where the facade answers."""
    paths: dict[str, Json] = {}
    for operation in DOCUMENTED:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, max_limit)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Switchroom facade", "version": __version__, "description": _ABOUT},
        "servers": [{"url": path} for path in base_paths],
        "security": [{"basic": []}, {"token": []}],
        "tags": [{"name": title} for title in _MODULES.values()],
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
            "responses": {"error": _error(None)},
            "schemas": {"error": ERROR, **{row.name: record_of(row) for row in RESOURCES}},
        },
    }


def _operation(operation: Operation, max_limit: int) -> Json:
    exposure = _EXPOSURE.get(operation.name)
    policy = _POLICIES[exposure] if exposure else "Passed through to the platform."
    found: Json = {
        "operationId": operation.name,
        "tags": [_MODULES[operation.module]],
        "summary": operation.about,
        "description": policy,
        "parameters": [*_path_parameters(operation), *_query_parameters(operation, max_limit)],
        "responses": _responses(operation),
        "x-policy": exposure.name.lower() if exposure else "pass_through",
    }
    if operation.public:
        found["security"] = []
    if operation.body is not None:
        found["requestBody"] = _body(operation)
    return found


def _path_parameters(operation: Operation) -> list[Json]:
    schemas: Mapping[str, Json] = {
        "id": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
        "ids": {"type": "string", "pattern": "^[0-9]{1,18}(,[0-9]{1,18}){0,100}$"},
        "e164": {"type": "string", "pattern": "^[0-9]{1,20}$"},
    }
    plain = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}
    return [
        {"name": name, "in": "path", "required": True, "schema": schemas.get(name, plain)}
        for name in operation.parameters
    ]


def _query_parameters(operation: Operation, max_limit: int) -> list[Json]:
    if operation.method != "GET":
        key = {
            "name": "Idempotency-Key",
            "in": "header",
            "description": "A repeat with the same key within a day gets the first answer.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
        }
        return [] if operation.public else [key]
    found: list[Json] = []
    if _has_ranges(operation):
        spans = {"type": "string", "examples": ["bytes=0-99"]}
        found = [{"name": "Range", "in": "header", "description": "a part of the file", "schema": spans}]
    if operation.answer in ("collection", "dictionary") and operation.resource is not None:
        found = _paging(resource(operation.resource), max_limit)
    relations = resource(operation.resource).relations if operation.resource else ()
    for relation in relations:
        if relation.includable:
            found += [
                _query("include", f"`{relation.name}` and others: ids become objects", {"type": "string"}),
                _query(f"fields[{relation.name}]", "properties to show, a comma list", {"type": "string"}),
            ]
    return list({parameter["name"]: parameter for parameter in found}.values())


def _paging(of: Resource, max_limit: int) -> list[Json]:
    names = {"type": "string", **({"examples": [of.fields[0].name]} if of.fields else {})}
    whole = {"type": "integer", "minimum": 1}
    return [
        _query("page", "from 1", {**whole, "default": 1}),
        _query("limit", f"records per page; more than {max_limit} is taken as {max_limit}",
               {**whole, "default": max_limit}),
        {
            "name": "filter",
            "in": "query",
            "description": "All must hold. `eq` and `ne` take null; dates may be bare; `like` without `%` "
            "means contains.",
            "content": {"application/json": {"schema": FILTER}},
        },
        _query("sort", "a property", names),
        _query("dir", "order of `sort`", {"type": "string", "enum": ["ASC", "DESC"]}),
        _query("group_by", "a property: one record for each value, the newest, with its `count`", names),
    ]  # fmt: skip


def _query(name: str, about: str, schema: Json) -> Json:
    return {"name": name, "in": "query", "description": about, "schema": schema}


def _responses(operation: Operation) -> Json:
    found: Json = {}
    examples = _examples().get(operation.name, {})
    told = {int(status) for status in examples if status != "request"}
    done = sorted({*operation.success, *(status for status in told if status < 300)})
    for status in done:
        found[str(status)] = {
            "description": HTTPStatus(status).phrase,
            "headers": _headers(operation),
            "content": _content(operation, status, examples.get(str(status))),
        }
        if not found[str(status)]["content"]:
            del found[str(status)]["content"]
    if _has_ranges(operation):
        found["206"] = {**found["200"], "description": HTTPStatus(206).phrase}
        told.add(416)
    ours = {400, 404, 405, 429, 502, 504} | (set() if operation.public else {401, 403})
    if operation.method != "GET":
        ours |= {409, 413, 415, 422, 503}
    for status in sorted({*operation.errors, *ours, *told} - set(done)):
        example = examples.get(str(status))
        found[str(status)] = _error(example) if example else {"$ref": "#/components/responses/error"}
    found["default"] = {"$ref": "#/components/responses/error"}
    return found


def _has_ranges(operation: Operation) -> bool:
    """Files of the archive; a user's CDRs are made anew each time."""
    return _EXPOSURE.get(operation.name) is Exposure.FILE and not operation.path.endswith(".csv")


def _error(example: Any) -> Json:
    content: Json = {"schema": {"$ref": "#/components/schemas/error"}}
    if example is not None:
        content["example"] = example
    return {
        "description": "What is wrong, in `message`; the status of a write is the platform's own.",
        "content": {"application/json": content},
    }


def _headers(operation: Operation) -> Json:
    if _EXPOSURE.get(operation.name) is not Exposure.MIRROR:
        return {}
    return {
        "X-Mirror-Age": {"description": "seconds", "schema": {"type": "integer", "minimum": 0}},
        "X-Mirror-Complete": {
            "description": "whether the collection was ever read to its end",
            "schema": {"enum": ["true", "false"]},
        },
    }


def _content(operation: Operation, status: int, example: Any) -> Json:
    if operation.answer == "file":
        schema: Json = {"type": "string", "contentMediaType": _FILES[operation.path.rpartition(".")[2]]}
        return {schema["contentMediaType"]: {"schema": schema}}
    if status == 204:
        return {}
    record: Json = {"type": "object"}
    if operation.resource is not None:
        record = {"$ref": f"#/components/schemas/{operation.resource}"}
    shape: Json = {}
    if operation.answer in ("collection", "dictionary"):
        shape = {
            "type": "object",
            "required": ["data", "total"],
            "properties": {"data": {"type": "array", "items": record}, "total": {"type": "integer"}},
        }
    elif operation.answer == "item":
        shape = {
            "type": "object",
            "required": ["data"],
            "properties": {"data": record, "links": LINKS},
        }
    elif operation.answer == "message":
        shape = {"type": "object", "properties": {"message": {"type": "string"}}}
    content: Json = {"schema": shape}
    if example is not None:
        content["example"] = example
    return {"application/json": content}


def _body(operation: Operation) -> Json:
    record = fields_of(operation.body or (), required=True)
    schema = {"type": "array", "items": record} if operation.bulk else record
    content: Json = {"schema": schema}
    example = _examples().get(operation.name, {}).get("request")
    if example is not None:
        content["example"] = example
    return {
        "required": any(field.required for field in operation.body or ()),
        "content": {"application/json": content},
    }


@cache
def _examples() -> dict[str, dict[str, Any]]:
    """By operation: `request` and statuses → bodies. Invented values in the platform's own types."""
    parsed: dict[str, dict[str, Any]] = orjson.loads(Path(__file__).with_name("examples.json").read_bytes())
    return parsed
