# A host on the Python SDK: python host.py COMMAND [ARGS...]
# Asks a server for its tools, and ends it as its SDK does when its own input ends.
import sys

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main():
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:])
    async with stdio_client(server) as (reader, writer):
        async with ClientSession(reader, writer) as session:
            await session.initialize()
            print("tools:", len((await session.list_tools()).tools), flush=True)
            await anyio.to_thread.run_sync(sys.stdin.read)


anyio.run(main)
