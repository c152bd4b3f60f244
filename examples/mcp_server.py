"""Offer calls, call-backs and reports to a language model. Needs `pip install fastmcp httpx2`.

URL   address of Switchroom
KEY   key of `switchroom key add assistant --scope read --grant workspace`. With the scope `write` the model
      can also claim, note and close call-backs.

An MCP client starts it: {"command": "python", "args": ["mcp_server.py"], "env": {"URL": "…", "KEY": "…"}}.
"""

import os

import httpx2
from fastmcp import FastMCP

TOOLS = {
    "list_joined_calls",
    "get_joined_call",
    "list_events",
    "get_report",
    "list_users",
    "list_contacts",
    "list_callbacks",
    "claim_callback",
    "note_callback",
    "done_callback",
}

URL = os.environ["URL"]
user, _, secret = os.environ["KEY"].partition(":")
document = httpx2.get(f"{URL}/openapi.json", auth=(user, secret)).raise_for_status().json()
paths = {}
for path, operations in document["paths"].items():
    for method, operation in operations.items():
        if method in ("get", "post") and operation["operationId"] in TOOLS:
            [server, *_] = operation.get("servers", document["servers"])
            paths.setdefault(server["url"].rstrip("/") + path, {})[method] = operation

server = FastMCP.from_openapi(
    {**document, "servers": [{"url": URL}], "paths": paths},
    client=httpx2.AsyncClient(base_url=URL, auth=(user, secret), timeout=60),
    name="Switchroom",
    validate_output=False,
)
server.run(show_banner=False)
