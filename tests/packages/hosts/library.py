"""`library.py LIBRARY bare|contained TOOL ARGUMENTS COMMAND|URL`: a host that is written with this library. It prints what the tool answers."""

import asyncio
import json
import sys
from typing import Any

library, how, tool, arguments, command = sys.argv[1:]
arguments = json.loads(arguments)
args: list[str] = []
if how == "contained":
    from mcp import StdioServerParameters
    from mcp_contain import contained

    params = contained(StdioServerParameters(command=command, args=[]))
    command, args = params.command, params.args


async def fastmcp() -> Any:
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    async with Client(command if command.startswith("http:") else StdioTransport(command, args)) as client:
        return (await client.call_tool(tool, arguments)).content[0].text


async def openai_agents() -> Any:
    from agents.mcp import MCPServerStdio

    async with MCPServerStdio({"command": command, "args": args}, client_session_timeout_seconds=600) as server:
        return (await server.call_tool(tool, arguments)).content[0].text


async def pydantic_ai() -> Any:
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def model(messages: Any, _info: Any) -> Any:
        part = messages[-1].parts[-1]
        return ModelResponse([TextPart(str(part.content)) if part.part_kind == "tool-return" else ToolCallPart(tool, arguments)])

    agent = Agent(FunctionModel(model), toolsets=[MCPToolset(StdioTransport(command, args))])
    return (await agent.run("Use the tool.")).output


async def langchain_mcp_adapters() -> Any:
    from langchain_mcp_adapters.client import MultiServerMCPClient

    client = MultiServerMCPClient({"server": {"transport": "stdio", "command": command, "args": args}})
    tools = {found.name: found for found in await client.get_tools()}
    return (await tools[tool].ainvoke(arguments))[0]["text"]


print(asyncio.run(globals()[library.replace("-", "_")]()))
