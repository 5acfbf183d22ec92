# A host on the Python SDK that asks which era a server is of: python modern.py TOOL COMMAND [ARGS...]
# Says what it has seen as one line of JSON.
import json
import os
import sys

import anyio
from mcp import Client, StdioServerParameters


async def main():
    tool, command, *args = sys.argv[1:]
    server = StdioServerParameters(command=command, args=args, env=dict(os.environ))
    async with Client(server) as client:
        seen = [client.server_capabilities, await client.list_tools()]
        if tool != "-":
            name, params = tool.split("=", 1)
            seen.append(await client.call_tool(name, json.loads(params)))
        seen = [part.model_dump(mode="json") for part in seen]
        print(json.dumps([client.protocol_version, *seen]))


anyio.run(main)
