"""examples/mcp_server.py, requested by the client of FastMCP."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.examples.reader import Reader
from tests.support.application import running_app
from tests.support.people import ALICE

pytestmark = pytest.mark.exhaustive


def test_a_client_lists_ten_tools_and_calls_them(tmp_path: Path) -> None:
    with running_app(tmp_path / "data") as app:
        app.add(ALICE)
        app.put("users", {"id": 100, "first_name": "Ann", "last_name": "Example", "ext": "1001"})
        app.call(1, "2026-10-05 08:30:00", party_name="Dora Example")
        app.call(2, "2026-10-05 09:30:00", outcome="missed", talk_seconds=None)
        reader = Reader("examples/mcp_server.py", app, tmp_path)
        # In a thread of its own: after tests with a browser this one has a running event loop.
        with ThreadPoolExecutor(1) as executor:
            tools, results = executor.submit(lambda: asyncio.run(call_tools(reader))).result()
    assert tools == sorted((
        "list_joined_calls", "get_joined_call", "list_events", "get_report", "list_users", "list_contacts",
        "list_callbacks", "claim_callback", "note_callback", "done_callback",
    ))  # fmt: skip
    calls, call, report, users = results
    assert [entry["id"] for entry in calls["data"]] == [2]
    assert call["data"]["party_name"] == "Dora Example"
    assert report["data"]["total"]["answered"] == 1
    assert users["data"][0]["ext"] == "1001"


async def call_tools(reader: Reader) -> tuple[list[str], list[Any]]:
    # Imported here: in the extra `examples`, which the suite does not install.
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport
    from fastmcp.exceptions import ToolError

    transport = StdioTransport(sys.executable, [str(reader.script)], env=reader.environment, keep_alive=False)
    async with Client(transport) as client:
        tools = sorted(tool.name for tool in await client.list_tools())
        results = [
            (await client.call_tool(name, arguments)).structured_content
            for name, arguments in (
                ("list_joined_calls", {"outcome": "missed"}),
                ("get_joined_call", {"id": 1}),
                ("get_report", {"period": "2026-10-01..2026-10-31"}),
                ("list_users", {"limit": 5}),
            )
        ]
        with pytest.raises(ToolError, match="403"):
            await client.call_tool("note_callback", {"id": 1, "note": "The key has the scope read."})
    return tools, results
