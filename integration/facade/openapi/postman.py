"""Collection of requests for Postman and Bruno, generated from the OpenAPI document."""

from __future__ import annotations

import re

import orjson

from integration.facade.openapi.schemas import Json, make_example

SCHEMA_URL = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
"""Format of the collection. Bruno imports this format."""

_DEFAULT_VALUES = {"base": "http://127.0.0.1:8000/v1.2", "user_id": "", "secret": ""}
"""Variables of every collection: base URL, and the two parts of a key."""


def build_collection(document: Json) -> Json:
    """Build a collection: one request for each operation, in folders."""
    folders: dict[str, list[Json]] = {tag["name"]: [] for tag in document["tags"]}
    names: dict[str, str] = {}
    for path, path_item in document["paths"].items():
        names |= dict.fromkeys(re.findall(r"{(\w+)}", path), "")
        for method, operation in path_item.items():
            folders[operation["tags"][0]].append(_build_request(method.upper(), path, operation))
    variables = _DEFAULT_VALUES | names
    return {
        "info": {
            "name": document["info"]["title"],
            "description": document["info"]["description"],
            "version": document["info"]["version"],
            "schema": SCHEMA_URL,
        },
        "auth": {
            "type": "basic",
            "basic": [
                {"key": "username", "value": "{{user_id}}", "type": "string"},
                {"key": "password", "value": "{{secret}}", "type": "string"},
            ],
        },
        "variable": [{"key": name, "value": value, "type": "string"} for name, value in variables.items()],
        "item": [{"name": name, "item": requests} for name, requests in folders.items()],
    }


def _build_request(method: str, path: str, operation: Json) -> Json:
    path = re.sub(r"{(\w+)}", r"{{\1}}", path)
    query = [
        {
            "key": parameter["name"],
            "value": str(parameter.get("example", "")),
            "description": parameter["description"],
            # A parameter without an example is in the list, but not sent.
            "disabled": "example" not in parameter,
        }
        for parameter in operation["parameters"]
        if parameter["in"] == "query"
    ]
    sent = [f"{entry['key']}={entry['value']}" for entry in query if not entry["disabled"]]
    request: Json = {
        "method": method,
        "header": [],
        "url": {
            "raw": "{{base}}" + path + ("?" + "&".join(sent) if sent else ""),
            "host": ["{{base}}"],
            "path": path.strip("/").split("/"),
            "query": query,
        },
        "description": f"{operation['summary']} {operation['description']}",
    }
    if operation.get("security") == []:
        request["auth"] = {"type": "noauth"}
    if "requestBody" in operation:
        request["header"] = [{"key": "Content-Type", "value": "application/json"}]
        content = operation["requestBody"]["content"]["application/json"]
        example = content.get("example", make_example(content["schema"]))
        request["body"] = {
            "mode": "raw",
            "raw": orjson.dumps(example, option=orjson.OPT_INDENT_2).decode(),
            "options": {"raw": {"language": "json"}},
        }
    return {"name": operation["operationId"], "request": request, "response": []}
