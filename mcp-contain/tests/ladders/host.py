# A host on the Python SDK: python host.py COMMAND [ARGS...]
import sys

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main():
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:])
    async with stdio_client(server) as (reader, writer):
        async with ClientSession(reader, writer) as session:
            await session.initialize()
            print(len((await session.list_tools()).tools), flush=True)


anyio.run(main)
