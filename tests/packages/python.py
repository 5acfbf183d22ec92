"""A host: starts a server, calls a tool, says what it answered and after how long, and waits to be killed."""

import asyncio
import sys
import time

import mcp
from mcp import StdioServerParameters


async def main() -> None:
    how, command, *args = sys.argv[1:]
    params = StdioServerParameters(command=command, args=args)
    if how == "path":
        params = StdioServerParameters(command="mcp-contain", args=[command, *args])
    elif how == "contained":
        # Where the package of Debian is tried, there is no module.
        from mcp_contain import contained, orphans, reap

        params = contained(params, grace=1.0, require="guardian")
        assert not orphans()["orphans"] and not reap()["failed"]
    since = time.monotonic()
    if hasattr(mcp, "Client"):
        async with mcp.Client(params) as client:
            await answered(client, since)
    else:
        async with mcp.stdio_client(params) as streams, mcp.ClientSession(*streams) as session:
            await session.initialize()
            await answered(session, since)


async def answered(client: "mcp.Client | mcp.ClientSession", since: float) -> None:
    result = await client.call_tool("get_current_time", {"timezone": "UTC"})
    text = result.content[0]
    assert isinstance(text, mcp.types.TextContent) and '"UTC"' in text.text, result
    print(f"answered after {time.monotonic() - since:.2f} s", flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
