# A host on the Python SDK: python client.py TOOL COMMAND [ARGS...]
# Says what it has seen as one line of JSON.
import json
import os
import sys

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main():
    tool, command, *args = sys.argv[1:]
    server = StdioServerParameters(command=command, args=args, env=dict(os.environ))
    async with stdio_client(server) as (reader, writer):
        async with ClientSession(reader, writer) as session:
            seen = [await session.initialize(), await session.list_tools()]
            if seen[0].capabilities.prompts:
                seen.append(await session.list_prompts())
            if tool != "-":
                name, params = tool.split("=", 1)
                seen.append(await session.call_tool(name, json.loads(params)))
            await session.send_ping()
            print(json.dumps([part.model_dump(mode="json") for part in seen]))


anyio.run(main)
